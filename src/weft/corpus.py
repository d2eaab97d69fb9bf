"""From the settings of a recipe to pairs, tokenizers and a corpus to train on: [data] and [tokenizer] wired up.

    prepare(recipe)     what a run trains on: read, filtered, cut into ids, in memory, in mapped files or as a stream
    read_corpus(...)    the pairs of a split, one after the other, for evaluation

What a split goes through: rows are read; bad and blank ones are errors or counted; the steps of data.pipeline follow,
for training all of them, else those that hold everywhere; then the corpus's tag is put before the source.
"""

from __future__ import annotations

import glob
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from weft import tasks
from weft.data import corpora
from weft.data.batches import BatchSource, Stored
from weft.data.corpora import PlainLines, TextPairs
from weft.data.encoding import BAD, BLANK, LONG, Encoder, Encoders, Encoding, Piece, Sources
from weft.data.mixture import Mixture, Part
from weft.data.pairs import Pair, Problem, Row
from weft.data.pipeline import Pipeline
from weft.data.prepared import Counts, PreparedFolder, StoreWriter, tally
from weft.data.processes import mapped
from weft.data.steps import STEPS, Call, Step
from weft.data.store import PairStore, TokenStore
from weft.data.streaming import Numbered, Streamed, StreamedPart
from weft.errors import DataError, RecipeError, nearest
from weft.settings import Recipe
from weft.settings.data import (
    CorpusSettings,
    DialogueFile,
    HubDataset,
    InstructionFile,
    NamedCorpus,
    ParallelFiles,
    TableFile,
    TokenizerSettings,
    listed,
)
from weft.text import specials
from weft.text.atoms import check_patterns
from weft.text.sampling import sample
from weft.text.tokenizer import Tokenizer, learn, load

LARGE = 32 << 20
"""Bytes of text from which on it pays to start processes."""
BLOCK = 4096
"""Pairs of a built-in corpus in a block."""

Transform = Callable[[Pair], Any]
"""A filter or transform of one's own: a pair to a pair, or to None to drop it."""


class Tokenizers(NamedTuple):
    """How both sides are cut; the same one twice where the vocabulary is joint."""

    source: Tokenizer
    target: Tokenizer

    @property
    def joint(self) -> bool:
        return self.source is self.target

    def save(self, folder: Path) -> tuple[Path, ...]:
        """Write one file or two; which."""
        if self.joint:
            self.source.save(folder / "tokenizer.json")
            return (folder / "tokenizer.json",)
        self.source.save(folder / "tokenizer.source.json")
        self.target.save(folder / "tokenizer.target.json")
        return folder / "tokenizer.source.json", folder / "tokenizer.target.json"


def load_tokenizers(paths: Sequence[Path]) -> Tokenizers:
    """The tokenizers of a folder: one file, or source and target."""
    first = load(paths[0])
    return Tokenizers(first, first if len(paths) == 1 else load(paths[1]))


@dataclass(frozen=True)
class PairBlock:
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

    def blocks(self) -> Iterator[PairBlock]:
        pairs, first = self.make(), 1
        while block := tuple(islice(pairs, BLOCK)):
            yield PairBlock(self.name, first, block)
            first += len(block)

    def files(self) -> list[Path]:
        return []


class NothingLeftError(DataError):
    """All pairs were left out."""


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
    steps: list[Step] = [STEPS[one.kind](**one.model_dump(exclude={"kind"})) for one in recipe.data.pipeline]
    steps += [Call(function, getattr(function, "__name__", "transform")) for function in transforms]
    if corpus.tag is not None:
        steps.append(STEPS["prefix"](text=corpus.tag))
    return tuple(steps)


def read_corpus(recipe: Recipe, split: str) -> Iterator[Pair]:
    """The pairs of a split: train, valid or test, as a model is to see them; nothing is filtered out."""
    for named in find_corpora(recipe, split):
        pipeline = Pipeline(steps_of(recipe, named.settings), seed=recipe.seed).for_evaluation()
        for block in named.corpus.blocks():
            yield from pipeline.run(list(_readable(block.rows(), recipe))).pairs


def _readable(rows: Iterable[Row], recipe: Recipe) -> Iterator[Pair]:
    for _, row in rows:
        if not isinstance(row, Problem):
            yield row
        elif recipe.data.bad_rows == "error":
            raise DataError(f"{row.message}; mend it, or set data.bad_rows = 'skip'")


class Prepared(NamedTuple):
    """A corpus to train on."""

    data: BatchSource
    tokenizers: Tokenizers
    counts: list[Counts]
    """What was left out of each corpus; nothing is known of a stream."""
    names: list[str]

    @property
    def pairs(self) -> int:
        """Pairs to train on, however often each is stored; of a stream those of its first window."""
        return sum(one.kept for one in self.counts) if self.counts else self.data.extent.pairs


def prepare(
    recipe: Recipe,
    *,
    tokenizers: Tokenizers | None = None,
    start: Sequence[Path] = (),
    transforms: Sequence[Transform] = (),
) -> Prepared:
    """What a recipe trains on. Tokenizers are the ones given, those of a run (``start``), or learned."""
    folder = None if recipe.data.prepared is None else Path(recipe.data.folder) / recipe.data.prepared
    if folder is not None and transforms:
        raise DataError("data.prepared: functions of one's own cannot be told apart later; prepare without a folder")
    there = folder is not None and folder.exists()
    named = find_corpora(recipe, "train", gone=there)
    parts_meant = [Part(0, 1, **one.settings.model_dump(include=SHARES)) for one in named]
    Mixture(parts_meant, seed=recipe.seed).check(recipe.training.steps)  # now, rather than after days
    if folder is not None and there:
        return _opened(recipe, folder, named, tokenizers)
    tokenizers = tokenizers or _tokenizers(recipe, named, start, transforms)
    if recipe.data.streaming:
        return _streamed(recipe, named, tokenizers, transforms)
    sizes = (tokenizers.source.size, tokenizers.target.size)
    counts: list[Counts] = []
    parts: list[Part] = []

    def write(paths: tuple[Path, ...], writer: StoreWriter) -> None:
        for one in named:
            variants = recipe.tokenizer.variants if recipe.tokenizer.dropout else 1
            begun = writer.rows
            for variant in range(variants):
                pieces = encode(recipe, one, paths, variant=variant, transforms=transforms)
                counted = writer.write(pieces)
            counts.append(counted)
            asked = one.settings
            parts.append(
                Part(begun, counted.kept, variants, asked.weight, asked.first_step, asked.last_step),
            )

    def fill(path: Path, writer: StoreWriter) -> dict[str, Any]:
        made = made_of(recipe, named)
        write(tokenizers.save(path), writer)
        return {
            "made_of": made,
            "names": [one.name for one in named],
            "parts": [part._asdict() for part in parts],
            "counts": [one.record() for one in counts],
        }

    if folder is not None:
        pairs = PreparedFolder.create(folder, sizes, fill).pairs
    else:
        writer = StoreWriter(None, sizes)
        with tempfile.TemporaryDirectory() as aside:
            write(tokenizers.save(Path(aside)), writer)
        pairs = writer.finish()
    data = Stored(pairs, tuple(parts), recipe.data.temperature)
    return Prepared(data, tokenizers, counts, [one.name for one in named])


def encode(
    recipe: Recipe,
    named: Named,
    paths: tuple[Path, ...],
    *,
    variant: int = 0,
    transforms: Sequence[Transform] = (),
    examples: int = 0,
) -> Iterator[Piece]:
    """A corpus in pieces of ids; without tokenizer files only read and filtered."""
    asked = _encoding(recipe, named, paths, transforms, variant=variant, examples=examples)
    workers = 0 if transforms else recipe.data.workers or _workers([named])
    return mapped(Encoder, asked, named.corpus.blocks(), workers=workers)


def _encoding(
    recipe: Recipe,
    named: Named,
    paths: tuple[Path, ...],
    transforms: Sequence[Transform],
    *,
    variant: int = 0,
    examples: int = 0,
) -> Encoding:
    data = recipe.data
    return Encoding(
        paths,
        steps_of(recipe, named.settings, transforms),
        seed=recipe.seed,
        sources=sources_of(recipe),
        max_length=data.max_length,
        bad_rows=data.bad_rows,
        blank_rows=data.blank_rows,
        dropout=recipe.tokenizer.dropout,
        variant=variant,
        examples=examples,
    )


def check_corpus(recipe: Recipe, *, examples: int = 0) -> Iterator[tuple[str, Counts]]:
    """What a recipe would leave out of each of its training corpora: read, filtered, cut, and forgotten."""
    named = find_corpora(recipe, "train")
    with tempfile.TemporaryDirectory() as aside:
        try:
            paths = _tokenizers(recipe, named, (), ()).save(Path(aside))
        except NothingLeftError:
            paths = ()
        for one in named:
            pieces = encode(recipe, one, paths, examples=examples)
            yield one.name, tally(pieces, lambda piece: None, examples=examples)[0]


def reasons_of(recipe: Recipe) -> dict[int, str]:
    """What each fate means, in words."""
    steps = steps_of(recipe, CorpusSettings())
    late = {BAD: "cannot be read", BLANK: "a blank side", LONG: f"more than {recipe.data.max_length} tokens on a side"}
    return {**late, **{number: str(step) for number, step in enumerate(steps)}}


def sources_of(recipe: Recipe) -> Sources:
    """What sources are to a recipe's model."""
    if recipe.model.has_source:
        return "text"
    return "prompt" if recipe.data.prompts else "none"


def _files(named: Named) -> list[Path]:
    """The files of a corpus; none where a pattern finds none."""
    try:
        return named.corpus.files()
    except DataError:
        return []


def _bytes(named: Named) -> int:
    return sum(path.stat().st_size for path in _files(named) if path.is_file())


def _workers(many: Sequence[Named]) -> int:
    """Processes for corpora: none for small ones."""
    size = sum(_bytes(one) for one in many)
    return len(os.sched_getaffinity(0)) if size >= LARGE else 0


SHARES = {"weight", "first_step", "last_step"}
"""Settings of a corpus that change nothing in a store."""


NOT_READ = {*TokenizerSettings.model_fields} - {"file", "target_file", "dropout", "variants"}
"""Settings that have no part where a tokenizer is given."""


def made_of(recipe: Recipe, named: Sequence[Named]) -> dict[str, Any]:
    """What a prepared corpus depends on: settings, and the files as they are now.

    The seed counts for built-in corpora alone: runs of several seeds may share a corpus of files, whatever was drawn
    when it was prepared.
    """
    made = any(isinstance(one.corpus, TaskCorpus) for one in named)
    counting = {"pipeline", "max_length", "bad_rows", "blank_rows"} | ({"train_size", "options"} if made else set())
    data = recipe.data.model_dump(mode="json", include=counting)
    data["train"] = [one.settings.model_dump(mode="json", exclude=SHARES) for one in named]
    given = [recipe.tokenizer.file, recipe.tokenizer.target_file]
    files = [path for one in named for path in _files(one)]
    files += [Path(recipe.data.folder) / name for name in given if name is not None]
    states = {str(path.resolve()): [path.stat().st_size, path.stat().st_mtime_ns] for path in files if path.is_file()}
    learned = recipe.tokenizer.file is None
    tokenizer = recipe.tokenizer.model_dump(
        mode="json", exclude={"extend"} if learned else NOT_READ, exclude_none=not learned
    )
    found = {
        "data": data,
        "tokenizer": tokenizer,
        "sources": sources_of(recipe),
        "start": recipe.training.start,
        "seed": recipe.seed if made else None,
        "files": states,
    }
    return dict(json.loads(json.dumps(found)))


def _opened(recipe: Recipe, folder: Path, named: Sequence[Named], tokenizers: Tokenizers | None) -> Prepared:
    """A corpus that was prepared before, if it is the one that the recipe means."""
    opened = PreparedFolder.open(folder)
    now, then = made_of(recipe, named), opened.about.get("made_of", {})
    remedy = f"remove {folder}, or set data.prepared to another folder"
    for group in ("data", "tokenizer", "sources", "start", "seed"):
        if now[group] != then.get(group):
            before, here = then.get(group), now[group]
            if isinstance(here, dict) and isinstance(before, dict):
                group += "." + next(key for key in [*here, *before] if here.get(key, ...) != before.get(key, ...))
            raise DataError(f"{folder}: prepared with another {group}; {remedy}")
    for path, state in now["files"].items():  # a file that is gone now, or elsewhere, is not asked about
        if then.get("files", {}).get(path, state) != state:
            raise DataError(f"{folder}: {path} has changed since it was prepared; {remedy}")
    paths = sorted(folder.glob("tokenizer*.json"))
    if not paths:
        raise DataError(f"{folder}: its tokenizer.json is missing; remove {folder} and prepare it again")
    there = load_tokenizers(paths)
    if tokenizers is not None:
        with tempfile.TemporaryDirectory() as aside:
            given = [path.read_bytes() for path in tokenizers.save(Path(aside))]
        if given != [path.read_bytes() for path in paths]:
            raise DataError(f"{folder}: prepared with another tokenizer than this run's; {remedy}")
    try:
        parts = tuple(  # shares and steps may be chosen anew: they change nothing in the store
            Part(**one)._replace(**asked.settings.model_dump(include=SHARES))
            for one, asked in zip(opened.about["parts"], named, strict=True)
        )
        counts = [Counts.of(one) for one in opened.about["counts"]]
    except (KeyError, TypeError, ValueError, AttributeError):
        raise DataError(f"{folder / 'about.json'}: damaged; remove {folder} and prepare it again") from None
    data = Stored(opened.pairs, parts, recipe.data.temperature)
    return Prepared(data, tokenizers or there, counts, [one.name for one in named])


def _streamed(
    recipe: Recipe, named: Sequence[Named], tokenizers: Tokenizers, transforms: Sequence[Transform]
) -> Prepared:
    """A corpus that is read while it is trained on."""
    aside = tempfile.TemporaryDirectory()
    paths = tokenizers.save(Path(aside.name))
    asked = [_encoding(recipe, one, paths, transforms, variant=0) for one in named]
    workers = 0 if transforms else recipe.data.workers or _workers(named)

    def encode_all(blocks: Iterator[Numbered], aside: object = aside) -> Iterator[Piece]:
        """``aside``: the folder of the tokenizers, which goes when nobody needs it any more."""
        return mapped(Encoders, asked, blocks, workers=workers)

    sizes = [_bytes(one) for one in named]
    sizes = sizes if all(sizes) else [1] * len(named)  # where one is not known, all are alike
    parts = [
        StreamedPart(one.corpus.blocks, size, **one.settings.model_dump(include=SHARES), name=one.name)
        for one, size in zip(named, sizes, strict=True)
    ]
    data = Streamed(tuple(parts), encode_all, recipe.data.max_length, recipe.data.temperature)
    return Prepared(data, tokenizers, [], [one.name for one in named])


def _tokenizers(
    recipe: Recipe, named: Sequence[Named], start: Sequence[Path], transforms: Sequence[Transform]
) -> Tokenizers:
    """The tokenizers of a new run."""
    settings = recipe.tokenizer
    if start:
        given = load_tokenizers(start)
        return _extended(recipe, given, _sampled(recipe, named, transforms)) if settings.extend else given
    if settings.file is not None:
        files = [settings.file, *([] if settings.target_file is None else [settings.target_file])]
        return load_tokenizers([Path(recipe.data.folder) / file for file in files])
    check_patterns(settings.protect)  # before all is read
    return learn_tokenizers(recipe, _sampled(recipe, named, transforms))


def _sampled(recipe: Recipe, named: Sequence[Named], transforms: Sequence[Transform]) -> list[Pair]:
    """The pairs to learn a tokenizer from: all of a corpus that is not too large, else a random sample of them."""
    reads = sources_of(recipe) != "none"
    rows = (
        (place, pair)
        for place, one in enumerate(named)
        for block in one.corpus.blocks()
        for pair in _readable(block.rows(), recipe)
        if pair.target.strip() and (pair.source.strip() or not reads)
    )
    found = sample(
        rows,
        size=lambda row: len(row[1].source) + len(row[1].target),
        characters=recipe.tokenizer.sample,
        seed=recipe.seed,
    )
    pairs: list[Pair] = []
    for place, one in enumerate(named):
        pipeline = Pipeline(steps_of(recipe, one.settings, transforms), seed=recipe.seed)
        pairs += pipeline.run([pair for at, pair in found if at == place]).pairs
    if not pairs:
        raise NothingLeftError("data.train: no pair is left to train on; `weft data check` says what became of them")
    return pairs


def _extended(recipe: Recipe, given: Tokenizers, pairs: Sequence[Pair]) -> Tokenizers:
    """The tokenizers of the run that training goes on from, with ids for what is new in the pairs."""
    least = recipe.tokenizer.minimum_count
    targets = [pair.target for pair in pairs]
    sources = [pair.source for pair in pairs] if sources_of(recipe) != "none" else []
    if given.joint:
        both = given.source.extended([*sources, *targets], minimum_count=least)
        return Tokenizers(both, both)
    return Tokenizers(
        given.source.extended(sources, minimum_count=least), given.target.extended(targets, minimum_count=least)
    )


NOT_LEARNED = {"kind", "target_kind", "file", "target_file", "joint", "extend", "dropout", "variants", "sample"}
"""Settings that have no part in learning."""


def learn_tokenizers(recipe: Recipe, pairs: Sequence[Pair]) -> Tokenizers:
    """Tokenizers learned from pairs."""
    settings = recipe.tokenizer

    def make(kind: str, texts: Iterable[str]) -> Tokenizer:
        return learn(kind, texts, **settings.model_dump(exclude=NOT_LEARNED))

    sources, targets = (pair.source for pair in pairs), (pair.target for pair in pairs)
    if sources_of(recipe) == "none":
        both = make(settings.target_unit, targets)
        return Tokenizers(both, both)
    if settings.joint:
        both = make(settings.kind, chain(sources, targets))
        return Tokenizers(both, both)
    if sources_of(recipe) == "prompt":
        raise RecipeError("tokenizer.joint: a language model reads prompts and answers alike; it needs joint = true")
    return Tokenizers(make(settings.kind, sources), make(settings.target_unit, targets))


def encode_pairs(
    pairs: Sequence[Pair], tokenizers: Tokenizers, *, sources: Sources = "text", max_length: int | None = None
) -> PairStore:
    """Pairs as ids. With a limit, blank and overlong ones are left out; without, none is."""
    targets = tokenizers.target.encode_batch([pair.target for pair in pairs])
    reads = sources != "none"
    origins = tokenizers.source.encode_batch([pair.source for pair in pairs]) if reads else [[] for _ in pairs]
    kept = [
        (source, target)
        for source, target in zip(origins, targets, strict=True)
        if max_length is None or (target and (source or not reads) and max(len(source), len(target)) <= max_length)
    ]
    end = [specials.END]
    return PairStore(
        TokenStore.of(source + end if sources == "text" else source for source, _ in kept),
        TokenStore.of(target + end for _, target in kept),
    )
