"""From a block of a corpus to token ids, in this process or in a worker process.

Every row gets a drop reason: it cannot be read, is blank, was dropped by a step of the pipeline, is too long, or was
kept. `count_rows` counts them once all blocks are known, and with them the duplicates. Nothing here imports torch: a
worker starts in half a second.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from weft.data.filtering.duplicates import Hashes, decide_duplicates
from weft.data.filtering.pipeline import KEPT, Pipeline, located
from weft.data.filtering.steps import Step, StepError
from weft.data.fingerprints import fingerprint
from weft.data.pairs import BLANK_KIND, Pair, RowError, blank_error, is_blank
from weft.data.reading.text_files import Block
from weft.errors import DataError, VocabularyError
from weft.recipe import Recipe
from weft.text.bpe import BPE
from weft.text.columns import ColumnTokenizer
from weft.text.specials import END, UNKNOWN
from weft.text.tokenizer import Tokenizer, Tokenizers, load_tokenizers
from weft.text.vocabulary import MAX_TEXT_CHARACTERS

if TYPE_CHECKING:
    from weft.text.copying import SentenceIds

UNREADABLE, BLANK, TOO_LONG = -2, -3, -4
"""Drop reasons besides `KEPT` (-1) and the indices of the pipeline's steps."""
AFTER_ALL_STEPS = np.int16(32_000)
"""Stands for the index of a step after all others."""


@dataclass(frozen=True)
class BlockTokenizerSpec:
    """The specification for a worker; with the files of tokenizers, it can be pickled."""

    recipe: Recipe
    tokenizers: Tokenizers | tuple[Path, ...] = ()
    """Tokenizers, or their file for both sides, or one file per side; none: pairs are only read and filtered."""
    steps: tuple[Step, ...] = ()
    variant: int = 0
    """Random steps and BPE-dropout give each variant another text or tokenization."""
    examples: int = 0
    """Number of dropped pairs to send back for each drop reason."""
    length_divisor: int = 0
    """Pairs whose source length is a multiple of this get a fingerprint; 0: none."""


class FlatSequences(NamedTuple):
    """Sequences end to end."""

    values: np.ndarray
    lengths: np.ndarray

    @classmethod
    def empty(cls, rows: int = 0) -> FlatSequences:
        """``rows`` empty sequences."""
        return cls(np.zeros(0, dtype=np.int32), np.zeros(rows, dtype=np.int64))

    def select(self, keep: np.ndarray) -> FlatSequences:
        """The sequences that are kept."""
        return FlatSequences(self.values[np.repeat(keep, self.lengths)], self.lengths[keep])

    def framed(self, before: Sequence[int], after: Sequence[int]) -> FlatSequences:
        """Each sequence with the same ids before and after it."""
        rows, added = len(self.lengths), len(before) + len(after)
        if not added:
            return self
        values = np.zeros(len(self.values) + rows * added, dtype=np.int32)
        ends = np.cumsum(self.lengths + added)
        for index, id in enumerate(before):
            values[ends - self.lengths - added + index] = id
        for index, id in enumerate(after):
            values[ends - len(after) + index] = id
        values[np.arange(len(self.values)) + np.repeat(np.arange(rows) * added + len(before), self.lengths)] = (
            self.values
        )
        return FlatSequences(values, self.lengths + added)

    def replace_rows(self, id: int, replacement: Callable[[int, list[int]], list[int]]) -> FlatSequences:
        """Each sequence that contains an id replaced, by one of the same length that depends on its row and ids."""
        rows = np.unique(np.repeat(np.arange(len(self.lengths)), self.lengths)[self.values == id])
        values, starts = self.values.copy(), np.cumsum(self.lengths) - self.lengths
        for row in rows.tolist():
            span = slice(starts[row], starts[row] + self.lengths[row])
            values[span] = replacement(row, self.values[span].tolist())
        return FlatSequences(values, self.lengths)


@dataclass
class TokenizedBlock:
    """The token ids of a block, and what became of each of its rows."""

    drop_reasons: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int16))
    source: FlatSequences = field(default_factory=FlatSequences.empty)
    target: FlatSequences = field(default_factory=FlatSequences.empty)
    hashes: dict[int, np.ndarray] = field(default_factory=dict)
    """The hashes of all rows for each `duplicates` step; 0 where a row did not reach it."""
    row_errors: Counter[str] = field(default_factory=Counter)
    """Unreadable and blank rows, by the kind of error."""
    first_errors: dict[str, str] = field(default_factory=dict)
    """The first message of each kind of error."""
    examples: dict[int, list[tuple[str, Pair]]] = field(default_factory=dict)
    """Some pairs for each drop reason, with their locations."""
    fingerprints: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint64))
    """Fingerprints of the kept pairs, including those that a `duplicates` step will drop."""
    fatal: str | None = None
    """The error that ends the preparation here."""


class BlockTokenizer:
    """Reads, filters and tokenizes blocks."""

    def __init__(self, spec: BlockTokenizerSpec) -> None:
        self.spec = spec
        self.settings = spec.recipe.data
        self.reads_arrays = spec.recipe.tokenizer.reads_arrays
        self.wheres: list[str] = []
        """File and line of the pairs that are encoded, for the errors of arrays."""
        self.pipeline = Pipeline(spec.steps, seed=spec.recipe.seed)
        self.tokenizers = block_tokenizers(spec)
        self.reads_sources = spec.recipe.source_role != "none"
        self.sentence_ids: SentenceIds | None = None
        if spec.recipe.model.copies and self.tokenizers is not None:
            from weft.text.copying import SentenceIds

            self.sentence_ids = SentenceIds.of(self.tokenizers)

    def __call__(self, block: Block, variant: int | None = None) -> TokenizedBlock:
        result = TokenizedBlock()
        reasons: list[int] = []
        pairs: list[Pair] = []
        numbers: list[int] = []
        for number, row in block.rows():
            numbers.append(number)
            reasons.append(self._read(result, row, f"{block.name}:{number}"))
            if result.fatal is not None:
                return result
            if reasons[-1] == KEPT and not isinstance(row, RowError):
                pairs.append(row)
        result.drop_reasons = np.array(reasons, dtype=np.int16)
        readable = np.flatnonzero(result.drop_reasons == KEPT)
        try:
            drawing = self.spec.variant if variant is None else variant
            outcome = self.pipeline.run(pairs, drawing % self.settings.variants)
        except StepError as error:
            raise located(error, [block]) from None
        result.drop_reasons[readable] = outcome.drop_reasons
        for step, hashes in outcome.hashes.items():
            result.hashes[step] = np.zeros(len(reasons), dtype=np.uint64)
            result.hashes[step][readable] = [0 if value is None else value for value in hashes]
        if self.tokenizers is not None:
            kept_rows = readable[np.array(outcome.rows, dtype=np.int64)]
            self.wheres = [f"{block.name}:{numbers[row]}" for row in kept_rows.tolist()]
            self._encode(result, outcome.pairs, kept_rows, drawing)
            if result.fatal is not None:
                return result
        if self.spec.examples:
            locations = [f"{block.name}:{number}" for number in numbers]
            self._add_examples(result, locations, dict(zip(readable.tolist(), pairs, strict=True)))
        return result

    def _read(self, result: TokenizedBlock, row: Pair | RowError, where: str) -> int:
        """The drop reason of a row before any filter; an error is counted, or fatal."""
        if isinstance(row, RowError):
            reason, error, policy, setting = UNREADABLE, row, self.settings.bad_rows, "bad_rows"
        elif is_blank(row, sources=self.reads_sources):
            error = blank_error(row, where, sources=self.reads_sources)
            reason, policy, setting = BLANK, self.settings.blank_rows, "blank_rows"
        else:
            return KEPT
        result.row_errors[error.kind] += 1
        result.first_errors.setdefault(error.kind, error.message)
        if policy == "error":
            result.fatal = f"{error.message}; fix it, or set data.{setting} = 'skip'"
        return reason

    def _encode(self, result: TokenizedBlock, pairs: Sequence[Pair], rows: np.ndarray, variant: int) -> None:
        """Add the ids of these pairs, which are from these rows; empty and overlong sequences are dropped."""
        sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
        longest = [max(len(pair.source), len(pair.target)) for pair in pairs]
        oversized = np.array(longest, dtype=np.int64) > MAX_TEXT_CHARACTERS
        for row in np.flatnonzero(oversized):  # too long to be tokenized, so also too long to be trained on
            sources[row] = targets[row] = ""
        assert self.tokenizers is not None
        target = self._tokenize(self.tokenizers.target, targets, variant)
        source, unreadable = FlatSequences.empty(len(pairs)), np.zeros(len(pairs), bool)
        if self.reads_arrays:
            source, unreadable = self._read_arrays(result, sources)
        elif self.reads_sources:
            source = self._tokenize(self.tokenizers.source, sources, variant)
        if (own := self.sentence_ids) is not None:
            target = target.replace_rows(UNKNOWN, lambda row, ids: own.target(targets[row], ids, sources[row]))
            source = source.replace_rows(UNKNOWN, lambda row, ids: own.source(sources[row], ids))
        blank = target.lengths == 0
        if self.reads_sources:
            blank |= source.lengths == 0
        lengths = target.lengths if self.reads_arrays else np.maximum(source.lengths, target.lengths)
        if self.spec.recipe.tokenizer.dropout:  # which rows are kept must not depend on the variant
            lengths = self.tokenizers.target.encode_arrays(targets)[1]
            if self.reads_sources:
                lengths = np.maximum(lengths, self.tokenizers.source.encode_arrays(sources)[1])
        blank &= ~(oversized | unreadable)
        too_long = ~(blank | unreadable) & (lengths > self.settings.max_length) | oversized
        result.drop_reasons[rows[unreadable]] = UNREADABLE
        result.drop_reasons[rows[blank]] = BLANK
        if blank.any():
            result.row_errors[BLANK_KIND] += int(blank.sum())
        result.drop_reasons[rows[too_long]] = TOO_LONG
        keep = ~(blank | too_long | unreadable)
        if not keep.all():
            source, target = source.select(keep), target.select(keep)
        if self.spec.length_divisor:
            kept = [pair for pair, is_kept in zip(pairs, keep.tolist(), strict=True) if is_kept]
            result.fingerprints = fingerprint(kept, sources=self.reads_sources, length_divisor=self.spec.length_divisor)
        frame = self.tokenizers.frame
        result.target = target.framed(frame.target_before, (END,))
        if self.spec.recipe.source_role == "text":
            source = source.framed(frame.source_before, frame.source_after)
        result.source = source

    def _read_arrays(self, result: TokenizedBlock, names: Sequence[str]) -> tuple[FlatSequences, np.ndarray]:
        """The arrays of these names, and which of them cannot be read: an error is counted, or fatal."""
        from weft.data.arrays.corpus import read_source

        assert self.tokenizers is not None
        rows = [read_source(self.tokenizers.source, *item) for item in zip(names, self.wheres, strict=True)]
        unreadable = np.array([isinstance(row, RowError) for row in rows], bool)
        for row, where in zip(rows, self.wheres, strict=True):
            if isinstance(row, RowError):
                self._read(result, row, where)
        arrays = [np.zeros(0, np.uint8) if isinstance(row, RowError) else row for row in rows]
        return FlatSequences(
            np.concatenate([np.zeros(0, np.uint8), *arrays]), np.array([*map(len, arrays)], np.int64)
        ), unreadable

    def _tokenize(self, tokenizer: Tokenizer, texts: list[str], variant: int) -> FlatSequences:
        recipe = self.spec.recipe
        if not recipe.tokenizer.dropout:
            return FlatSequences(*tokenizer.encode_arrays(texts))
        if not (tokenizer.supports_dropout and isinstance(tokenizer, BPE | ColumnTokenizer)):
            raise VocabularyError(f"tokenizer.dropout: a tokenizer of kind {tokenizer.kind!r} cannot leave out merges")
        sequences: list[list[int]] = []
        for text in texts:
            key = blake2b(f"{recipe.seed} {variant} {text}".encode(), digest_size=8).digest()
            random = Random(int.from_bytes(key))
            sequences.append(tokenizer.encode_with_dropout(text, recipe.tokenizer.dropout, random))
        lengths = np.array([len(ids) for ids in sequences], dtype=np.int64)
        return FlatSequences(np.array([id for ids in sequences for id in ids], dtype=np.int32), lengths)

    def _add_examples(self, result: TokenizedBlock, locations: list[str], pairs: dict[int, Pair]) -> None:
        """Add some of the dropped pairs, as they were read."""
        for row, reason in enumerate(result.drop_reasons.tolist()):
            examples = result.examples.setdefault(reason, [])
            if reason != KEPT and row in pairs and len(examples) < self.spec.examples:
                examples.append((locations[row], pairs[row]))


def block_tokenizers(spec: BlockTokenizerSpec) -> Tokenizers | None:
    """The tokenizers of source and target, if there are some."""
    given = spec.tokenizers
    if not given:
        return None
    tokenizers = given if isinstance(given, Tokenizers) else load_tokenizers(given)
    return tokenizers.with_columns(spec.recipe.model.sources.count)


class MultiCorpusTokenizer:
    """Tokenizes blocks of several corpora."""

    def __init__(self, specs: Sequence[BlockTokenizerSpec]) -> None:
        self.tokenizers = [BlockTokenizer(spec) for spec in specs]

    def __call__(self, item: tuple[int, int, Block]) -> TokenizedBlock:
        """A block, after the number of its corpus and how often that was read before."""
        corpus, repetition, block = item
        return self.tokenizers[corpus](block, repetition)


@dataclass
class RowCounts:
    """Counts of kept and dropped rows of a corpus: `rows` is the sum of those kept and those dropped."""

    rows: int = 0
    kept: int = 0
    dropped: Counter[int] = field(default_factory=Counter)
    """By drop reason."""
    row_errors: Counter[str] = field(default_factory=Counter)
    first_errors: dict[str, str] = field(default_factory=dict)
    examples: dict[int, list[tuple[str, Pair]]] = field(default_factory=dict)

    def add(self, block: TokenizedBlock, examples: int = 0) -> None:
        """Count a block; its duplicates are not known yet."""
        self.rows += len(block.drop_reasons)
        self.row_errors.update(block.row_errors)
        for kind, message in block.first_errors.items():
            self.first_errors.setdefault(kind, message)
        for reason, pairs in block.examples.items():
            held = self.examples.setdefault(reason, [])
            held += pairs[: max(examples - len(held), 0)]

    def finish(self, drop_reasons: np.ndarray) -> None:
        """Count the final drop reasons of all rows."""
        reasons, counts = np.unique(drop_reasons, return_counts=True)
        self.dropped = Counter(dict(zip(reasons.tolist(), counts.tolist(), strict=True)))
        self.kept = self.dropped.pop(KEPT, 0)

    def record(self) -> dict[str, Any]:
        """The counts, for JSON."""
        dropped = {str(reason): count for reason, count in sorted(self.dropped.items())}
        return {"rows": self.rows, "kept": self.kept, "dropped": dropped, "problems": dict(self.row_errors)}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> RowCounts:
        dropped = Counter({int(reason): count for reason, count in record["dropped"].items()})
        return cls(record["rows"], record["kept"], dropped, Counter(record["problems"]))


def count_rows(
    blocks: Iterable[TokenizedBlock], write: Callable[[TokenizedBlock], None], *, examples: int = 0
) -> tuple[RowCounts, np.ndarray]:
    """Write and count the blocks of a corpus; also which of the rows written are not duplicates of earlier ones."""
    counts = RowCounts()
    all_reasons: list[np.ndarray] = []
    all_hashes: dict[int, list[np.ndarray]] = {}
    for block in blocks:
        if block.fatal is not None:
            raise DataError(block.fatal)
        counts.add(block, examples)
        all_reasons.append(block.drop_reasons)
        for step, values in block.hashes.items():
            all_hashes.setdefault(step, []).append(values)
        write(block)
    reasons = np.concatenate(all_reasons) if all_reasons else np.zeros(0, dtype=np.int16)
    del all_reasons
    final = reasons
    if all_hashes:
        concatenated = {step: np.concatenate(all_hashes.pop(step)) for step in list(all_hashes)}
        hashes = {step: Hashes(values, values != 0) for step, values in concatenated.items()}
        # Pairs too long, or empty once tokenized, were dropped after all steps: they still count as first duplicates.
        dropped_late = (reasons == TOO_LONG) | (reasons == BLANK)
        final = decide_duplicates(np.where(dropped_late, AFTER_ALL_STEPS, reasons), hashes)
        final = np.where(final == AFTER_ALL_STEPS, reasons, final)
    counts.finish(final)
    return counts, final[reasons == KEPT] == KEPT
