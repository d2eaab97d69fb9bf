"""From a block of a corpus to ids: what a worker process does, and what it sends back.

Every row has a drop reason: it cannot be read, is blank, was dropped by a step of the pipeline, is too long, or was
kept. Nothing here imports torch: a worker starts in half a second.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np

from weft.data.filtering.pipeline import Pipeline
from weft.data.filtering.steps import Step
from weft.data.pairs import Pair, RowError, is_blank
from weft.data.reading.blocks import Block
from weft.data.reading.corpora import Policy
from weft.data.store.encode import SourceRole
from weft.errors import VocabularyError
from weft.text.bpe import BPE
from weft.text.specials import END
from weft.text.tokenizer import Tokenizer, load

KEPT, UNREADABLE, BLANK, TOO_LONG = -1, -2, -3, -4
"""Fates beside the numbers of the pipeline's steps, which drop what reaches them."""


@dataclass(frozen=True)
class BlockTokenizerSpec:
    """All that a worker needs to know; it can be pickled."""

    tokenizers: tuple[Path, ...]
    """The file of both sides, or those of source and target; none: pairs are only read and filtered."""
    steps: tuple[Step, ...] = ()
    seed: int = 1
    sources: SourceRole = "text"
    max_length: int | None = None
    """Rows with more tokens on a side are dropped; None: nothing is, not even what is blank."""
    bad_rows: Policy = "error"
    blank_rows: Policy = "skip"
    dropout: float = 0.0
    variant: int = 0
    """Tokenizations with dropout differ from variant to variant."""
    examples: int = 0
    """Dropped rows to send back of each drop_reason."""


class FlatSequences(NamedTuple):
    """Sequences end to end."""

    values: np.ndarray
    lengths: np.ndarray


@dataclass
class TokenizedBlock:
    """What became of a block."""

    drop_reasons: np.ndarray
    source: FlatSequences
    target: FlatSequences
    hashes: dict[int, np.ndarray] = field(default_factory=dict)
    """For each step that looks for duplicates the hashes of all rows; 0 where a row did not reach it."""
    problems: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)
    """The first message of each kind of problem."""
    examples: dict[int, list[tuple[str, Pair]]] = field(default_factory=dict)
    error: str | None = None
    """What ends the preparation here."""


class BlockTokenizer:
    """Blocks to pieces."""

    def __init__(self, asked: BlockTokenizerSpec) -> None:
        self.asked = asked
        self.variant = asked.variant
        self.pipeline = Pipeline(asked.steps, seed=asked.seed)
        self.tokenizers = [load(path) for path in asked.tokenizers]

    def __call__(self, block: Block, variant: int | None = None) -> TokenizedBlock:
        asked = self.asked
        self.variant = asked.variant if variant is None else variant
        piece = TokenizedBlock(np.zeros(0, np.int16), _none(), _none())
        drop_reasons: list[int] = []
        pairs: list[Pair] = []
        numbers: list[int] = []
        reads = asked.sources != "none"
        for number, row in block.rows():
            numbers.append(number)
            if isinstance(row, RowError):
                drop_reasons.append(UNREADABLE)
                if self._spoils(piece, row.kind, row.message, asked.bad_rows):
                    return piece
                continue
            if is_blank(row, sources=reads):
                drop_reasons.append(BLANK)
                blank = "source" if reads and not row.source.strip() else "target"
                message = f"{block.name}:{number}: the {blank} is blank"
                if self._spoils(piece, "blank", message, asked.blank_rows):
                    return piece
                continue
            drop_reasons.append(KEPT)
            pairs.append(row)
        piece.drop_reasons = np.array(drop_reasons, dtype=np.int16)
        places = np.flatnonzero(piece.drop_reasons == KEPT)
        outcome = self.pipeline.run(pairs)
        piece.drop_reasons[places] = outcome.drop_reasons
        for step, found in outcome.hashes.items():
            piece.hashes[step] = np.zeros(len(drop_reasons), dtype=np.uint64)
            piece.hashes[step][places] = [0 if one is None else one for one in found]
        left = places[np.array(outcome.rows, dtype=np.int64)] if outcome.rows else np.zeros(0, dtype=np.int64)
        if self.tokenizers:
            self._encode(piece, outcome.pairs, left)
        if asked.examples:
            shown = dict(zip(places.tolist(), pairs, strict=True))
            self._show(piece, block.name, numbers, shown)
        return piece

    def _spoils(self, piece: TokenizedBlock, kind: str, message: str, policy: Policy) -> bool:
        """Note a problem; whether it is the end."""
        piece.problems[kind] += 1
        piece.first.setdefault(kind, message)
        if policy == "error":
            hint = "fix it, or set data.blank_rows" if kind == "blank" else "fix it, or set data.bad_rows"
            piece.error = f"{message}; {hint} = 'skip'"
        return piece.error is not None

    def _encode(self, piece: TokenizedBlock, pairs: Sequence[Pair], rows: np.ndarray) -> None:
        asked = self.asked
        target = self._cut(self.tokenizers[-1], [pair.target for pair in pairs])
        if asked.sources == "none":
            source = FlatSequences(np.zeros(0, dtype=np.int32), np.zeros(len(pairs), dtype=np.int64))
        else:
            source = self._cut(self.tokenizers[0], [pair.source for pair in pairs])
        if asked.max_length is not None:
            blank = target.lengths == 0
            if asked.sources != "none":
                blank |= source.lengths == 0
            most = np.maximum(source.lengths, target.lengths)
            if asked.dropout:  # which rows are kept must not depend on how they are cut this time
                whole = [self._cut(self.tokenizers[-1], [pair.target for pair in pairs], plain=True).lengths]
                if asked.sources != "none":
                    whole.append(self._cut(self.tokenizers[0], [pair.source for pair in pairs], plain=True).lengths)
                most = np.maximum.reduce(whole)
            long = ~blank & (most > asked.max_length)
            piece.drop_reasons[rows[blank]] = BLANK
            if blank.any():
                piece.problems["blank"] += int(blank.sum())
            piece.drop_reasons[rows[long]] = TOO_LONG
            keep = ~blank & ~long
            if not keep.all():
                source, target = chosen(source, keep), chosen(target, keep)
        piece.target = _ended(target)
        piece.source = _ended(source) if asked.sources == "text" else source

    def _cut(self, tokenizer: Tokenizer, texts: list[str], *, plain: bool = False) -> FlatSequences:
        asked = self.asked
        if plain or not asked.dropout:
            return FlatSequences(*tokenizer.encode_arrays(texts))
        if not (tokenizer.supports_dropout and isinstance(tokenizer, BPE)):
            raise VocabularyError(f"tokenizer.dropout: a tokenizer of kind {tokenizer.kind!r} cannot leave out merges")
        rows: list[list[int]] = []
        for text in texts:
            key = blake2b(f"{asked.seed} {self.variant} {text}".encode(), digest_size=8).digest()
            rows.append(tokenizer.encode_with_dropout(text, asked.dropout, Random(int.from_bytes(key))))
        lengths = np.array([len(row) for row in rows], dtype=np.int64)
        return FlatSequences(np.array([one for row in rows for one in row], dtype=np.int32), lengths)

    def _show(self, piece: TokenizedBlock, name: str, numbers: list[int], pairs: dict[int, Pair]) -> None:
        """Put some dropped rows into the piece."""
        for place, drop_reason in enumerate(piece.drop_reasons.tolist()):
            found = piece.examples.setdefault(drop_reason, [])
            if drop_reason != KEPT and place in pairs and len(found) < self.asked.examples:
                found.append((f"{name}:{numbers[place]}", pairs[place]))


class MultiCorpusTokenizer:
    """Blocks of several corpora to pieces."""

    def __init__(self, asked: Sequence[BlockTokenizerSpec]) -> None:
        self.encoders = [BlockTokenizer(one) for one in asked]

    def __call__(self, numbered: tuple[int, int, Block]) -> TokenizedBlock:
        """A block with the number of its corpus and of the turn in which it is read."""
        number, turn, block = numbered
        return self.encoders[number](block, turn)


def chosen(ids: FlatSequences, keep: np.ndarray) -> FlatSequences:
    """The rows that are kept."""
    return FlatSequences(ids.values[np.repeat(keep, ids.lengths)], ids.lengths[keep])


def _none() -> FlatSequences:
    return FlatSequences(np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int64))


def _ended(ids: FlatSequences) -> FlatSequences:
    """Every sequence with an end mark behind it."""
    values = np.full(len(ids.values) + len(ids.lengths), END, dtype=np.int32)
    places = np.arange(len(ids.values)) + np.repeat(np.arange(len(ids.lengths)), ids.lengths)
    values[places] = ids.values
    return FlatSequences(values, ids.lengths + 1)
