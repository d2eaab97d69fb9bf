"""The training data of a student, beside its run folder RUN.

    RUN.distillation/train-1.jsonl        the first corpus of data.train with the teacher's outputs as targets
    RUN.distillation/monolingual-1.jsonl  the first monolingual file with the teacher's outputs
    RUN.distillation/references-1.jsonl   the pairs that data.holdout leaves in the first corpus, if it holds out any
    RUN.distillation/valid-1.jsonl        those that it holds out, and test-1.jsonl

Sources are written as they are in the corpus: the pipeline and the tag of a corpus apply when the student is trained.
Steps of data.pipeline that make new pairs (`splice`, `exchange`, `substitute`) are an exception: they make further
sources for the teacher, which knows their targets better, and are left out when the student is trained.
A mixture with references has weights: the share of the references, spread over the corpora in proportion to theirs.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from weft.data.filtering.pipeline import Pipeline
from weft.data.pairs import Pair
from weft.data.preparation.corpora import CorpusEntry, find_corpora, has_corpus, pipeline_steps, read_entry
from weft.data.reading.lines import read_lines
from weft.errors import DataError
from weft.files import replacing
from weft.pairs.distillation.method import Method
from weft.pairs.distillation.targets import OutputJob, SourceText, WrittenOutputs, write_outputs
from weft.recipe import Recipe
from weft.recipe.choices import UTILITIES, resolve
from weft.recipe.data import CorpusSettings, DataSettings, as_list
from weft.text.columns import split_columns
from weft.training.events import Event

if TYPE_CHECKING:
    from weft.data.filtering.steps import Step
    from weft.translation.translator import Translator

MIXED = ("tag", "first_step", "last_step")
"""Settings of a corpus that hold for the teacher's outputs too."""
MOST_MADE = 10_000
"""Sources that the pipeline makes for the teacher at most, for each corpus."""


@dataclass(frozen=True)
class TargetsWritten(Event):
    """A file of pairs with the teacher's outputs is complete."""

    path: str
    pairs: int
    left_out: int = 0
    """Sources without a pair: too long, without an output, or with one that was cut off at the length limit."""
    seconds: float = 0.0
    """0: it was complete before."""


class DistilledCorpora(NamedTuple):
    """The corpora that a student is trained on, and how they are made."""

    recipe: Recipe
    """Its [data] names the pairs."""
    method: Method
    monolingual: Sequence[Path]
    """Files of further sources."""
    folder: Path
    """RUN.distillation."""
    teacher: Callable[[], Translator]
    made_by: dict[str, Any]
    """Everything that must match for an unfinished file to be continued."""

    def write(self) -> Generator[TargetsWritten, None, DataSettings]:
        """Write the files that are not complete; returns [data] of the student."""
        recipe, data = self.recipe, self.recipe.data
        if not self.method.uses_outputs and not self.monolingual:
            return data.model_copy(update={"prepared": None})
        entries = find_corpora(recipe, "train")
        outputs = []
        for number, entry in enumerate(entries, 1) if self.method.uses_outputs else ():
            items = partial(all_items, recipe, entry)
            outputs.append((yield from self._write(f"train-{number}", items)))
        added = []
        for number, file in enumerate(self.monolingual, 1):
            added.append((yield from self._write(f"monolingual-{number}", partial(monolingual_items, recipe, file))))
        train = self._mixture(entries, outputs, added)
        splits = {split: self._evaluation_pairs(split) for split in ("valid", "test") if has_corpus(recipe, split)}
        kept = data.model_dump(mode="json", exclude_none=True, exclude={"holdout", "prepared"})
        if self.method.uses_outputs and any(step.makes_pairs for step in pipeline_steps(recipe, CorpusSettings())):
            steps = [step for step in data.pipeline if not cast("Step", step).makes_pairs]
            kept["pipeline"] = [step.model_dump(mode="json") for step in steps]
            kept["variants"] = data.variants if any(cast("Step", step).is_random for step in steps) else 1
        return DataSettings.model_validate({**kept, "train": train, **splits})

    def _write(
        self, name: str, items: Callable[[], Iterator[SourceText]]
    ) -> Generator[TargetsWritten, None, WrittenOutputs]:
        """The teacher's outputs for items."""
        job = OutputJob(self.method.search, self.method.n_best, self._rows, self.made_by)
        written = write_outputs(self.teacher, items, self.folder / f"{name}.jsonl", job)
        yield TargetsWritten(0, str(written.path), written.rows, written.left_out, written.seconds)
        return written

    def _rows(self, item: SourceText, texts: list[str]) -> list[str]:
        """The pairs of an item, as JSON; of interpolation, one with the output most similar to the reference."""
        if self.method.name == "interpolation":
            texts = [closest(texts, item.pair.target)]
        return [self._row(Pair(item.pair.source, text)) for text in texts]

    def _row(self, pair: Pair) -> str:
        columns = self._columns
        sources = [pair.source] if len(columns) == 1 else split_columns(pair.source, len(columns))
        row = {**dict(zip(columns, sources, strict=True)), "target": pair.target}
        return json.dumps(row, ensure_ascii=False)

    @property
    def _columns(self) -> list[str]:
        """The names of the source's columns."""
        count = self.recipe.model.sources.count
        return ["source"] if count == 1 else [f"source{number}" for number in range(1, count + 1)]

    def _corpus(self, path: Path, settings: CorpusSettings | None = None) -> dict[str, Any]:
        """The entry of a JSON Lines file in a recipe; ``settings``: those of the corpus that its sources come from."""
        columns = self._columns
        tags = [columns[index] for index in self.recipe.feature_columns]
        mixed = {} if settings is None else settings.model_dump(include={*MIXED}, exclude_none=True)
        return {"file": str(path.resolve()), "source": columns, "target": "target", "tags": tags, **mixed}

    def _mixture(
        self, entries: Sequence[CorpusEntry], outputs: Sequence[WrittenOutputs], added: Sequence[WrittenOutputs]
    ) -> list[dict[str, Any]]:
        """data.train: outputs, references and monolingual text; with weights where sizes would not give the shares."""
        distilled = [self._corpus(file.path, entry.settings) for file, entry in zip(outputs, entries, strict=False)]
        share = self.method.references
        references = [self._references(number, entry) for number, entry in enumerate(entries, 1)] if share else []
        monolingual = [self._corpus(file.path) for file in added]
        if 0 < share < 1 or any(entry.settings.weight is not None for entry in entries):
            sizes = [file.rows for file in outputs] or [1] * len(entries)
            weights = corpus_weights(entries, sizes, self.recipe.data.temperature)
            for corpora, part in ((distilled, 1 - share), (references, share)):
                for corpus, weight in zip(corpora, weights, strict=False):
                    corpus["weight"] = part * weight
            for corpus, file in zip(monolingual, added, strict=True):
                size = (
                    file.rows / sum(sizes) if outputs else 1 / len(entries)
                )  # without outputs the others' are unknown
                corpus["weight"] = sum(weights) * size
        return [*distilled, *references, *monolingual]

    def _references(self, number: int, entry: CorpusEntry) -> dict[str, Any]:
        """A corpus of data.train as the recipe names it or, where some pairs are held out, a file without them."""
        if not any(self.recipe.data.holdout.model_dump().values()):
            return entry.settings.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
        return self._stored(f"references-{number}", entry)

    def _evaluation_pairs(self, split: str) -> Any:
        """data.valid or data.test, which held-out pairs and those of a built-in corpus need to be named as."""
        given = getattr(self.recipe.data, split)
        if given is not None:
            return [
                corpus if isinstance(corpus, str) else corpus.model_dump(exclude_none=True) for corpus in as_list(given)
            ]
        if not getattr(self.recipe.data.holdout, split):
            return self.recipe.data.train
        return [
            self._stored(f"{split}-{number}", entry) for number, entry in enumerate(find_corpora(self.recipe, split), 1)
        ]

    def _stored(self, name: str, entry: CorpusEntry) -> dict[str, Any]:
        """The pairs of a corpus, unchanged, in a separate file."""
        path = self.folder / f"{name}.jsonl"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as file:
                for read in read_entry(self.recipe, entry, Counter()):
                    file.write(f"{self._row(read.stored)}\n".encode())
        return self._corpus(path, entry.settings)


def corpus_items(recipe: Recipe, entry: CorpusEntry) -> Iterator[SourceText]:
    """The sources of a corpus, each with its pair."""
    return (SourceText(read.seen.source, read.stored) for read in read_entry(recipe, entry, Counter()))


def made_items(recipe: Recipe, entry: CorpusEntry) -> Iterator[SourceText]:
    """New sources from the pairs of a corpus, at most `MOST_MADE`, by the steps of data.pipeline that make new pairs.

    Other ones than the teacher was trained on, whose made-up targets it has learned by heart.
    """
    steps = pipeline_steps(recipe, entry.settings)
    making = [step for step in steps if step.makes_pairs]
    if not making:
        return
    pairs = [read.stored for read in read_entry(recipe, entry, Counter())]
    evaluation = Pipeline(steps, seed=recipe.seed).for_evaluation()
    given = {pair.source for pair in pairs}
    new: dict[str, Pair] = {}
    for variant in range(recipe.data.variants, 2 * recipe.data.variants):
        made = Pipeline(making, seed=recipe.seed).run(pairs, variant).pairs
        new |= {pair.source: pair for pair in made if pair.source not in given}
    for pair in islice(new.values(), MOST_MADE):
        for seen in evaluation.run([pair]).pairs:
            yield SourceText(seen.source, pair)


def all_items(recipe: Recipe, entry: CorpusEntry) -> Iterator[SourceText]:
    """The sources of a corpus, and those that its pipeline makes."""
    return chain(corpus_items(recipe, entry), made_items(recipe, entry))


def monolingual_items(recipe: Recipe, file: Path) -> Iterator[SourceText]:
    """The lines of a file that are not blank, as sources without a reference."""
    pipeline = Pipeline(pipeline_steps(recipe, CorpusSettings()), seed=recipe.seed).for_evaluation()
    for line in read_lines(file):
        if line.strip():
            pair = Pair(line, "")
            for seen in pipeline.run([pair]).pairs:
                yield SourceText(seen.source, pair)


def check_monolingual(files: Iterable[Path]) -> None:
    """Fail if one of these files cannot be read."""
    for file in files:
        if not file.is_file():
            raise DataError(f"{file}: no such file; expected monolingual text, a source on every line")


def closest(texts: Sequence[str], reference: str) -> str:
    """The text most similar to the reference by chrF; without a reference, and of equals, the first."""
    similarity = resolve(UTILITIES, "chrf")
    return max(texts, key=lambda text: similarity(text, reference)) if reference.strip() else texts[0]


def corpus_weights(entries: Sequence[CorpusEntry], sizes: Sequence[int], temperature: float) -> list[float]:
    """The sampling weight of each corpus of data.train, as in `weft.data.batching.batches`."""
    given = [entry.settings.weight for entry in entries]
    if any(weight is not None for weight in given):
        return [1.0 if weight is None else weight for weight in given]
    return [float(size) ** (1 / temperature) for size in sizes]
