"""Encoders: one state for every source token, and a final state.

To add one: write a class that is made from the `ModelSettings` and called like an `Encoder`, and add its line to
ENCODERS in weft/recipe/choices.py. Its states must be ``settings.encoder.hidden`` wide.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from torch import Tensor, nn

from weft.attention.ragged_attention import AttentionRecord, ReturnAttention
from weft.models.architecture import PartArchitecture
from weft.models.recurrent import RecurrentStack, StackState
from weft.ragged import Ragged
from weft.recipe import ModelSettings, RecurrentEncoderSettings
from weft.recipe.choices import ENCODERS, resolve


class Encoded(NamedTuple):
    """The output of an encoder."""

    states: Ragged
    """(N, D) one state for every source token: h_1 … h_S."""
    final: StackState | None
    """Every layer's last state, both directions concatenated; None for an encoder without recurrence."""
    attention: tuple[AttentionRecord, ...] = ()
    """The weights of every layer and head, if ``return_attention``."""
    columns_N: Tensor | None = None
    """The source column of every state, if there are several."""

    def last(self) -> StackState:
        """The final state; of an encoder without recurrence, the mean of its states."""
        return ((self.states.means(),),) if self.final is None else self.final


class Encoder(Protocol):
    """The encoder interface that decoders require."""

    def __call__(self, embedded: Ragged, *, return_attention: ReturnAttention = False) -> Encoded: ...


class RecurrentEncoder(nn.Module):
    """h_i = f(h_{i−1}, x_i), in one direction or both: h_i = [h→_i; h←_i]   Bahdanau et al. 2015, 3.2."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        encoder = settings.encoder
        assert isinstance(encoder, RecurrentEncoderSettings)
        self.stack = RecurrentStack(
            encoder, inputs=settings.embedding, bidirectional=encoder.bidirectional, dropout=settings.dropout
        )
        self.reverse_source = encoder.reverse_source

    def forward(self, embedded: Ragged, *, return_attention: ReturnAttention = False) -> Encoded:
        if not self.reverse_source:
            return Encoded(*self.stack(embedded))
        states, final = self.stack(embedded.reversed())
        return Encoded(states.reversed(), final)

    def part_architecture(self, module: str) -> PartArchitecture:
        return PartArchitecture((self.stack.shape(f"{module}.stack", fixed_shapes=not self.reverse_source),))


def make_encoder(settings: ModelSettings) -> Encoder:
    """The encoder of a model, with fresh weights; of several source columns, those of all columns."""
    if settings.sources.count > 1:
        from weft.models.source_columns import ColumnEncoders

        return ColumnEncoders(settings)
    return make_single_encoder(settings)


def make_single_encoder(settings: ModelSettings) -> Encoder:
    """The encoder of one sequence."""
    kind = settings.encoder.kind
    encoder: Encoder = resolve(ENCODERS, kind)(settings) if kind in ENCODERS else RecurrentEncoder(settings)
    return encoder
