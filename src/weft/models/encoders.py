"""Encoders: a source becomes one state for every token, and a final state that sums it up."""

from __future__ import annotations

from typing import NamedTuple

from torch import nn

from weft.models.recurrent import RecurrentStack, StackState
from weft.ragged import Ragged


class Encoded(NamedTuple):
    """What an encoder says of a source."""

    states: Ragged
    """(N, D) one state for every source token: h_1 … h_S."""
    final: StackState
    """Every layer's last state; both directions side by side."""


class RecurrentEncoder(nn.Module):
    """h_i = f(h_{i−1}, x_i), in one direction or both: h_i = [h→_i; h←_i]   Bahdanau et al. 2015, 3.2."""

    def __init__(self, stack: RecurrentStack, *, reverse_source: bool = False) -> None:
        super().__init__()
        self.stack = stack
        self.reverse_source = reverse_source
        self.size = stack.hidden

    def forward(self, embedded: Ragged) -> Encoded:
        if not self.reverse_source:
            return Encoded(*self.stack(embedded))
        states, final = self.stack(embedded.reversed())
        return Encoded(states.reversed(), final)
