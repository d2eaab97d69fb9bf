"""Sizes of buffers, and the sentences that fill them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from weft.fast.recording.buffer_sizes import (
    few_active,
    initial_capacity,
    padded_count,
    padded_rows,
    read_delay,
    smaller_size,
)


def test_sizes() -> None:
    assert [padded_count(count) for count in (1, 2, 3, 4, 5, 6, 7, 9, 13, 64, 65, 97)] == [
        1, 2, 3, 4, 6, 6, 8, 12, 16, 64, 96, 128
    ]  # fmt: skip
    assert [smaller_size(count) for count in (1, 2, 3, 5, 6, 7, 95, 96)] == [1, 2, 3, 4, 6, 6, 64, 96]


def test_first_capacities_moves_and_delays() -> None:
    assert [initial_capacity(rows) for rows in (1, 4096, 4097)] == [32, 32, 16]
    assert [few_active(size) for size in (32, 64, 512, 1024)] == [0, 16, 128, 512]
    assert [read_delay(rows) for rows in (64, 65)] == [1, 2]


@pytest.mark.parametrize("active", [[3], [0, 2, 5], [1, 2, 3, 5, 6], list(range(16))])
def test_rows_of_sentences_and_others_that_are_done(active: list[int]) -> None:
    rows_B, padding_B = padded_rows(np.array(active))
    assert len(rows_B) == len(padding_B) == padded_count(len(active)) and rows_B.dtype == torch.int64
    assert rows_B[~padding_B].tolist() == active and set(rows_B.tolist()) == set(active)
