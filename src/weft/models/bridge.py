"""From the encoder's last state to the decoder's first."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from weft.errors import RecipeError
from weft.models.cells import Cell
from weft.models.recurrent import StackState
from weft.recipe import ModelSettings, RecurrentSettings
from weft.recipe.choices import CELLS, resolve


class Copy(nn.Module):
    """s_0 = h_S, layer by layer   Sutskever et al. 2014."""

    def forward(self, final: StackState) -> StackState:
        return final


class Project(nn.Module):
    """s_0 = tanh(W h_S + b) of the top layer, for every tensor of every layer's state   Bahdanau et al. 2015, A.2.2."""

    def __init__(self, encoder_hidden: int, decoder: RecurrentSettings) -> None:
        super().__init__()
        self.state_parts = _cell(decoder).state_parts
        count = decoder.layers * self.state_parts
        self.maps = nn.ModuleList(nn.Linear(encoder_hidden, decoder.hidden) for _ in range(count))

    def forward(self, final: StackState) -> StackState:
        top_BD = final[-1][0]
        states: list[Tensor] = [torch.tanh(linear(top_BD)) for linear in self.maps]
        return tuple(tuple(states[i : i + self.state_parts]) for i in range(0, len(states), self.state_parts))


class Zero(nn.Module):
    """s_0 = 0: the decoder reads the source through attention alone."""

    def __init__(self, decoder: RecurrentSettings) -> None:
        super().__init__()
        self.decoder = decoder

    def forward(self, final: StackState) -> StackState:
        top_BD = final[-1][0]
        zero_BD = top_BD.new_zeros(top_BD.shape[0], self.decoder.hidden)
        return ((zero_BD,) * _cell(self.decoder).state_parts,) * self.decoder.layers


Bridge = Copy | Project | Zero


def make_bridge(settings: ModelSettings) -> Bridge:
    """The bridge of a model with a recurrent decoder."""
    encoder, decoder = settings.encoder, settings.decoder
    assert isinstance(decoder, RecurrentSettings)
    final_states = settings.sources.final_states
    same_shape = final_states == 1 and (encoder.hidden, encoder.layers, encoder.kind) == (
        decoder.hidden,
        decoder.layers,
        decoder.kind,
    )
    if settings.bridge == "zero":
        return Zero(decoder)
    if settings.bridge == "copy" and not same_shape:
        raise RecipeError(
            "model.bridge: 'copy' needs encoder and decoder of the same kind, layers and hidden size; "
            "use 'project', or 'auto'"
        )
    if settings.bridge == "copy" or (settings.bridge == "auto" and same_shape):
        return Copy()
    return Project(encoder.hidden * final_states, decoder)


def _cell(settings: RecurrentSettings) -> type[Cell]:
    cell: type[Cell] = resolve(CELLS, settings.kind)
    return cell
