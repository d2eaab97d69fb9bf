"""Token sequences end to end in one array, in memory or in a memory-mapped file: a tokenized corpus."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import torch

from weft.data.pairs import Pair
from weft.ragged import Layout, Ragged, budget_slices

if TYPE_CHECKING:
    from weft.text.copying import SentenceIds
    from weft.text.tokenizer import Tokenizers

SourceRole = Literal["text", "prompt", "none"]
"""The role of a source: a separate sequence, closed by the end token; the beginning of the target's sequence (a
prompt); or none (a language model)."""


class TokenStore:
    """Sequences of ids in one flat array; any rows come out as a Ragged without a Python loop over tokens.

    Row r is ``values[offsets[r]:offsets[r + 1]]``. Neither array is read as a whole unless all `lengths` are needed, so
    a store of memory-mapped files opens instantly whatever its size.
    """

    def __init__(self, values: np.ndarray, offsets: np.ndarray) -> None:
        self.values = values
        self.offsets = offsets

    @classmethod
    def of(cls, sequences: Iterable[Sequence[int]]) -> TokenStore:
        rows = [np.asarray(sequence, dtype=np.int32) for sequence in sequences]
        values = np.concatenate(rows) if rows else np.zeros(0, dtype=np.int32)
        return cls(values, offsets_of(np.array([len(row) for row in rows], dtype=np.int64)))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def lengths(self) -> np.ndarray:
        """Lengths of all rows."""
        return np.diff(self.offsets)

    def lengths_of(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray(self.offsets[rows + 1] - self.offsets[rows])

    def values_of(self, rows: np.ndarray) -> np.ndarray:
        """The ids of the given rows, end to end."""
        starts, lengths = self.offsets[rows], self.lengths_of(rows)
        ends = np.cumsum(lengths)
        positions = np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - (ends - lengths), lengths)
        return np.asarray(self.values[positions])

    def first(self, count: int) -> TokenStore:
        """The first ``count`` rows; all if there are fewer."""
        return TokenStore(self.values, self.offsets[: count + 1])

    def gather(self, rows: np.ndarray) -> Ragged:
        """The given rows as a batch."""
        values = torch.from_numpy(self.values_of(rows).astype(np.int64))
        return Ragged(values, Layout(torch.from_numpy(self.lengths_of(rows))))


def offsets_of(lengths: np.ndarray) -> np.ndarray:
    """Where each row starts, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(lengths)])


class Batch(NamedTuple):
    """Pairs that one step trains on together."""

    source: Ragged
    """Rows end with the end token; empty rows for a language model, or prompts without an end token."""
    target: Ragged
    """Rows end with the end token; what the decoder must produce."""

    def to(self, device: torch.device | str) -> Batch:
        return Batch(self.source.to(device), self.target.to(device))

    def divided(self, parts: int) -> list[Batch]:
        """The rows, which are sorted by length, dealt out to smaller batches."""
        rows = torch.arange(self.target.rows)
        dealt = [rows[first::parts] for first in range(min(parts, len(rows)))]
        return [Batch(self.source.select(part), self.target.select(part)) for part in dealt]


class CorpusSize(NamedTuple):
    """The size of a corpus, on which the shapes of batches depend."""

    pairs: int
    source_tokens: int
    target_tokens: int
    max_source_length: int
    max_target_length: int

    @property
    def mean_length(self) -> float:
        """Tokens per pair, on the side that has more."""
        return max(self.source_tokens, self.target_tokens, 1) / max(self.pairs, 1)


@dataclass(frozen=True)
class PairStore:
    """A tokenized parallel corpus."""

    source: TokenStore
    target: TokenStore
    stored_size: CorpusSize | None = None
    """Its size, if it is stored; else it is counted on demand."""

    def __len__(self) -> int:
        return len(self.target)

    @cached_property
    def corpus_size(self) -> CorpusSize:
        if self.stored_size is not None:
            return self.stored_size
        sides = (self.source.lengths, self.target.lengths)
        return CorpusSize(
            len(self), *(int(side.sum()) for side in sides), *(int(side.max(initial=1)) for side in sides)
        )

    def first(self, count: int) -> PairStore:
        """The first ``count`` pairs; all if there are fewer."""
        return PairStore(self.source.first(count), self.target.first(count))

    def batch(self, rows: np.ndarray) -> Batch:
        return Batch(self.source.gather(rows), self.target.gather(rows))


def length_sorted_batches(pairs: PairStore, budget: int) -> list[np.ndarray]:
    """The rows of every batch of a single pass: sorted by length, at most ``budget`` tokens on either side."""
    return split_by_budget(np.lexsort((pairs.source.lengths, pairs.target.lengths)), pairs, (budget, budget))


def split_by_budget(rows: np.ndarray, pairs: PairStore, budgets: Sequence[int]) -> list[np.ndarray]:
    """Consecutive rows, as many together as the budgets of source and target allow, at least one."""
    lengths = [side.lengths_of(rows) for side in (pairs.source, pairs.target)]
    return [rows[part] for part in budget_slices(lengths, budgets)]


def encode_pairs(
    pairs: Sequence[Pair],
    tokenizers: Tokenizers,
    *,
    sources: SourceRole = "text",
    max_length: int | None = None,
    sentence_ids: SentenceIds | None = None,
) -> PairStore:
    """Text pairs as token ids in memory, for validation and scoring; a training corpus goes through `prepare`.

    With ``max_length``, pairs with an empty or longer side are left out; without, none is.
    ``sentence_ids``: ids for tokens outside the vocabularies, for a model that copies.
    """
    reads = sources != "none"
    source_ids = tokenizers.source.encode_batch([pair.source for pair in pairs]) if reads else [[] for _ in pairs]
    target_ids = tokenizers.target.encode_batch([pair.target for pair in pairs])
    if sentence_ids is not None:
        target_ids = [
            sentence_ids.target(pair.target, ids, pair.source) for pair, ids in zip(pairs, target_ids, strict=True)
        ]
        source_ids = [sentence_ids.source(pair.source, ids) for pair, ids in zip(pairs, source_ids, strict=True)]
    kept = [
        (source, target)
        for source, target in zip(source_ids, target_ids, strict=True)
        if max_length is None or (target and (source or not reads) and max(len(source), len(target)) <= max_length)
    ]
    frame = tokenizers.frame
    return PairStore(
        TokenStore.of(frame.source(source) if sources == "text" else source for source, _ in kept),
        TokenStore.of(frame.target(target) for _, target in kept),
    )
