"""The data of a run: how much there is, how long it is, what was left out, and what test and training data share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from weft.apps.reporting.section import note, paragraph
from weft.data.filtering.length_histogram import PERCENTILES, LengthHistogram
from weft.data.filtering.statistics import CorpusStatistics, SideStatistics
from weft.data.fingerprints import Fingerprints, Overlap
from weft.data.pairs import Pair
from weft.data.preparation import find_corpora, has_corpus, read_corpus
from weft.errors import DataError, plural
from weft.evaluation.confusions import Units, choose_units
from weft.pictures.corpus_report import UNSPACED, percent
from weft.pictures.histogram import bins
from weft.pictures.html.charts import Bar, bar_chart
from weft.pictures.html.elements import Html, data_text, element, join, table
from weft.recipe import Recipe
from weft.runs.training_log import TrainingLog
from weft.translation.translator import Translator

MAX_PAIRS = 200_000
"""Pairs of a split that are read."""
BLOCK = 4096
SAMPLES = 5
SPLITS = {"train": "training", "valid": "validation", "test": "test"}


class Frequencies(NamedTuple):
    """Frequencies of words or characters in the training data, on both sides."""

    source: Counter[str]
    target: Counter[str]
    units: tuple[Units, Units]


@dataclass(frozen=True)
class SplitData:
    """Training, validation or test data."""

    name: str
    statistics: CorpusStatistics | None
    problem: str = ""
    """The reason why it could not be read completely; empty if it was."""
    overlap: Overlap | None = None
    """Overlap with the training data."""

    def record(self) -> dict[str, Any]:
        return {
            "problem": self.problem or None,
            "in_training_data": None if self.overlap is None else self.overlap.record(),
            **({} if self.statistics is None else self.statistics.record()),
        }


@dataclass(frozen=True)
class DataSection:
    """The training, validation and test data of a run."""

    splits: list[SplitData]
    trained_pairs: int | None
    """Number of training pairs; None if the log does not contain it."""
    dropped: Mapping[str, int]
    """Rows that were not trained on, by reason."""
    vocabularies: tuple[int, int]
    has_source: bool = True
    reads_arrays: bool = False
    """Whether the sources are names of files, whose letters say nothing."""
    frequencies: Frequencies | None = field(default=None, repr=False)
    """Frequencies in the training data; None if these could not be read."""
    key: str = "data"
    title: str = "Data"

    def record(self) -> dict[str, Any]:
        return {
            "trained_pairs": self.trained_pairs,
            "dropped": dict(self.dropped),
            "vocabulary": dict(zip(("source", "target"), self.vocabularies, strict=True)),
            **{split.name: split.record() for split in self.splits},
        }

    def html(self) -> Html:
        source, target = self.vocabularies
        reads_texts = self.has_source and not self.reads_arrays
        sizes = f"{source:,} source and {target:,} target tokens" if reads_texts else f"{target:,} tokens"
        trained = f"Trained on {plural(self.trained_pairs, 'pair')}. " if self.trained_pairs else ""
        parts = [paragraph(f"{trained}Vocabulary: {sizes}."), self._sizes()]
        if self.dropped:
            rows = [(reason, f"{count:,}") for reason, count in self.dropped.items()]
            parts.append(table(("left out of training", "rows"), rows, numbers=[1]))
        parts += [note(f"{split.name} data: {split.problem}") for split in self.splits if split.problem]
        parts.append(self._lengths())
        training = self.splits[0].statistics
        if training is not None and training.pairs:
            parts.append(element("div", *self._histograms(training), class_="charts"))
            parts.append(_samples(training, has_source=self.has_source))
        return join(parts)

    def _sizes(self) -> Html:
        rows = []
        for name, statistics, _, overlap in map(_fields, self.splits):
            if statistics is None:
                continue
            shares = ["", ""]
            if overlap is not None:
                shares = [percent(count, overlap.compared) for count in (overlap.sources, overlap.pairs)]
            duplicates = percent(statistics.duplicate_pairs(), statistics.compared)
            rows.append([name, f"{statistics.pairs:,}", duplicates, *shares])
        header = ["", "pairs", "duplicates", "source in training", "pair in training"]
        return table(header, rows, numbers=range(1, 5)) if rows else Html("")

    def _lengths(self) -> Html:
        rows = []
        for name, statistics, _, _ in map(_fields, self.splits):
            for label, side in self._sides(statistics):
                unit, lengths = _side_lengths(side)
                percentiles = [f"{lengths.percentile(value):,}" for value in PERCENTILES]
                scripts = ", ".join(
                    f"{script} {100 * share:.0f} %" for script, share in list(side.scripts().items())[:2]
                )
                rows.append(
                    [f"{name}, {label}", unit, f"{lengths.mean:,.1f}", *percentiles, f"{lengths.max:,}", scripts]
                )
        header = ["length", "in", "mean", *(f"{value} %" for value in PERCENTILES), "longest", "letters"]
        return table(header, rows, numbers=range(2, 7)) if rows else Html("")

    def _sides(self, statistics: CorpusStatistics | None) -> Iterator[tuple[str, SideStatistics]]:
        if statistics is not None:
            if self.has_source and not self.reads_arrays:
                yield "source", statistics.source
            yield "target" if self.has_source else "text", statistics.target

    def _histograms(self, training: CorpusStatistics) -> Iterator[Html]:
        for label, side in self._sides(training):
            unit, lengths = _side_lengths(side)
            bars = []
            for item in bins(lengths.counts, 16):
                span = _range(item.first, item.last)
                bars.append(Bar(span, item.frequency, f"{span} {unit}: {item.frequency:,}"))
            yield bar_chart(f"Length of a {label} in the training data", bars, x_name=unit)


def data_section(
    run: Translator, log: TrainingLog | None, known: Mapping[str, list[Pair]] | None = None
) -> DataSection:
    """Read the training, validation and test data that exist; missing or unreadable data are not an error.

    ``known``: the pairs of splits that were read before.
    """
    recipe = run.recipe
    fingerprints = None if run.folder is None else Fingerprints.load(run.folder)
    splits = []
    frequencies = None
    for split, name in SPLITS.items():
        if not has_corpus(recipe, split):
            continue
        pairs, problem = (known[split], "") if known and split in known else _read(recipe, split)
        if not pairs:
            splits.append(SplitData(name, None, problem or "it has no pairs"))
            continue
        statistics = CorpusStatistics(samples=SAMPLES if split == "train" else 0, seed=recipe.seed)
        for start in range(0, len(pairs), BLOCK):
            statistics.add(pairs[start : start + BLOCK])
        overlap = None
        if split == "train":
            frequencies = _frequencies(pairs, recipe)
        elif fingerprints is not None:
            overlap = fingerprints.overlap(pairs)
        splits.append(SplitData(name, statistics, problem, overlap))
    started = {} if log is None or log.started is None else log.started
    trained, dropped = started.get("pairs"), started.get("dropped")
    return DataSection(
        splits,
        trained if isinstance(trained, int) else None,
        {str(reason): count for reason, count in dropped.items() if isinstance(count, int)}
        if isinstance(dropped, dict)
        else {},
        (run.tokenizers.source.size, run.tokenizers.target.size),
        has_source=recipe.source_role != "none",
        reads_arrays=recipe.tokenizer.reads_arrays,
        frequencies=frequencies,
    )


def _fields(split: SplitData) -> tuple[str, CorpusStatistics | None, str, Overlap | None]:
    return split.name, split.statistics, split.problem, split.overlap


def _read(recipe: Recipe, split: str) -> tuple[list[Pair], str]:
    """The pairs of a split, at most `MAX_PAIRS`, and what was wrong with it."""
    pairs: list[Pair] = []
    try:
        if any("-" in entry.corpus.paths() for entry in find_corpora(recipe, split)):
            return pairs, "was read from standard input"
        pairs.extend(islice(read_corpus(recipe, split), MAX_PAIRS + 1))
    except (DataError, OSError) as error:
        return pairs, f"cannot be read: {error}"
    if len(pairs) > MAX_PAIRS:
        return pairs[:MAX_PAIRS], f"the figures are those of the first {MAX_PAIRS:,} pairs"
    return pairs, ""


def _frequencies(pairs: list[Pair], recipe: Recipe) -> Frequencies:
    source_units = choose_units((pair.source for pair in pairs), recipe.tokenizer.kind)
    target_units = choose_units((pair.target for pair in pairs), recipe.tokenizer.target_unit)
    source: Counter[str] = Counter()
    target: Counter[str] = Counter()
    for pair in pairs:
        source.update(source_units.split(pair.source))
        target.update(target_units.split(pair.target))
    return Frequencies(source, target, (source_units, target_units))


def _side_lengths(side: SideStatistics) -> tuple[str, LengthHistogram]:
    """Lengths in words, or in characters where words are not separated by spaces or each text is one word."""
    if next(iter(side.scripts()), "") in UNSPACED or side.words.max <= 1:
        return "characters", side.characters
    return "words", side.words


def _range(first: int, last: int | None) -> str:
    return f"≥{first}" if last is None else str(first) if first == last else f"{first}–{last}"


def _samples(statistics: CorpusStatistics, *, has_source: bool) -> Html:
    rows = [(data_text(pair.source), data_text(pair.target)) for _, pair in statistics.samples()]
    if not has_source:
        return table(("some training texts",), [(target,) for _, target in rows])
    return table(("some training pairs: source", "target"), rows)
