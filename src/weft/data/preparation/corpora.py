"""The corpora of a recipe, the pipeline that their pairs go through, and examples of what a run translates."""

from __future__ import annotations

import glob
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, cast

from weft import tasks
from weft.data.filtering.pipeline import Pipeline, located
from weft.data.filtering.steps import Call, Prefix, Step, StepError
from weft.data.fingerprints import check_outside, check_recorded, check_recorded_files
from weft.data.pairs import BLANK_KIND, LENGTH_KIND, Pair, Row, RowError, blank_error, is_blank, is_oversized
from weft.data.reading import corpora
from weft.data.reading.corpora import Corpus, PlainLines, expand, regular_files
from weft.data.splitting import CorpusPart, Part, SplitShares, StructuralHoldout
from weft.errors import DataError, WeftError, nearest
from weft.recipe import Recipe
from weft.recipe.data import (
    CorpusSettings,
    DialogueFile,
    HubDataset,
    InstructionFile,
    NamedCorpus,
    ParallelFiles,
    TableFile,
    as_list,
)
from weft.runs.layout import MAX_EXAMPLE_CHARACTERS, MAX_EXAMPLES
from weft.runtime.activity import activity
from weft.text.tokenizer import learn
from weft.text.vocabulary import LearningOptions

BLOCK_PAIRS = 4096
"""Pairs of a built-in corpus in a block."""
MIXING_SETTINGS = {"weight", "first_step", "last_step"}
"""Settings of a corpus that change nothing in a token store."""


Transform = Callable[[Pair], Any]
"""A user's filter or transform: from a pair to a pair, or to None to drop it."""


@dataclass(frozen=True)
class PairListBlock:
    """Pairs in memory."""

    name: str
    first: int
    pairs: tuple[Pair, ...]

    def rows(self) -> Iterator[Row]:
        yield from enumerate(self.pairs, self.first)


@dataclass(frozen=True)
class TaskCorpus:
    """A built-in corpus."""

    name: str
    make: Callable[[], Iterator[Pair]]

    def blocks(self) -> Iterator[PairListBlock]:
        pairs, first = self.make(), 1
        while block := tuple(islice(pairs, BLOCK_PAIRS)):
            yield PairListBlock(self.name, first, block)
            first += len(block)

    def files(self) -> list[Path]:
        return []

    def paths(self) -> tuple[str, ...]:
        return ()


class CorpusEntry(NamedTuple):
    """A corpus, its name, and its settings."""

    name: str
    corpus: corpora.Corpus
    settings: CorpusSettings

    @property
    def mixing(self) -> dict[str, Any]:
        """Its weight and steps in a mixture."""
        return self.settings.model_dump(include=MIXING_SETTINGS)


def corpus_files(entry: CorpusEntry) -> list[Path]:
    """The files of a corpus; none if a pattern matches none."""
    try:
        return entry.corpus.files()
    except DataError:
        return []


def find_corpora(recipe: Recipe, split: str, *, allow_missing: bool = False) -> list[CorpusEntry]:
    """The corpora of a split; files are not read yet, and with ``allow_missing`` need not exist.

    Of the recipe of a run, only files that the run was trained with are accepted (`weft.data.fingerprints`).
    """
    data = recipe.data
    value = getattr(data, split, None)
    if value is None and isinstance(data.train, str) and data.train in tasks.TASKS:
        value = data.train
    if value is None and _is_held_out(recipe, split):
        value = data.train
    if value is None:
        raise DataError(f"data.{split}: the recipe names no {split} pairs; set data.{split}, or give a file")
    named = "train" if split == "structure" else split  # the pairs of a structure are always training pairs
    entries = [_find(recipe, named, item, allow_missing=allow_missing) for item in as_list(value)]
    corpora.check_standard_input(entry.corpus for entry in entries)
    given = split if getattr(data, split, None) is not None else "train"
    check_outside(recipe, given)
    if (run := recipe.run_of(given)) is not None:
        check_recorded(run, split, entries)
    for setting in ("terms", "fuzzy") if split == "train" else ("fuzzy",):  # terms are for training pairs
        check_glossary_or_memory(recipe, setting)
    entries = _split(recipe, split, entries)
    if recipe.tokenizer.reads_arrays:
        from weft.data.arrays.corpus import array_corpus

        outside = recipe.data.outside
        return [entry._replace(corpus=array_corpus(entry.corpus, entry.name, outside=outside)) for entry in entries]
    return entries


def _is_held_out(recipe: Recipe, split: str) -> bool:
    """Whether the pairs of a split are held out from the training pairs."""
    return split != "train" and bool(getattr(recipe.data.holdout, split))


def _split(recipe: Recipe, split: str, entries: list[CorpusEntry]) -> list[CorpusEntry]:
    """The part of the corpora that data.holdout gives to this split; built-in corpora have their own splits."""
    holdout = recipe.data.holdout
    shares = SplitShares(holdout.valid, holdout.test)
    if not (any(shares) or holdout.structure) or not (split == "train" or _is_held_out(recipe, split)):
        return entries
    generated = next((entry.name for entry in entries if isinstance(entry.corpus, TaskCorpus)), None)
    if generated is not None and any(shares):
        raise DataError(f"data.holdout: the built-in corpus {generated!r} has validation and test pairs; leave it out")
    part = cast("Part", split)
    structural = StructuralHoldout(tuple(entry.corpus for entry in entries), holdout.structure, shares)
    return [entry._replace(corpus=CorpusPart(entry.corpus, part, shares, structural)) for entry in entries]


def has_corpus(recipe: Recipe, split: str) -> bool:
    """Whether a recipe says where a split comes from."""
    train = recipe.data.train
    is_generated = isinstance(train, str) and train in tasks.TASKS
    if split == "structure":
        return _is_held_out(recipe, split)
    return getattr(recipe.data, split) is not None or is_generated or _is_held_out(recipe, split)


def check_files(recipe: Recipe) -> None:
    """Fail if files that the recipe names are missing, and list them all. A prepared corpus needs no training files."""
    missing = [
        f"data.{name}.file: {path.absolute()}: {'not a regular' if corpora.exists(str(path)) else 'no such'} file"
        for name, path in glossary_and_memory_files(recipe).items()
        if not path.is_file()
    ]
    prepared = recipe.data.prepared
    is_prepared = prepared is not None and (Path(recipe.data.folder) / prepared).exists()
    for split in ("valid", "test") if is_prepared else ("train", "valid", "test"):
        if getattr(recipe.data, split) is None:
            continue
        for entry in find_corpora(recipe, split, allow_missing=True):
            for path in entry.corpus.paths():
                matches = glob.has_magic(path) and glob.glob(path, recursive=True)  # noqa: PTH207 (absolute patterns)
                if path != "-" and not matches and not corpora.exists(path):
                    built_in = isinstance(entry.settings, NamedCorpus) and not glob.has_magic(path)
                    hint = f", and no built-in corpus of that name; {nearest(Path(entry.name).name, tasks.TASKS)}"
                    missing.append(f"data.{split}: {Path(path).absolute()}: no such file{hint if built_in else ''}")
    if missing:
        raise DataError("\n".join(dict.fromkeys(missing)))


def check_test_pairs(recipe: Recipe) -> None:
    """Fail if the test files of a recipe, should it have some, have no pair.

    The beginning of the files is read: an error in it, or a missing column, would otherwise be found when training has
    ended. Standard input, pipes and data sets of the hub are not read.
    """
    if recipe.data.test is None:
        return
    entries = find_corpora(recipe, "test")
    are_files = all(len(entry.corpus.files()) >= len(entry.corpus.paths()) > 0 for entry in entries)
    if are_files and next(read_corpus(recipe, "test"), None) is None:
        raise DataError(f"data.test: no pairs in {', '.join(entry.name for entry in entries)}")


def _find(recipe: Recipe, split: str, value: str | CorpusSettings, *, allow_missing: bool) -> CorpusEntry:
    """The corpus of one item of data.train, data.valid or data.test."""
    data, keeps_columns = recipe.data, recipe.given_columns > 1
    if isinstance(value, str):
        value = NamedCorpus(name=value, options=data.options if value in tasks.TASKS else {})
    if isinstance(value, NamedCorpus):
        name, corpus = value.name, _find_named(recipe, split, value, allow_missing=allow_missing)
    elif isinstance(value, HubDataset):
        local = Path(data.folder) / value.dataset
        name = value.dataset
        corpus = corpora.DatasetRows(str(local) if local.is_dir() else name, value, keeps_columns)
    elif isinstance(value, ParallelFiles):
        name, sources = _files(recipe, value.source)
        corpus = corpora.ParallelText(sources, _files(recipe, value.target)[1])
    elif isinstance(value, TableFile):
        name, paths = _files(recipe, value.file)
        corpus = corpora.Table(paths, value, keeps_columns)
    elif isinstance(value, InstructionFile):
        name, paths = _files(recipe, value.instructions)
        corpus = corpora.Instructions(paths, value)
    else:
        assert isinstance(value, DialogueFile)
        name, paths = _files(recipe, value.dialogues)
        corpus = corpora.Dialogues(paths, value)
    return CorpusEntry(name, corpus, value)


def _find_named(recipe: Recipe, split: str, settings: NamedCorpus, *, allow_missing: bool) -> corpora.Corpus:
    """A built-in corpus, or a file of pairs or lines."""
    data = recipe.data
    if settings.name in tasks.TASKS:
        if recipe.given_columns > 1:
            raise DataError(f"data.{split}: {settings.name!r} has one source; set model.sources.count = 1")
        sizes = {"train": data.train_size, "valid": data.valid_size, "test": data.test_size}
        count = settings.size or sizes[split]
        generate = partial(tasks.generate, settings.name, split, seed=recipe.seed, options=settings.options)
        generate(count=0)  # reports wrong options now
        return TaskCorpus(settings.name, partial(generate, count=count))
    _, (path,) = _files(recipe, [settings.name])
    if not allow_missing and path != "-" and not glob.has_magic(path) and not corpora.exists(path):
        hint = nearest(Path(settings.name).name, tasks.TASKS)
        raise DataError(f"{path}: no such file, and no built-in corpus of that name; {hint}")
    if settings.size is not None or settings.options:
        raise DataError(f"data.{split}: size and options are for built-in corpora; {settings.name!r} is a file")
    if recipe.source_role == "none":
        return PlainLines((path,))
    return corpora.pair_file(path, sources=recipe.given_columns)


def _files(recipe: Recipe, names: list[str]) -> tuple[str, tuple[str, ...]]:
    """A name for these files, and their paths, relative to data.folder."""
    paths = tuple(name if name == "-" else str(Path(recipe.data.folder) / name) for name in names)
    return (f"{names[0]} and {len(names) - 1} more" if len(names) > 1 else names[0]), paths


def pipeline_steps(recipe: Recipe, corpus: CorpusSettings, transforms: Sequence[Transform] = ()) -> tuple[Step, ...]:
    """The steps for the pairs of a corpus: the recipe's pipeline, the user's functions, terms and similar pairs, the
    corpus's tag."""
    steps = [*cast("list[Step]", recipe.data.pipeline)]
    steps += [Call(function=function, name=getattr(function, "__name__", "transform")) for function in transforms]
    steps += glossary_and_memory_steps(recipe)
    if corpus.tag is not None:
        steps.append(Prefix(text=corpus.tag))
    return tuple(steps)


def glossary_and_memory_steps(recipe: Recipe) -> list[Step]:
    """The steps of data.terms and data.fuzzy."""
    data, steps = recipe.data, list[Step]()
    if data.terms.file is not None:
        from weft.data.filtering.terms import AnnotateTerms

        steps.append(AnnotateTerms(file=str(Path(data.folder) / data.terms.file), share=data.terms.share))
    if data.fuzzy.file is not None:
        from weft.data.filtering.fuzzy import AddMatch

        settings = data.fuzzy.model_dump(exclude={"file"})
        steps.append(AddMatch(file=str(Path(data.folder) / data.fuzzy.file), **settings))
    return steps


def glossary_and_memory_files(recipe: Recipe) -> dict[str, Path]:
    """The files that data.terms and data.fuzzy name, by these settings."""
    files = {"terms": recipe.data.terms.file, "fuzzy": recipe.data.fuzzy.file}
    return {name: Path(recipe.data.folder) / file for name, file in files.items() if file is not None}


def check_glossary_or_memory(recipe: Recipe, setting: str) -> None:
    """Fail if the file of data.terms or data.fuzzy is named by the recipe of a run that was not trained with it."""
    run, path = recipe.run_of(setting), glossary_and_memory_files(recipe).get(setting)
    if run is not None and path is not None:
        check_recorded_files(run, f"data.{setting}.file", [path])


def read_corpus(recipe: Recipe, split: str, row_errors: Counter[str] | None = None) -> Iterator[Pair]:
    """The pairs of a split (train, valid or test) as a model sees them; no filter of the pipeline drops any.

    ``row_errors`` counts the rows that data.bad_rows and data.blank_rows skip, and those too long to be tokenized, by
    the kind of error.
    """
    counts = Counter[str]() if row_errors is None else row_errors
    for entry in find_corpora(recipe, split):
        for read in read_entry(recipe, entry, counts):
            yield read.seen


class ReadPair(NamedTuple):
    """A pair of a corpus."""

    stored: Pair
    """The pair as it is in the corpus."""
    seen: Pair
    """The pair as a model sees it, with the pipeline and the tag applied."""


def read_entry(recipe: Recipe, entry: CorpusEntry, row_errors: Counter[str]) -> Iterator[ReadPair]:
    """The pairs of one corpus; see `read_corpus`."""
    name, corpus, settings = entry
    reads_sources = recipe.source_role != "none"
    check = source_check(recipe)
    pipeline = Pipeline(pipeline_steps(recipe, settings), seed=recipe.seed).for_evaluation()
    what = f"looking for held-out pairs ({corpus.part}) in" if isinstance(corpus, CorpusPart) else "reading"
    with activity(f"{what} {name}", "pairs") as reading:
        for block in corpus.blocks():
            numbers: list[int] = []
            pairs: list[Pair] = []
            for number, row in block.rows():
                if isinstance(row, RowError):
                    skip_row(recipe, row, row_errors)
                else:
                    numbers.append(number)
                    pairs.append(row)
            try:
                outcome = pipeline.run(pairs)
            except StepError as error:
                raise located(error, [block]) from None
            for index, pair in zip(outcome.rows, outcome.pairs, strict=True):
                if is_blank(pair, sources=reads_sources):
                    where = f"{block.name}:{numbers[index]}"
                    skip_row(recipe, blank_error(pair, where, sources=reads_sources), row_errors)
                elif is_oversized(pair):
                    row_errors[LENGTH_KIND] += 1
                elif (unreadable := check(pair.source, f"{block.name}:{numbers[index]}")) is not None:
                    skip_row(recipe, unreadable, row_errors)
                else:
                    yield ReadPair(pairs[index], pair)
            reading.done += len(pairs)


def source_check(recipe: Recipe) -> Callable[[str, str], RowError | None]:
    """Finds the error of a source, given with its file and line: an array that cannot be read. Texts have none."""
    if not recipe.tokenizer.reads_arrays:
        return lambda source, where: None
    from weft.data.arrays.corpus import check_source

    tokenizer = learn(recipe.tokenizer.kind, [], LearningOptions.from_settings(recipe.tokenizer))
    return partial(check_source, tokenizer)


def skip_row(recipe: Recipe, error: RowError, counts: Counter[str]) -> None:
    """Count a row that cannot be used, or raise: as data.bad_rows and data.blank_rows say."""
    setting = "blank_rows" if error.kind == BLANK_KIND else "bad_rows"
    if getattr(recipe.data, setting) == "error":
        raise DataError(f"{error.message}; fix it, or set data.{setting} = 'skip'")
    counts[error.kind] += 1


def example_sources(recipe: Recipe) -> list[str]:
    """The first sources that are short; of a language model the first words. None if serve.examples says so."""
    for split in ("valid", "test") if recipe.serve.examples else ():
        try:
            if not has_corpus(recipe, split) or not all(map(_is_rereadable, _corpora(recipe, split))):
                continue
            pairs = list(islice(read_corpus(recipe, split, Counter()), 10 * MAX_EXAMPLES))
        except (WeftError, OSError):  # evaluating on it reports the reason
            continue
        sources = [_source(pair, recipe) for pair in pairs]
        short = set(sorted(sources, key=len)[: len(sources) // 2 + MAX_EXAMPLES])
        chosen = [text for text in dict.fromkeys(sources) if text in short and 0 < len(text) <= MAX_EXAMPLE_CHARACTERS]
        if chosen:
            return chosen[:MAX_EXAMPLES]
    return []


def _source(pair: Pair, recipe: Recipe) -> str:
    return pair.target.split(" ")[0] if recipe.source_role == "none" else pair.source


def _corpora(recipe: Recipe, split: str) -> list[Corpus]:
    return [entry.corpus for entry in find_corpora(recipe, split)]


def _is_rereadable(corpus: Corpus) -> bool:
    """Whether its files can be read more than once: neither standard input nor pipes."""
    files = expand(corpus.paths())
    return len(regular_files(files)) == len(files)
