"""Which layers are recorded."""

from __future__ import annotations

import pytest
import torch

from weft.attention.ragged_attention import AttentionRecord, AttentionRecords, ReturnAttention


@pytest.mark.parametrize(
    ("return_attention", "alignment", "recorded"),
    [
        (False, {1: None}, []),
        (True, {1: None}, [0, 1, 2]),
        (True, None, [0, 1, 2]),
        ("alignment", {1: None}, [1]),
        ("alignment", None, []),
        ("alignment", {0: (3,), 2: (0, 1)}, [0, 2]),
    ],
)
def test_layers(
    return_attention: ReturnAttention, alignment: dict[int, tuple[int, ...] | None] | None, recorded: list[int]
) -> None:
    records = AttentionRecords(return_attention, alignment)
    for layer in range(3):
        recorder = records.recorder(layer)
        if recorder is not None:
            recorder("decoder", torch.ones(1))
    heads = alignment or {}
    assert records == [AttentionRecord("decoder", layer, torch.ones(1), heads.get(layer)) for layer in recorded]
