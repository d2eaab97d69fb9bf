"""The Transformer encoder: self-attention over the source."""

from __future__ import annotations

from torch import nn

from weft.attention.ragged_attention import RaggedAttention, patterns_by_layer
from weft.attention.records import AttentionRecords, ReturnAttention
from weft.models.architecture import PartArchitecture
from weft.models.encoders import Encoded
from weft.models.transformer import make_transformer_stack
from weft.ragged import Ragged
from weft.recipe import ModelSettings, TransformerSettings


class TransformerEncoder(nn.Module):
    """Layers of self-attention over the source   Vaswani et al. 2017, 3.1.

    Without feed-forward networks it is the attention-only encoder.
    """

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        assert isinstance(settings.encoder, TransformerSettings)
        self.stack = make_transformer_stack(settings, settings.encoder, bidirectional=True)

    def forward(self, embedded: Ragged, *, return_attention: ReturnAttention = False) -> Encoded:
        records = AttentionRecords(return_attention)
        layout = embedded.layout
        stream_ND = self.stack.embed(embedded.values, layout.positions, layout.longest)
        patterns = patterns_by_layer(
            lambda bias: RaggedAttention("encoder", layout, layout, bias=bias),
            self.stack.self_attention_biases(layout.longest, stream_ND.device),
        )
        stream_ND = self.stack(stream_ND, layout.positions, patterns, records=records)
        return Encoded(embedded.like(self.stack.normalize(stream_ND)), None, tuple(records))

    def part_architecture(self, module: str) -> PartArchitecture:
        stack = f"{module}.stack"
        return PartArchitecture((self.stack.shape(stack),), self.stack.self_attentions(stack, "encoder"))
