"""Recorders append the weights of one layer."""

from __future__ import annotations

import torch

from weft.attention.records import AttentionRecord, recorder_for


def test_recorder() -> None:
    assert recorder_for(None, 3) is None
    records: list[AttentionRecord] = []
    recorder = recorder_for(records, 3)
    assert recorder is not None
    recorder("decoder", torch.ones(1))
    assert records == [AttentionRecord("decoder", 3, torch.ones(1))]
