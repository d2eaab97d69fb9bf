"""A side of a batch in static memory: a fixed number of tokens, of which those that are too many have no loss.

The rows of a batch are followed by padding rows, then by empty ones, so that there are as many rows and tokens as a
CUDA graph was captured with. Tested in tests/fast/updating/test_static_sides.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from weft.ragged import FixedLayout, Ragged
from weft.text.specials import BEGIN


def bucket_length(length: int, max_length: int, buckets: Sequence[int]) -> int:
    """The smallest bucket that holds a length, but never more than the longest row of the corpus: a model with learned
    positions may have no more."""
    return min(next((bucket for bucket in buckets if length <= bucket), max_length), max_length)


def padded_rows(lengths: Tensor, tokens: int, max_length: int) -> int:
    """The number of rows after padding to ``tokens`` tokens with rows of at most ``max_length``."""
    return len(lengths) + math.ceil((tokens - int(lengths.sum())) / max_length) if tokens else len(lengths)


def pad(values: Tensor, count: int, padding: int) -> Tensor:
    """``values`` followed by padding, ``count`` in all."""
    padded = torch.full((count,), padding, dtype=values.dtype)
    padded[: len(values)] = values
    return padded


class StaticRows:
    """The layout of one side of a batch in static memory, filled up with rows that have no loss."""

    def __init__(self, tokens: int, max_length: int, rows: int, device: torch.device) -> None:
        self.tokens, self.max_length, self.rows = tokens, max_length, rows
        no_lengths = torch.zeros(0, dtype=torch.int64)
        self.layout = FixedLayout(self.padded_lengths(no_lengths), device, longest=max_length)

    def padded_lengths(self, lengths: Tensor) -> Tensor:
        """The lengths of a batch's rows, then those of the padding rows, then zeros."""
        full_rows, rest = divmod(self.tokens - int(lengths.sum()), self.max_length) if self.tokens else (0, 0)
        padding = [self.max_length] * full_rows + ([rest] if rest else [])
        empty_rows = self.rows - len(lengths) - len(padding)
        return torch.cat([lengths, torch.tensor(padding + [0] * empty_rows, dtype=torch.int64)])


class StaticSide(StaticRows):
    """One side of a batch in static memory, into which batches are copied."""

    def __init__(self, tokens: int, max_length: int, rows: int, device: torch.device) -> None:
        super().__init__(tokens, max_length, rows, device)
        self.values = torch.zeros(tokens, dtype=torch.int64, device=device)

    def copy_from(self, batch: Ragged) -> None:
        """Copy a batch here, padded."""
        if not self.tokens:  # the sources of a language model
            return
        self.layout.assign(self.padded_lengths(batch.lengths))
        self.values.copy_(pad(batch.values, self.tokens, BEGIN).pin_memory(), non_blocking=True)

    def ragged(self) -> Ragged:
        return Ragged(self.values, self.layout)
