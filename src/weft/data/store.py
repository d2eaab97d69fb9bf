"""Token sequences laid end to end in one array: what a corpus is after tokenization."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from weft.ragged import Layout, Ragged


class TokenStore:
    """Sequences of ids in one flat array; any rows come out as a Ragged without a Python loop over tokens."""

    def __init__(self, values: np.ndarray, lengths: np.ndarray) -> None:
        self.values = values
        self.lengths = lengths
        self.offsets = np.concatenate([[0], np.cumsum(lengths)])

    @classmethod
    def of(cls, sequences: Iterable[Sequence[int]]) -> TokenStore:
        rows = [np.asarray(sequence, dtype=np.int32) for sequence in sequences]
        values = np.concatenate(rows) if rows else np.zeros(0, dtype=np.int32)
        return cls(values, np.array([len(row) for row in rows], dtype=np.int64))

    def __len__(self) -> int:
        return len(self.lengths)

    def gather(self, rows: np.ndarray) -> Ragged:
        """The given rows as a batch."""
        lengths = self.lengths[rows]
        ends = np.cumsum(lengths)
        places = np.arange(ends[-1] if len(ends) else 0) + np.repeat(self.offsets[rows] - (ends - lengths), lengths)
        values = torch.from_numpy(self.values[places].astype(np.int64))
        return Ragged(values, Layout(torch.from_numpy(lengths)))


class Batch(NamedTuple):
    """Pairs that are trained on together."""

    source: Ragged
    """Ends with the end mark; empty rows for a language model."""
    target: Ragged
    """Ends with the end mark; what the decoder must say."""

    def to(self, device: torch.device | str) -> Batch:
        return Batch(self.source.to(device), self.target.to(device))


@dataclass(frozen=True)
class PairStore:
    """A tokenized parallel corpus."""

    source: TokenStore
    target: TokenStore

    def __len__(self) -> int:
        return len(self.target)

    def batch(self, rows: np.ndarray) -> Batch:
        return Batch(self.source.gather(rows), self.target.gather(rows))
