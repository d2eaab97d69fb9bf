"""Which corpora a recipe means, and what their pairs go through."""

from __future__ import annotations

import glob
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, cast

from weft import tasks
from weft.data.filtering.pipeline import Pipeline
from weft.data.filtering.steps import Call, Prefix, Step
from weft.data.pairs import Pair, Row, RowError
from weft.data.reading import corpora
from weft.data.reading.corpora import PlainLines, TextPairs
from weft.data.store.encode import SourceRole
from weft.errors import DataError, nearest
from weft.recipe import Recipe
from weft.recipe.corpus import (
    CorpusSettings,
    DialogueFile,
    HubDataset,
    InstructionFile,
    NamedCorpus,
    ParallelFiles,
    TableFile,
    listed,
)

BLOCK = 4096
"""Pairs of a built-in corpus in a block."""


Transform = Callable[[Pair], Any]
"""A filter or transform of one's own: a pair to a pair, or to None to drop it."""


@dataclass(frozen=True)
class ReadyBlock:
    """Pairs that are there already."""

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

    def blocks(self) -> Iterator[ReadyBlock]:
        pairs, first = self.make(), 1
        while block := tuple(islice(pairs, BLOCK)):
            yield ReadyBlock(self.name, first, block)
            first += len(block)

    def files(self) -> list[Path]:
        return []


class Named(NamedTuple):
    """A corpus, what it is called, and its settings."""

    name: str
    corpus: corpora.Corpus
    settings: CorpusSettings


def find_corpora(recipe: Recipe, split: str, *, gone: bool = False) -> list[Named]:
    """What a split is made of; files are not opened yet, and with ``gone`` need not even be there."""
    data = recipe.data
    given = getattr(data, split)
    if given is None and isinstance(data.train, str) and data.train in tasks.TASKS:
        given = data.train
    if given is None:
        raise DataError(f"data.{split}: the recipe names no {split} pairs; set data.{split}, or give a file")
    found = [_find(recipe, split, one, gone=gone) for one in listed(given)]
    corpora.check_standard_input(one.corpus for one in found)
    return found


def has_corpus(recipe: Recipe, split: str) -> bool:
    """Whether a recipe says where a split comes from."""
    train = recipe.data.train
    return getattr(recipe.data, split) is not None or (isinstance(train, str) and train in tasks.TASKS)


def _find(recipe: Recipe, split: str, given: Any, *, gone: bool) -> Named:
    """The corpus that settings mean."""
    data = recipe.data

    def files(names: str | list[str]) -> tuple[str, ...]:
        return tuple(name if name == "-" else str(Path(data.folder) / name) for name in listed(names))

    if isinstance(given, str):
        given = NamedCorpus(name=given, options=data.options if given in tasks.TASKS else {})
    if isinstance(given, NamedCorpus) and given.name in tasks.TASKS:
        sizes = {"train": data.train_size, "valid": data.valid_size, "test": data.test_size}
        count = given.size or sizes[split]
        tasks.generate(given.name, split, 0, seed=recipe.seed, options=given.options)  # wrong options are said now
        return Named(
            given.name,
            TaskCorpus(
                given.name,
                lambda: tasks.generate(given.name, split, count, seed=recipe.seed, options=given.options),
            ),
            given,
        )
    if isinstance(given, NamedCorpus):
        [path] = files(given.name)
        if not gone and path != "-" and not glob.has_magic(path) and not corpora.is_there(path):
            hint = nearest(given.name, tasks.TASKS)
            raise DataError(f"{path}: no such file, and no built-in corpus of that name; {hint}")
        if given.size is not None or given.options:
            raise DataError(f"data.{split}: size and options are for built-in corpora; {given.name!r} is a file")
        kind = TextPairs if recipe.model.has_source or data.prompts else PlainLines
        return Named(given.name, kind((path,)), given)
    if isinstance(given, ParallelFiles):
        return Named(_called(given.source), corpora.ParallelText(files(given.source), files(given.target)), given)
    if isinstance(given, TableFile):
        columns = {side: tuple(listed(getattr(given, side))) for side in ("source", "target", "tags")}
        table = corpora.Table(
            files(given.file),
            links=given.links,
            format=given.format,
            header=given.header,
            delimiter=given.delimiter,
            **columns,
        )
        return Named(_called(given.file), table, given)
    if isinstance(given, InstructionFile):
        asked = given.model_dump(exclude={"instructions", *CorpusSettings.model_fields})
        return Named(_called(given.instructions), corpora.Instructions(files(given.instructions), **asked), given)
    if isinstance(given, DialogueFile):
        asked = given.model_dump(exclude={"dialogues", *CorpusSettings.model_fields})
        return Named(_called(given.dialogues), corpora.Dialogues(files(given.dialogues), **asked), given)
    assert isinstance(given, HubDataset)
    local = Path(data.folder) / given.dataset
    rows = corpora.DatasetRows(
        str(local) if local.is_dir() else given.dataset,
        source=tuple(listed(given.source)),
        target=tuple(listed(given.target)),
        config=given.config,
        split=given.split,
    )
    return Named(given.dataset, rows, given)


def _called(names: str | list[str]) -> str:
    first, *others = listed(names)
    return f"{first} and {len(others)} more" if others else str(first)


def steps_of(recipe: Recipe, corpus: CorpusSettings, transforms: Sequence[Transform] = ()) -> tuple[Step, ...]:
    """What the pairs of a corpus go through: the recipe's pipeline, one's own functions, the corpus's tag."""
    steps = [*cast("list[Step]", recipe.data.pipeline)]
    steps += [Call(function=function, name=getattr(function, "__name__", "transform")) for function in transforms]
    if corpus.tag is not None:
        steps.append(Prefix(text=corpus.tag))
    return tuple(steps)


def sources_of(recipe: Recipe) -> SourceRole:
    """What sources are to a recipe's model."""
    if recipe.model.has_source:
        return "text"
    return "prompt" if recipe.data.prompts else "none"


def read_corpus(recipe: Recipe, split: str, problems: Counter[str] | None = None) -> Iterator[Pair]:
    """The pairs of a split: train, valid or test, as a model is to see them; nothing is filtered out.

    ``problems``: told what was wrong with rows that data.bad_rows skips.
    """
    for named in find_corpora(recipe, split):
        pipeline = Pipeline(steps_of(recipe, named.settings), seed=recipe.seed).for_evaluation()
        for block in named.corpus.blocks():
            yield from pipeline.run(list(readable(block.rows(), recipe, problems))).pairs


def readable(rows: Iterable[Row], recipe: Recipe, problems: Counter[str] | None = None) -> Iterator[Pair]:
    """The pairs among rows; what is wrong with others is raised, or skipped and counted."""
    for _, row in rows:
        if not isinstance(row, RowError):
            yield row
        elif recipe.data.bad_rows == "error":
            raise DataError(f"{row.message}; mend it, or set data.bad_rows = 'skip'")
        elif problems is not None:
            problems[row.kind] += 1
