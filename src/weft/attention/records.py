"""Attention weights as `return_attention` returns them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

from torch import Tensor

ReturnAttention = bool | Literal["alignment"]
"""Which attention weights a model returns: none, those of every layer, or (cheaper) those of the decoder's layers that
are the word alignment, which are all that `weft.models.interface.alignment_weights` needs."""


class AttentionRecord(NamedTuple):
    """The weights of all heads of one attention of a model."""

    kind: str
    """"encoder" (self-attention over the source), "decoder" (over the target's history), "cross" (over the source),
    "copy" (over the source, by which a Transformer copies) or "history" (of a recurrent language model over its
    previous states)."""
    layer: int
    """From 0."""
    weights_BHTS: Tensor
    alignment_heads: tuple[int, ...] | None = None
    """The heads used as the word alignment; None: not specified."""


AttentionRecorder = Callable[[str, Tensor], None]
"""Called with the kind and the weights (B, H, T, S) of each attention of one layer."""


class AttentionRecords(list[AttentionRecord]):
    """The attention weights that a stack returns."""

    def __init__(
        self, return_attention: ReturnAttention, alignment: Mapping[int, tuple[int, ...] | None] | None = None
    ) -> None:
        """``alignment``: the heads that are the word alignment, by layer (None: all of them); none in an encoder."""
        super().__init__()
        self.return_attention = return_attention
        self.alignment = alignment or {}

    def recorder(self, layer: int) -> AttentionRecorder | None:
        """The recorder for the weights of a layer; None if they are not returned."""
        if self.return_attention is True or (self.return_attention and layer in self.alignment):
            heads = self.alignment.get(layer)
            return lambda kind, weights_BHTS: self.append(AttentionRecord(kind, layer, weights_BHTS, heads))
        return None
