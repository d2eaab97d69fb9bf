"""The conditional language model p(y|x) = Π p(y_t | y_<t, x): an encoder and a decoder, trained as one system."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from weft.attention.ragged_attention import ReturnAttention
from weft.models.architecture import Architecture, part_architecture_of
from weft.models.interface import Encoder, HiddenStates, ModelOutput, StepOutput
from weft.models.layers import Embedding, Output
from weft.ragged import Ragged

if TYPE_CHECKING:
    from weft.models.recurrent_decoder import DecoderState, Memory, RecurrentDecoder
    from weft.models.stems import Stem
    from weft.models.transformer_decoder import TransformerDecoder, TransformerMemory, TransformerState


class EncoderDecoder(nn.Module):
    """The parts of a model with a source and a target: embeddings, encoder, decoder, output layer."""

    def __init__(
        self,
        *,
        source_embedding: Embedding | Stem,
        target_embedding: Embedding,
        encoder: Encoder,
        decoder: RecurrentDecoder | TransformerDecoder,
        output: Output,
    ) -> None:
        super().__init__()
        self.source_embedding = source_embedding
        self.target_embedding = target_embedding
        self.encoder = encoder
        self.decoder = decoder
        self.output = output

    def max_target_length(self, source_length: int) -> int | None:
        """The longest target for a source of this length; None: unlimited."""
        return self.decoder.max_positions

    def architecture(self) -> Architecture:
        encoder, decoder = part_architecture_of(self.encoder, "encoder"), self.decoder.part_architecture("decoder")
        return Architecture(
            "seq2seq",
            encoders=encoder.stacks,
            decoder=decoder.stacks[0],
            source_embedding=self.source_embedding.shape("source_embedding"),
            target_embedding=self.target_embedding.shape("target_embedding"),
            attentions=encoder.attentions + decoder.attentions,
            source_columns=self.source_embedding.columns,
        )


class Seq2Seq(EncoderDecoder):
    """Any encoder with any decoder: p(y_t | y_<t, x) is the softmax of the output layer."""

    def architecture(self) -> Architecture:
        return replace(super().architecture(), subclassed=type(self) is not Seq2Seq)

    def encode(self, source: Ragged) -> Memory | TransformerMemory:
        return self.decoder.build_memory(self.encoder(self.source_embedding.ragged(source)))

    def start(self, memory: Any) -> DecoderState | TransformerState:
        return self.decoder.start(memory)

    def step(self, tokens_R: Tensor, state: Any, memory: Any) -> StepOutput:
        output_RD, state, weights_RS = self.decoder.step(self.target_embedding(tokens_R), state, memory)
        return StepOutput(self.output(output_RD), state, weights_RS)

    def output_layer(self) -> Output:
        return self.output

    def hidden_states(
        self, source: Ragged, inputs: Ragged, *, return_attention: ReturnAttention = False
    ) -> HiddenStates:
        """The hidden states that `forward` passes to the output layer."""
        encoded = self.encoder(self.source_embedding.ragged(source), return_attention=return_attention)
        decoded = self.decoder(self.target_embedding.ragged(inputs), encoded, return_attention=return_attention)
        return HiddenStates(decoded.states, encoded.attention + decoded.attention)

    def forward(self, source: Ragged, inputs: Ragged, *, return_attention: ReturnAttention = False) -> ModelOutput:
        hidden = self.hidden_states(source, inputs, return_attention=return_attention)
        return ModelOutput(self.output(hidden.states.values), hidden.attention)
