"""Attention weights as `return_attention` returns them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from torch import Tensor

ReturnAttention = bool | Literal["alignment"]
"""Which attention weights a model returns: none, those of every layer, or (cheaper) those of the alignment layer of the
decoder alone, which are all that `weft.models.interface.alignment_weights` needs."""


class AttentionRecord(NamedTuple):
    """The weights of all heads of one attention of a model."""

    kind: str
    """"encoder" (self-attention over the source), "decoder" (over the target's history), "cross" (over the source),
    "copy" (over the source, by which a Transformer copies) or "history" (of a recurrent language model over its
    previous states)."""
    layer: int
    """From 0."""
    weights_BHTS: Tensor


AttentionRecorder = Callable[[str, Tensor], None]
"""Called with the kind and the weights (B, H, T, S) of each attention of one layer."""


class AttentionRecords(list[AttentionRecord]):
    """The records of a stack, as far as they are to be returned."""

    def __init__(self, return_attention: ReturnAttention, alignment_layer: int | None) -> None:
        """``alignment_layer``: None for a stack without one, such as an encoder."""
        super().__init__()
        self.return_attention = return_attention
        self.alignment_layer = alignment_layer

    def recorder(self, layer: int) -> AttentionRecorder | None:
        """What records the weights of a layer; None if they are not to be returned."""
        if self.return_attention is True or (self.return_attention and layer == self.alignment_layer):
            return lambda kind, weights_BHTS: self.append(AttentionRecord(kind, layer, weights_BHTS))
        return None
