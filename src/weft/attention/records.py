"""Attention weights as `return_attention` returns them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor


class AttentionRecord(NamedTuple):
    """The weights of all heads of one attention of a model."""

    kind: str
    """"encoder" (self-attention over the source), "decoder" (over the target's history), "cross" (over the source) or
    "history" (of a recurrent language model over its previous states)."""
    layer: int
    """From 0."""
    weights_BHTS: Tensor


AttentionRecorder = Callable[[str, Tensor], None]
"""Called with the kind and the weights (B, H, T, S) of each attention of one layer."""


def recorder_for(records: list[AttentionRecord] | None, layer: int) -> AttentionRecorder | None:
    """A recorder that appends to ``records``; None if there are none to append to."""
    if records is None:
        return None
    return lambda kind, weights_BHTS: records.append(AttentionRecord(kind, layer, weights_BHTS))
