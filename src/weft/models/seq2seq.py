"""The conditional language model p(y|x) = Π p(y_t | y_<t, x): an encoder and a decoder, trained as one system."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from torch import Tensor, nn

from weft.attention import AttentionRecord
from weft.models.encoders import RecurrentEncoder, TransformerEncoder
from weft.models.layers import Embedding, Output
from weft.models.recurrent_decoder import Decoded, DecoderState, Memory, RecurrentDecoder
from weft.models.transformer_decoder import TransformerDecoder, TransformerMemory, TransformerState
from weft.ragged import Ragged


class Forward(NamedTuple):
    """What a model says of whole targets under teacher forcing."""

    logits_NV: Tensor
    weights_BTS: Tensor | None
    """Attention weights where asked for; None for a model without attention."""


class Model(Protocol):
    """The seam of the library: training uses `states` or `forward`, search the rest. See ARCHITECTURE.md."""

    output: Output

    def room(self, source: int) -> int | None:
        """The longest target there can be for a source of so many tokens; None: any."""

    def encode(self, source: Ragged) -> Any:
        """The memory of a source; for a language model the source's rows are empty."""

    def start(self, memory: Any) -> Any:
        """The state before the first token."""

    def step(self, tokens_R: Tensor, state: Any, memory: Any) -> tuple[Tensor, Any, Tensor | None]:
        """Logits (R, V) for the token after ``tokens_R``, the new state, and the attention weights (R, S)."""

    def states(
        self, source: Ragged, inputs: Ragged, *, weights: bool = False, seen: list[AttentionRecord] | None = None
    ) -> Decoded:
        """What the output layer makes logits of, for every target position; ``inputs``: the target, shifted.

        ``seen`` is told the weights of every attention there is, all layers and heads.
        """

    def __call__(self, source: Ragged, inputs: Ragged, *, weights: bool = False) -> Forward:
        """Logits for every target position."""


class Seq2Seq(nn.Module):
    """Embeddings, encoder, decoder, output: any encoder with any decoder."""

    def __init__(
        self,
        *,
        source_embedding: Embedding,
        target_embedding: Embedding,
        encoder: RecurrentEncoder | TransformerEncoder,
        decoder: RecurrentDecoder | TransformerDecoder,
        output: Output,
    ) -> None:
        super().__init__()
        self.source_embedding = source_embedding
        self.target_embedding = target_embedding
        self.encoder = encoder
        self.decoder = decoder
        self.output = output

    def room(self, source: int) -> int | None:
        """The longest target there can be for a source of so many tokens; None: any."""
        return self.decoder.stack.max_length if isinstance(self.decoder, TransformerDecoder) else None

    def encode(self, source: Ragged) -> Memory | TransformerMemory:
        return self.decoder.remember(self.encoder(self.source_embedding.ragged(source)))

    def start(self, memory: Any) -> DecoderState | TransformerState:
        return self.decoder.start(memory)

    def step(self, tokens_R: Tensor, state: Any, memory: Any) -> tuple[Tensor, Any, Tensor | None]:
        output_RD, state, weights_RS = self.decoder.step(self.target_embedding(tokens_R), state, memory)
        return self.output(output_RD), state, weights_RS

    def states(
        self, source: Ragged, inputs: Ragged, *, weights: bool = False, seen: list[AttentionRecord] | None = None
    ) -> Decoded:
        """What `forward` gives, before the output layer."""
        encoded = self.encoder(self.source_embedding.ragged(source), seen)
        return self.decoder(self.target_embedding.ragged(inputs), encoded, weights=weights, seen=seen)

    def forward(self, source: Ragged, inputs: Ragged, *, weights: bool = False) -> Forward:
        decoded = self.states(source, inputs, weights=weights)
        return Forward(self.output(decoded.states.values), decoded.weights_BTS)
