"""The training corpus of a recipe: read, filtered and tokenized; in memory, in memory-mapped files, or as a stream.

Its tokenizers are those of another run, of a file, or learned from a sample of the training pairs. It has learned from
its pairs how long outputs may become, and whether they may loop (`learn_length_limits`).
"""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from weft.data.batching.batches import BatchSource, Mixture, Part, StoredCorpus
from weft.data.batching.streaming import CorpusBlock, StreamedCorpus, StreamedPart
from weft.data.filtering.pipeline import Pipeline, located
from weft.data.filtering.steps import Call, StepError
from weft.data.fingerprints import FingerprintCollector, Fingerprints, length_divisor_for
from weft.data.pairs import Pair, RowError, is_blank
from weft.data.preparation.corpora import (
    CorpusEntry,
    Transform,
    corpus_files,
    find_corpora,
    pipeline_steps,
    skip_row,
)
from weft.data.store.block_tokenizer import (
    BLANK,
    TOO_LONG,
    UNREADABLE,
    BlockTokenizerSpec,
    MultiCorpusTokenizer,
    RowCounts,
    TokenizedBlock,
)
from weft.data.store.prepared import PreparedFolder
from weft.data.store.token_store import PairStore, StoreWriter, TokenStore
from weft.data.store.worker_processes import parallel_map
from weft.errors import DataError, RecipeError, warn
from weft.recipe import CorpusSettings, Recipe
from weft.recipe.choices import DRAWINGS
from weft.runs.length_limits import SMALLEST, LengthLimits
from weft.runs.locks import is_empty_folder, lock_folder
from weft.runtime.activity import activity
from weft.runtime.processes import core_count
from weft.search.repetition import LoopLimits, has_loop
from weft.text.preprocessing import check_patterns
from weft.text.tokenizer import Tokenizer, Tokenizers, learn, load_tokenizers, sample
from weft.text.vocabulary import LearningOptions

MAX_SAMPLED_PAIRS = 5_000_000
"""Pairs in a sample: a pair counts for at least this part of tokenizer.sample, as every pair takes memory."""
LEARNED_BLOCK = 4096
"""Pairs that go through the pipeline together when a tokenizer is learned from all of them."""
NO_PAIRS = "data.train: no pair is left to train on; `weft data check` says why they were dropped"
PARALLEL_BYTES = 32 << 20
"""The size of the text from which worker processes are worth their start."""


class PreparedCorpus(NamedTuple):
    """A corpus to train on."""

    data: BatchSource
    tokenizers: Tokenizers
    counts: list[RowCounts]
    """Kept and dropped rows of each corpus; empty for a stream."""
    names: list[str]
    length_limits: LengthLimits = SMALLEST
    """Limits on the length and the loops of outputs, learned from the pairs."""
    fingerprints: Fingerprints | None = None
    """Fingerprints of the pairs; None for a stream, and for a folder that was prepared without them."""

    def save(self, folder: Path) -> None:
        """Write what a run keeps of its training data: tokenizers, length limits, and fingerprints of the pairs."""
        self.tokenizers.save(folder)
        self.length_limits.write(folder)
        if self.fingerprints is not None:
            self.fingerprints.save(folder)

    def add_fingerprints(self, folder: Path) -> None:
        """Add the fingerprints of the pairs to those that a run has of other pairs it was trained on."""
        if self.fingerprints is not None:
            former = Fingerprints.load(folder)
            (self.fingerprints if former is None else former.merged(self.fingerprints)).save(folder)

    @property
    def pairs(self) -> int:
        """Pairs to train on, each counted once even if it is stored in several variants; of a stream those of its
        first window."""
        return sum(counts.kept for counts in self.counts) if self.counts else self.data.corpus_size.pairs


def prepare(
    recipe: Recipe,
    *,
    tokenizers: Tokenizers | None = None,
    start: Sequence[Path] = (),
    transforms: Transform | Sequence[Transform] = (),
) -> PreparedCorpus:
    """The training corpus of a recipe.

    Tokenizers are the ones given, those of a run (``start``: its tokenizer files), those that the recipe names, or
    learned from the corpus. A folder (data.prepared) is made by one process; others that need it wait, and then use it.
    """
    transforms = (transforms,) if callable(transforms) else transforms
    corpus = _prepare(recipe, tokenizers, start, transforms)
    tokenizers = corpus.tokenizers.with_columns(recipe.model.sources.count, given=recipe.given_columns)
    return corpus._replace(tokenizers=tokenizers, length_limits=learn_length_limits(corpus.data, recipe))


def _prepare(
    recipe: Recipe,
    tokenizers: Tokenizers | None,
    start: Sequence[Path],
    transforms: Sequence[Transform],
) -> PreparedCorpus:
    """The corpus in memory or in a prepared folder, which is made if there is none, or as a stream."""
    folder = None if recipe.data.prepared is None else Path(recipe.data.folder) / recipe.data.prepared
    if folder is not None and transforms:
        raise DataError("data.prepared: a folder cannot record Python functions; prepare without a folder")
    exists = folder is not None and folder.exists() and not is_empty_folder(folder)
    entries = find_corpora(recipe, "train", allow_missing=exists)
    _check_drawings(recipe, entries)
    mixed = [Part(0, 1, **entry.mixing) for entry in entries]
    Mixture(mixed, seed=recipe.seed).check(recipe.training.steps)  # before a long preparation
    if folder is not None and exists:
        return _open(recipe, folder, entries, tokenizers)
    store = _StoreBuilder(recipe, entries, transforms)
    if folder is not None:
        with lock_folder(folder, "preparing", patience=math.inf, on_wait=_report_waiting):
            if folder.exists() and not is_empty_folder(folder):  # another process has prepared it in the meantime
                return _open(recipe, folder, entries, tokenizers)
            tokenizers = tokenizers or make_tokenizers(recipe, entries, start, transforms)
            return store.prepare(tokenizers, folder)
    tokenizers = tokenizers or make_tokenizers(recipe, entries, start, transforms)
    if recipe.data.streaming:
        return _stream(recipe, entries, tokenizers, transforms)
    return store.prepare(tokenizers)


def _check_drawings(recipe: Recipe, entries: Sequence[CorpusEntry]) -> None:
    """Fail if the names of drawings would be read as texts."""
    for name in (entry.name for entry in entries if entry.name in DRAWINGS):
        if recipe.tokenizer.kind != "picture":
            raise RecipeError(
                f"tokenizer.kind: {recipe.tokenizer.kind!r} would read the names of the pictures of {name!r}; "
                "set it to 'picture'"
            )


def _open(
    recipe: Recipe, folder: Path, entries: Sequence[CorpusEntry], tokenizers: Tokenizers | None
) -> PreparedCorpus:
    from weft.data.preparation.provenance import open_prepared

    return open_prepared(recipe, folder, entries, tokenizers)


def _report_waiting(reason: str) -> None:
    warn(f"waiting: {reason}")


class EmptyCorpusError(DataError):
    """All pairs were dropped."""


def learn_tokenizers(recipe: Recipe, pairs: Iterable[Pair]) -> Tokenizers:
    """Learn tokenizers from pairs, which are read once if the sources are arrays."""
    settings = recipe.tokenizer

    def learn_kind(kind: str, texts: Iterable[str]) -> Tokenizer:
        with activity("learning the tokenizer"):
            return learn(kind, texts, LearningOptions.from_settings(settings))

    sources, targets = _source_texts(recipe, pairs), (pair.target for pair in pairs)
    if recipe.source_role == "none":
        joint = learn_kind(settings.target_unit, targets)
        return Tokenizers(joint, joint)
    if settings.joint:
        joint = learn_kind(settings.kind, chain(sources, targets))
        return Tokenizers(joint, joint)
    if recipe.source_role == "prompt":
        raise RecipeError("tokenizer.joint: a language model has one tokenizer for both sides; it needs joint = true")
    return Tokenizers(learn_kind(settings.kind, sources), learn_kind(settings.target_unit, targets))


def _source_texts(recipe: Recipe, pairs: Iterable[Pair]) -> Iterable[str]:
    """The sources, or each column of them."""
    sources = (pair.source for pair in pairs)
    if recipe.model.sources.count == 1:
        return sources
    from weft.text.columns import columns_of_texts

    return columns_of_texts(sources)


def make_tokenizers(
    recipe: Recipe,
    entries: Sequence[CorpusEntry],
    start: Sequence[Path] = (),
    transforms: Sequence[Transform] = (),
) -> Tokenizers:
    """The tokenizers of a new run; ``start``: the tokenizer files of the run that it starts from."""
    settings = recipe.tokenizer
    languages = settings.source_language, settings.target_language
    if start:
        tokenizers = load_tokenizers(start).with_new_languages(settings.new_languages).with_languages(*languages)
        if not settings.extend:
            return tokenizers
        return _extend(recipe, tokenizers, _sample_pairs(recipe, entries, transforms))
    if settings.file is not None:
        files = [settings.file, *([] if settings.target_file is None else [settings.target_file])]
        return load_tokenizers([Path(recipe.data.folder) / file for file in files]).with_languages(*languages)
    check_patterns(settings.protect)  # before the corpus is read
    if settings.reads_arrays:  # there is nothing to learn of the names of files: the targets need not be kept
        return learn_tokenizers(recipe, _learned_pairs(recipe, entries, transforms))
    return learn_tokenizers(recipe, _sample_pairs(recipe, entries, transforms))


def _numbered_pairs(recipe: Recipe, entries: Sequence[CorpusEntry]) -> Iterator[tuple[int, Pair]]:
    """All pairs that can be read and are not blank, each with the index of its corpus."""
    reads_source = recipe.source_role != "none"
    for index, entry in enumerate(entries):
        with activity(f"reading {entry.name}", "pairs") as reading:
            for block in entry.corpus.blocks():
                for _, row in block.rows():
                    if isinstance(row, RowError):
                        skip_row(recipe, row, Counter())
                    elif not is_blank(row, sources=reads_source):
                        reading.done += 1
                        yield index, row


def _sample_pairs(recipe: Recipe, entries: Sequence[CorpusEntry], transforms: Sequence[Transform]) -> list[Pair]:
    """The pairs to learn a tokenizer from: all of a corpus that is not too large, else a random sample of them."""
    least = recipe.tokenizer.sample // MAX_SAMPLED_PAIRS
    sampled = sample(
        _numbered_pairs(recipe, entries),
        size=lambda row: max(len(row[1].source) + len(row[1].target), least),
        characters=recipe.tokenizer.sample,
        seed=recipe.seed,
    )
    pairs: list[Pair] = []
    for index, entry in enumerate(entries):
        pipeline = Pipeline(pipeline_steps(recipe, entry.settings, transforms), seed=recipe.seed)
        try:
            pairs += pipeline.run([pair for corpus, pair in sampled if corpus == index]).pairs
        except StepError as error:
            raise located(error, entry.corpus.blocks()) from None
    if not pairs:
        raise EmptyCorpusError(NO_PAIRS)
    return pairs


def _learned_pairs(recipe: Recipe, entries: Sequence[CorpusEntry], transforms: Sequence[Transform]) -> Iterator[Pair]:
    """All pairs, one after the other, until they have as many characters as a sample."""
    left = recipe.tokenizer.sample
    for entry in entries:
        pipeline = Pipeline(pipeline_steps(recipe, entry.settings, transforms), seed=recipe.seed)
        pairs = (pair for _, pair in _numbered_pairs(recipe, [entry]))
        while left > 0 and (block := [*islice(pairs, LEARNED_BLOCK)]):
            try:
                learned = pipeline.run(block).pairs
            except StepError as error:
                raise located(error, entry.corpus.blocks()) from None
            left -= sum(len(pair.target) for pair in learned)
            yield from learned
    if left == recipe.tokenizer.sample:
        raise EmptyCorpusError(NO_PAIRS)


def _extend(recipe: Recipe, tokenizers: Tokenizers, pairs: Sequence[Pair]) -> Tokenizers:
    """The tokenizers of another run, with new ids for symbols of the pairs that they do not know."""
    minimum = recipe.tokenizer.minimum_count
    targets = [pair.target for pair in pairs]
    sources = [*_source_texts(recipe, pairs)] if recipe.source_role != "none" else []
    if tokenizers.joint:
        joint = tokenizers.source.extended([*sources, *targets], minimum_count=minimum)
        return Tokenizers(joint, joint)
    return Tokenizers(
        tokenizers.source.extended(sources, minimum_count=minimum),
        tokenizers.target.extended(targets, minimum_count=minimum),
    )


class _StoreBuilder:
    """Tokenizes the corpora of a recipe into one token store."""

    def __init__(self, recipe: Recipe, entries: Sequence[CorpusEntry], transforms: Sequence[Transform]) -> None:
        self.recipe = recipe
        self.entries = entries
        self.transforms = transforms
        self.counts: list[RowCounts] = []
        self.parts: list[Part] = []
        self.fingerprints = fingerprint_collector(recipe, entries)

    def prepare(self, tokenizers: Tokenizers, folder: Path | None = None) -> PreparedCorpus:
        """All corpora, in a new folder or in memory."""
        vocabulary_sizes = (tokenizers.source.size, tokenizers.target.size)
        if self.recipe.model.copies:  # with the ids of `weft.text.copying`
            own_ids = tokenizers.target.size + self.recipe.data.max_length
            vocabulary_sizes = (tokenizers.source.size + own_ids, own_ids)
        if folder is not None:
            pairs = PreparedFolder.create(folder, vocabulary_sizes, partial(self.fill, tokenizers)).pairs
        else:
            writer = StoreWriter(None, vocabulary_sizes)
            self.write(tokenizers, writer)
            pairs = writer.finish()
        data = StoredCorpus(pairs, tuple(self.parts), self.recipe.data.temperature)
        names = [entry.name for entry in self.entries]
        return PreparedCorpus(data, tokenizers, self.counts, names, fingerprints=self.fingerprints.finish())

    def write(self, tokenizers: Tokenizers, writer: StoreWriter) -> None:
        """Write all corpora, each in as many variants as BPE-dropout or the random steps of the pipeline ask for."""
        tokenizations = self.recipe.tokenizer.variants if self.recipe.tokenizer.dropout else 1
        variants = max(tokenizations, self.recipe.data.variants)
        for entry in self.entries:
            start = writer.rows
            for variant in range(variants):
                spec = tokenizer_spec(self.recipe, entry, tokenizers, self.transforms)
                length_divisor = 0 if variant else self.fingerprints.length_divisor
                spec = replace(spec, variant=variant, length_divisor=length_divisor)
                name = entry.name if variants == 1 else f"{entry.name}, variant {variant + 1} of {variants}"
                counts = writer.write(self._collected(tokenize(self.recipe, entry, spec), name))
            self.counts.append(counts)
            kept = counts.kept if tokenizations > 1 else writer.rows - start
            self.parts.append(Part(start, kept, tokenizations, **entry.mixing))

    def fill(self, tokenizers: Tokenizers, path: Path, writer: StoreWriter) -> dict[str, Any]:
        """Write tokenizers and corpora into a folder; what else about.json must record."""
        from weft.data.preparation.provenance import provenance, with_contents

        made_of = with_contents(provenance(self.recipe, self.entries))
        tokenizers.save(path)
        self.write(tokenizers, writer)
        self.fingerprints.finish().save(path)
        return {
            "made_of": made_of,
            "names": [entry.name for entry in self.entries],
            "parts": [part._asdict() for part in self.parts],
            "counts": [counts.record() for counts in self.counts],
        }

    def _collected(self, blocks: Iterable[TokenizedBlock], name: str) -> Iterator[TokenizedBlock]:
        """Pass the blocks on; their fingerprints are collected and their rows counted."""
        for block in counted(blocks, f"tokenizing {name}"):
            self.fingerprints.add(block.fingerprints)
            yield block


def counted(blocks: Iterable[TokenizedBlock], what: str) -> Iterator[TokenizedBlock]:
    """Pass the blocks on; their rows are counted by an activity."""
    with activity(what, "rows") as tokenizing:
        for block in blocks:
            yield block
            tokenizing.done += len(block.drop_reasons)


def tokenizer_spec(
    recipe: Recipe,
    entry: CorpusEntry,
    tokenizers: Tokenizers | None,
    transforms: Sequence[Transform] = (),
) -> BlockTokenizerSpec:
    """The filtering and tokenization of the blocks of a corpus; without tokenizers they are only filtered."""
    steps = pipeline_steps(recipe, entry.settings, transforms)
    return BlockTokenizerSpec(recipe, tokenizers or (), steps)


def tokenize(recipe: Recipe, entry: CorpusEntry, spec: BlockTokenizerSpec) -> Iterator[TokenizedBlock]:
    """The tokenized blocks of a corpus."""
    blocks = ((0, spec.variant, block) for block in entry.corpus.blocks())
    return _tokenize_blocks([spec], blocks, workers=_worker_count(recipe, [entry], [spec]))


def _tokenize_blocks(
    specs: Sequence[BlockTokenizerSpec], blocks: Iterable[CorpusBlock], *, workers: int
) -> Iterator[TokenizedBlock]:
    """Tokenize blocks of several corpora, which have the same tokenizers; processes load these from files."""
    if not workers:
        yield from map(MultiCorpusTokenizer(specs), blocks)
        return
    with tempfile.TemporaryDirectory() as folder:
        if isinstance(tokenizers := specs[0].tokenizers, Tokenizers):
            paths = tokenizers.save(Path(folder))
            specs = [replace(spec, tokenizers=paths) for spec in specs]
        yield from parallel_map(MultiCorpusTokenizer, specs, blocks, workers=workers)


def _worker_count(recipe: Recipe, entries: Sequence[CorpusEntry], specs: Sequence[BlockTokenizerSpec]) -> int:
    """Worker processes for corpora; 0 for small ones, and for Python functions, which cannot be sent to a process."""
    if any(isinstance(step, Call) for spec in specs for step in spec.steps):
        return 0
    if recipe.data.workers:
        return recipe.data.workers
    if sum(_text_bytes(entry) for entry in entries) < PARALLEL_BYTES:
        return 0
    return core_count()


def _text_bytes(entry: CorpusEntry) -> int:
    return sum(path.stat().st_size for path in corpus_files(entry) if path.is_file())


def fingerprint_collector(recipe: Recipe, entries: Sequence[CorpusEntry]) -> FingerprintCollector:
    """A collector for the fingerprints of the pairs of these corpora."""
    length_divisor = length_divisor_for(sum(map(_text_bytes, entries)))
    return FingerprintCollector(sources=recipe.source_role != "none", length_divisor=length_divisor)


def drop_reasons(recipe: Recipe) -> dict[int, str]:
    """The meaning of each drop reason."""
    steps = pipeline_steps(recipe, CorpusSettings())
    return {
        UNREADABLE: "cannot be read",
        BLANK: "a blank side",
        TOO_LONG: f"more than {recipe.data.max_length} tokens on a side",
        **{number: str(step) for number, step in enumerate(steps)},
    }


def _stream(
    recipe: Recipe, entries: Sequence[CorpusEntry], tokenizers: Tokenizers, transforms: Sequence[Transform]
) -> PreparedCorpus:
    """A corpus that is read while it is trained on."""
    specs = [tokenizer_spec(recipe, entry, tokenizers, transforms) for entry in entries]
    tokenize_blocks = partial(_tokenize_blocks, specs, workers=_worker_count(recipe, entries, specs))
    sizes = [_text_bytes(entry) for entry in entries]
    sizes = sizes if all(sizes) else [1] * len(entries)  # if one size is unknown, all count as equal
    parts = [
        StreamedPart(entry.name, entry.corpus.blocks, Part(0, size, **entry.mixing))
        for entry, size in zip(entries, sizes, strict=True)
    ]
    data = StreamedCorpus(tuple(parts), tokenize_blocks, recipe.data.max_length, recipe.data.temperature)
    return PreparedCorpus(data, tokenizers, [], [entry.name for entry in entries])


SAMPLE_PAIRS = 1_000_000
"""Pairs of each corpus whose lengths are measured; of a larger corpus evenly spaced ones."""
LOOP_SAMPLE_PAIRS = 20_000
"""Targets of each corpus that are searched for loops; of a larger corpus evenly spaced ones."""
LOOP_BATCH_PAIRS = 2_000
"""Targets that are searched for loops at a time."""


def learn_length_limits(data: BatchSource, recipe: Recipe) -> LengthLimits:
    """The limits that the pairs of every corpus need, as they are tokenized; of a stream those of its first window."""
    end_tokens, is_text = int(recipe.source_role == "text"), not recipe.tokenizer.reads_arrays
    limits = LengthLimits.largest(
        LengthLimits.learn(
            np.maximum(pairs.source.lengths_of(rows) - end_tokens, 0) * is_text,
            pairs.target.lengths_of(rows),
            loop_share=loop_share(pairs.target, rows),
        )
        for pairs, rows in _samples(data)
    )
    return limits if is_text else limits._replace(max_ratio=0.0)


def _samples(data: BatchSource) -> Iterator[tuple[PairStore, np.ndarray]]:
    """The rows of each corpus, or a sample of them."""
    if isinstance(data, StreamedCorpus):
        yield data.first_window, np.arange(len(data.first_window))
    elif isinstance(data, StoredCorpus):
        for part in data.parts or (Part(0, len(data.pairs)),):
            stop = part.start + part.pairs * part.variants
            yield data.pairs, np.arange(part.start, stop, -(-(stop - part.start) // SAMPLE_PAIRS) or 1)


def loop_share(targets: TokenStore, rows: np.ndarray) -> float:
    """The fraction of the targets, or of a sample of them, that contain a loop (`weft.search.repetition`)."""
    count = min(len(rows), LOOP_SAMPLE_PAIRS)
    rows = rows[np.arange(count) * len(rows) // max(count, 1)]
    long_rows = rows[targets.lengths_of(rows) >= LoopLimits().tokens]
    looping = 0
    for start in range(0, len(long_rows), LOOP_BATCH_PAIRS):
        batch = long_rows[start : start + LOOP_BATCH_PAIRS]
        looping += int(has_loop(targets.values_of(batch), targets.lengths_of(batch)).sum())
    return looping / max(count, 1)
