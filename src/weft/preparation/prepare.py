"""What a recipe trains on: read, filtered, cut into ids; in memory, in mapped files, or as it is read."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from weft.data.batching.batches import BatchSource, StoredCorpus
from weft.data.batching.mixture import Mixture, Part
from weft.data.batching.streaming import CorpusBlock, StreamedCorpus, StreamedPart
from weft.data.store.block_tokenizer import (
    BLANK,
    TOO_LONG,
    UNREADABLE,
    BlockTokenizer,
    BlockTokenizerSpec,
    MultiCorpusTokenizer,
    TokenizedBlock,
)
from weft.data.store.prepared import PreparedFolder, RowCounts, StoreWriter, count_rows
from weft.data.store.worker_processes import parallel_map
from weft.errors import DataError
from weft.preparation.corpora import NamedCorpusReader, TaskCorpus, Transform, find_corpora, sources_of, steps_of
from weft.preparation.tokenizers import NothingLeftError, tokenizers_of
from weft.recipe import (
    CorpusSettings,
    Recipe,
    TokenizerSettings,
)
from weft.text.tokenizer_pair import Tokenizers, load_tokenizers

LARGE = 32 << 20
"""Bytes of text from which on it pays to start processes."""


class Prepared(NamedTuple):
    """A corpus to train on."""

    data: BatchSource
    tokenizers: Tokenizers
    counts: list[RowCounts]
    """What was left out of each corpus; nothing is known of a stream."""
    names: list[str]

    @property
    def pairs(self) -> int:
        """Pairs to train on, however often each is stored; of a stream those of its first window."""
        return sum(one.kept for one in self.counts) if self.counts else self.data.corpus_size.pairs


def prepare(
    recipe: Recipe,
    *,
    tokenizers: Tokenizers | None = None,
    start: Sequence[Path] = (),
    transforms: Sequence[Transform] = (),
    watch: Callable[[str, int], None] = lambda name, rows: None,
) -> Prepared:
    """What a recipe trains on. Tokenizers are the ones given, those of a run (``start``), or learned.

    ``watch`` is told now and then how many rows of a corpus were cut.
    """
    folder = None if recipe.data.prepared is None else Path(recipe.data.folder) / recipe.data.prepared
    if folder is not None and transforms:
        raise DataError("data.prepared: functions of one's own cannot be told apart later; prepare without a folder")
    there = folder is not None and folder.exists()
    named = find_corpora(recipe, "train", allow_missing=there)
    parts_meant = [Part(0, 1, **one.settings.model_dump(include=SHARES)) for one in named]
    Mixture(parts_meant, seed=recipe.seed).check(recipe.training.steps)  # now, rather than after days
    if folder is not None and there:
        return _opened(recipe, folder, named, tokenizers)
    tokenizers = tokenizers or tokenizers_of(recipe, named, start, transforms)
    if recipe.data.streaming:
        return _streamed(recipe, named, tokenizers, transforms)
    sizes = (tokenizers.source.size, tokenizers.target.size)
    counts: list[RowCounts] = []
    parts: list[Part] = []

    def write(paths: tuple[Path, ...], writer: StoreWriter) -> None:
        for one in named:
            variants = recipe.tokenizer.variants if recipe.tokenizer.dropout else 1
            begun = writer.rows
            for variant in range(variants):
                pieces = encode(recipe, one, paths, variant=variant, transforms=transforms)
                counted = writer.write(_watched(pieces, one.name, watch))
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
    data = StoredCorpus(pairs, tuple(parts), recipe.data.temperature)
    return Prepared(data, tokenizers, counts, [one.name for one in named])


def _watched(
    pieces: Iterable[TokenizedBlock], name: str, watch: Callable[[str, int], None]
) -> Iterator[TokenizedBlock]:
    rows = 0
    for piece in pieces:
        yield piece
        rows += len(piece.drop_reasons)
        watch(name, rows)


def encode(
    recipe: Recipe,
    named: NamedCorpusReader,
    paths: tuple[Path, ...],
    *,
    variant: int = 0,
    transforms: Sequence[Transform] = (),
    examples: int = 0,
) -> Iterator[TokenizedBlock]:
    """A corpus in pieces of ids; without tokenizer files only read and filtered."""
    asked = _encoding(recipe, named, paths, transforms, variant=variant, examples=examples)
    workers = 0 if transforms else recipe.data.workers or _workers([named])
    return parallel_map(BlockTokenizer, asked, named.corpus.blocks(), workers=workers)


def _encoding(
    recipe: Recipe,
    named: NamedCorpusReader,
    paths: tuple[Path, ...],
    transforms: Sequence[Transform],
    *,
    variant: int = 0,
    examples: int = 0,
) -> BlockTokenizerSpec:
    data = recipe.data
    return BlockTokenizerSpec(
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


def check_corpus(recipe: Recipe, *, examples: int = 0) -> Iterator[tuple[str, RowCounts]]:
    """What a recipe would leave out of each of its training corpora: read, filtered, cut, and forgotten."""
    named = find_corpora(recipe, "train")
    with tempfile.TemporaryDirectory() as aside:
        try:
            paths = tokenizers_of(recipe, named, (), ()).save(Path(aside))
        except NothingLeftError:
            paths = ()
        for one in named:
            pieces = encode(recipe, one, paths, examples=examples)
            yield one.name, count_rows(pieces, lambda piece: None, examples=examples)[0]


def reasons_of(recipe: Recipe) -> dict[int, str]:
    """What each drop_reason means, in words."""
    steps = steps_of(recipe, CorpusSettings())
    late = {
        UNREADABLE: "cannot be read",
        BLANK: "a blank side",
        TOO_LONG: f"more than {recipe.data.max_length} tokens on a side",
    }
    return {**late, **{number: str(step) for number, step in enumerate(steps)}}


def _files(named: NamedCorpusReader) -> list[Path]:
    """The files of a corpus; none where a pattern finds none."""
    try:
        return named.corpus.files()
    except DataError:
        return []


def _bytes(named: NamedCorpusReader) -> int:
    return sum(path.stat().st_size for path in _files(named) if path.is_file())


def _workers(many: Sequence[NamedCorpusReader]) -> int:
    """Processes for corpora: none for small ones."""
    size = sum(_bytes(one) for one in many)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores if size >= LARGE else 0


SHARES = {"weight", "first_step", "last_step"}
"""Settings of a corpus that change nothing in a store."""


NOT_READ = {*TokenizerSettings.model_fields} - {"file", "target_file", "dropout", "variants"}
"""Settings that have no part where a tokenizer is given."""


def made_of(recipe: Recipe, named: Sequence[NamedCorpusReader]) -> dict[str, Any]:
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


def _opened(
    recipe: Recipe, folder: Path, named: Sequence[NamedCorpusReader], tokenizers: Tokenizers | None
) -> Prepared:
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
        counts = [RowCounts.of(one) for one in opened.about["counts"]]
    except (KeyError, TypeError, ValueError, AttributeError):
        raise DataError(f"{folder / 'about.json'}: damaged; remove {folder} and prepare it again") from None
    data = StoredCorpus(opened.pairs, parts, recipe.data.temperature)
    return Prepared(data, tokenizers or there, counts, [one.name for one in named])


def _streamed(
    recipe: Recipe, named: Sequence[NamedCorpusReader], tokenizers: Tokenizers, transforms: Sequence[Transform]
) -> Prepared:
    """A corpus that is read while it is trained on."""
    aside = tempfile.TemporaryDirectory()
    paths = tokenizers.save(Path(aside.name))
    asked = [_encoding(recipe, one, paths, transforms, variant=0) for one in named]
    workers = 0 if transforms else recipe.data.workers or _workers(named)

    def encode_all(blocks: Iterator[CorpusBlock], aside: object = aside) -> Iterator[TokenizedBlock]:
        """``aside``: the folder of the tokenizers, which goes when nobody needs it any more."""
        return parallel_map(MultiCorpusTokenizer, asked, blocks, workers=workers)

    sizes = [_bytes(one) for one in named]
    sizes = sizes if all(sizes) else [1] * len(named)  # where one is not known, all are alike
    parts = [
        StreamedPart(one.corpus.blocks, size, **one.settings.model_dump(include=SHARES), name=one.name)
        for one, size in zip(named, sizes, strict=True)
    ]
    data = StreamedCorpus(tuple(parts), encode_all, recipe.data.max_length, recipe.data.temperature)
    return Prepared(data, tokenizers, [], [one.name for one in named])
