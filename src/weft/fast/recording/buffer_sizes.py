"""The sizes of the buffers of a recorded search, and the sentences that fill them.

Equal to the sentences alone, as `weft.search.loop.StepLoop` keeps them; tests/fast/recording/test_search.py.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from weft.search.loop import SearchState

INITIAL_CAPACITY, MANY_ROWS = 32, 4096
"""Tokens that the first buffers can hold: half as many with more than `MANY_ROWS` rows, where memory counts more than
that longer outputs have to move once more."""
READ_DELAY, FEW_ROWS = 2, 64
"""Steps after which the host reads which sentences are done; one step if there are at most `FEW_ROWS` rows."""
LARGE_BATCH, SMALL_BATCH = 512, 32
"""Sizes in sentences; `few_active` treats batches above, between and below them differently."""


def padded_count(count: int) -> int:
    """The next of 1, 2, 3, 4, 6, 8, 12, 16, 24, … sentences."""
    power = 1
    while power < count:
        power *= 2
    return power * 3 // 4 if power >= 4 and count <= power * 3 // 4 else power


def smaller_size(count: int) -> int:
    """The largest of these numbers that is not above a count."""
    power = 1 << count.bit_length() - 1
    return power * 3 // 2 if power > 1 and power * 3 // 2 <= count else power


def initial_capacity(rows: int) -> int:
    """Tokens that the first buffers of so many rows can hold."""
    return INITIAL_CAPACITY // 2 if rows > MANY_ROWS else INITIAL_CAPACITY


def read_delay(rows: int) -> int:
    """Steps after which the host reads which sentences are done."""
    return READ_DELAY if rows > FEW_ROWS else 1


def few_active(size: int) -> int:
    """The number of active sentences at which a search moves from buffers of ``size`` sentences to smaller ones.

    A large batch moves when half of its sentences are done, since its steps become much faster; a medium one when three
    quarters are; a small one never (0), since its steps take the same time whatever its size.
    """
    if size > LARGE_BATCH:
        return size // 2
    return size // 4 if size > SMALL_BATCH else 0


def pad_sentences(state: SearchState, size: int) -> SearchState:
    """The state padded to ``size`` sentences; the added ones are done already."""
    count = len(state.sentences_B)
    return state if count == size else take_sentences(state, torch.arange(count, device=state.done_B.device))


def take_sentences(state: SearchState, sentences: Tensor) -> SearchState:
    """The given sentences and, up to the next number of sentences that buffers have, others that are done."""
    count, size = len(sentences), padded_count(len(sentences))
    rows = torch.arange(size, device=sentences.device)
    return take_rows(state, sentences[rows.clamp(max=count - 1)], None if count == size else rows >= count)


def take_rows(state: SearchState, rows_B: Tensor, padding_B: Tensor | None) -> SearchState:
    """Sentences by their rows; those that are ``padding_B`` are done."""
    taken = state.keep_sentences(rows_B)
    return taken if padding_B is None else taken._replace(done_B=taken.done_B | padding_B)


def padded_rows(active: np.ndarray) -> tuple[Tensor, Tensor]:
    """The rows of `take_sentences`, and which of them are padding, on the CPU."""
    rows = np.arange(padded_count(len(active)))
    return torch.from_numpy(active[rows.clip(max=len(active) - 1)]), torch.from_numpy(rows >= len(active))
