"""Which layers are recorded."""

from __future__ import annotations

import pytest
import torch

from weft.attention.records import AttentionRecord, AttentionRecords, ReturnAttention


@pytest.mark.parametrize(
    ("return_attention", "alignment_layer", "recorded"),
    [(False, 1, []), (True, 1, [0, 1, 2]), (True, None, [0, 1, 2]), ("alignment", 1, [1]), ("alignment", None, [])],
)
def test_layers(return_attention: ReturnAttention, alignment_layer: int | None, recorded: list[int]) -> None:
    records = AttentionRecords(return_attention, alignment_layer)
    for layer in range(3):
        recorder = records.recorder(layer)
        if recorder is not None:
            recorder("decoder", torch.ones(1))
    assert records == [AttentionRecord("decoder", layer, torch.ones(1)) for layer in recorded]
