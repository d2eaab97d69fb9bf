"""Encoders: a source becomes one state for every token, and a final state that sums it up."""

from __future__ import annotations

from typing import NamedTuple

from torch import nn

from weft.attention import AttentionRecord, RaggedAttention
from weft.models.recurrent import RecurrentStack, StackState
from weft.models.transformer import TransformerStack
from weft.ragged import Ragged


class Encoded(NamedTuple):
    """What an encoder says of a source."""

    states: Ragged
    """(N, D) one state for every source token: h_1 … h_S."""
    final: StackState | None
    """Every layer's last state, both directions concatenated; None for an encoder without recurrence."""
    attention: tuple[AttentionRecord, ...] = ()
    """The weights of every layer and head, if ``return_attention``."""

    def last(self) -> StackState:
        """The final state; of an encoder without recurrence, the mean of its states."""
        return ((self.states.means(),),) if self.final is None else self.final


class RecurrentEncoder(nn.Module):
    """h_i = f(h_{i−1}, x_i), in one direction or both: h_i = [h→_i; h←_i]   Bahdanau et al. 2015, 3.2."""

    def __init__(self, stack: RecurrentStack, *, reverse_source: bool = False) -> None:
        super().__init__()
        self.stack = stack
        self.reverse_source = reverse_source
        self.size = stack.hidden

    def forward(self, embedded: Ragged, *, return_attention: bool = False) -> Encoded:
        if not self.reverse_source:
            return Encoded(*self.stack(embedded))
        states, final = self.stack(embedded.reversed())
        return Encoded(states.reversed(), final)


class TransformerEncoder(nn.Module):
    """Every token looks at all of its source, layer upon layer   Vaswani et al. 2017, 3.1.

    Without feed-forward networks it is the attention-only encoder: positions and attention do all the work.
    """

    def __init__(self, stack: TransformerStack) -> None:
        super().__init__()
        self.stack = stack
        self.size = stack.width

    def forward(self, embedded: Ragged, *, return_attention: bool = False) -> Encoded:
        records: list[AttentionRecord] | None = [] if return_attention else None
        layout = embedded.layout
        stream_ND = self.stack.embed(embedded.values, layout.positions, layout.longest)
        bias = self.stack.self_attention_bias(layout.longest, stream_ND.device)
        pattern = RaggedAttention("encoder", layout, layout, bias=bias)
        stream_ND = self.stack(stream_ND, layout.positions, pattern, records=records)
        return Encoded(embedded.like(self.stack.normalize(stream_ND)), None, tuple(records or ()))
