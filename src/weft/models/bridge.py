"""From the encoder's last state to the decoder's first."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from weft.models.recurrent import StackState


class Copy(nn.Module):
    """s_0 = h_S, layer by layer   Sutskever et al. 2014."""

    def forward(self, final: StackState) -> StackState:
        return final


class Project(nn.Module):
    """s_0 = tanh(W h_S + b) of the top layer, for every layer and part   Bahdanau et al. 2015, A.2.2."""

    def __init__(self, encoder: int, decoder: int, *, layers: int, parts: int) -> None:
        super().__init__()
        self.parts = parts
        self.maps = nn.ModuleList(nn.Linear(encoder, decoder) for _ in range(layers * parts))

    def forward(self, final: StackState) -> StackState:
        top_BD = final[-1][0]
        states: list[Tensor] = [torch.tanh(linear(top_BD)) for linear in self.maps]
        return tuple(tuple(states[i : i + self.parts]) for i in range(0, len(states), self.parts))


class Zero(nn.Module):
    """s_0 = 0: the decoder knows the source through attention alone."""

    def __init__(self, decoder: int, *, layers: int, parts: int) -> None:
        super().__init__()
        self.decoder, self.layers, self.parts = decoder, layers, parts

    def forward(self, final: StackState) -> StackState:
        top_BD = final[-1][0]
        zero_BD = top_BD.new_zeros(len(top_BD), self.decoder)
        return tuple((zero_BD,) * self.parts for _ in range(self.layers))


Bridge = Copy | Project | Zero
