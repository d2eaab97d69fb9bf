"""Recurrent cells: the equation of one step, h_t = f(h_{t−1}, x_t).

A layer computes  W x_t + b  and  U h_{t−1} + b′, one block of D rows per gate (G = gates · D); the cell computes the
new state from both. A state is ``(h,)``, or ``(h, c)`` for an LSTM; the first axis of every tensor is the row.

To add a cell: write the class and add its line to CELLS in weft/recipe/choices.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from weft.runtime.replaceable import replaceable

LayerState = tuple[Tensor, ...]


class Cell(ABC):
    """One kind of recurrence. The weights belong to the layer; a cell has none."""

    gates: ClassVar[int]
    state_parts: ClassVar[int] = 1
    """Number of tensors of a state."""
    sums_gates: ClassVar[bool] = False
    """Whether only the sum (W x_t + b) + (U h_{t−1} + b′) matters, so that one product of [W U] can compute it."""
    forget_gate: ClassVar[int | None] = None
    """The gate whose bias is initialized to one."""
    torch_layer: ClassVar[Callable[..., nn.RNNBase] | None] = None
    """PyTorch's module for whole sequences (cuDNN on a GPU), if it has one for this cell."""

    @staticmethod
    @abstractmethod
    def step(input_BG: Tensor, state_BG: Tensor, state: LayerState) -> LayerState:
        """The next state from W x_t + b, U h_{t−1} + b′ and the state before."""


class RNN(Cell):
    """h_t = tanh(W x_t + U h_{t−1} + b)   Elman 1990."""

    gates = 1
    sums_gates = True
    torch_layer = nn.RNN

    @staticmethod
    def step(input_BG: Tensor, state_BG: Tensor, state: LayerState) -> LayerState:
        return (torch.tanh(input_BG + state_BG),)


class GRU(Cell):
    """r, z = σ(W x_t + U h_{t−1});  n = tanh(W x_t + r ⊙ (U h_{t−1}));  h_t = (1 − z) ⊙ n + z ⊙ h_{t−1}

    Cho et al. 2014, with the reset gate applied after the product and z in the role of their 1 − z, as in cuDNN.
    """

    gates = 3
    torch_layer = nn.GRU

    @staticmethod
    def step(input_BG: Tensor, state_BG: Tensor, state: LayerState) -> LayerState:
        reset_x, update_x, new_x = input_BG.chunk(3, -1)
        reset_h, update_h, new_h = state_BG.chunk(3, -1)
        reset = torch.sigmoid(reset_x + reset_h)
        update = torch.sigmoid(update_x + update_h)
        new = torch.tanh(torch.addcmul(new_x, reset, new_h))
        return (torch.lerp(new, state[0], update),)


class LSTM(Cell):
    """i, f, o = σ(…), g = tanh(…) of W x_t + U h_{t−1} + b;  c_t = f ⊙ c_{t−1} + i ⊙ g;  h_t = o ⊙ tanh(c_t)

    Hochreiter & Schmidhuber 1997 with the forget gate of Gers et al. 2000.
    """

    gates = 4
    state_parts = 2
    sums_gates = True
    forget_gate = 1
    torch_layer = nn.LSTM

    @staticmethod
    @replaceable
    def step(input_BG: Tensor, state_BG: Tensor, state: LayerState) -> LayerState:
        i_BD, f_BD, g_BD, o_BD = (input_BG + state_BG).chunk(4, -1)
        i_BD, f_BD, g_BD, o_BD = torch.sigmoid(i_BD), torch.sigmoid(f_BD), torch.tanh(g_BD), torch.sigmoid(o_BD)
        cell_BD = torch.addcmul(f_BD * state[1], i_BD, g_BD)
        return o_BD * torch.tanh(cell_BD), cell_BD


class LayerWeights(NamedTuple):
    """The weights of one layer in one direction: W, U, b, b′."""

    input_GD: Tensor
    state_GD: Tensor
    input_bias_G: Tensor
    state_bias_G: Tensor

    def input_gates(self, inputs_ND: Tensor) -> Tensor:
        """W x_t + b"""
        return functional.linear(inputs_ND, self.input_GD, self.input_bias_G)

    def state_gates(self, states_ND: Tensor) -> Tensor:
        """U h_{t−1} + b′"""
        return functional.linear(states_ND, self.state_GD, self.state_bias_G)


class GateWeights(nn.Module):
    """The weights of a layer whose cell PyTorch does not have, under the names that `torch.nn.LSTM` gives them."""

    def __init__(self, gates: int, inputs: int, hidden: int, *, bidirectional: bool) -> None:
        super().__init__()
        for suffix in ("", "_reverse") if bidirectional else ("",):
            self.register_parameter(f"weight_ih_l0{suffix}", nn.Parameter(torch.empty(gates * hidden, inputs)))
            self.register_parameter(f"weight_hh_l0{suffix}", nn.Parameter(torch.empty(gates * hidden, hidden)))
            self.register_parameter(f"bias_ih_l0{suffix}", nn.Parameter(torch.empty(gates * hidden)))
            self.register_parameter(f"bias_hh_l0{suffix}", nn.Parameter(torch.empty(gates * hidden)))


def make_layer(cell: type[Cell], inputs: int, hidden: int, *, bidirectional: bool) -> nn.Module:
    """One layer, to be initialized by `initialize_layer`; ``hidden``: width of one direction."""
    if cell.torch_layer is None:
        return GateWeights(cell.gates, inputs, hidden, bidirectional=bidirectional)
    return cell.torch_layer(inputs, hidden, bidirectional=bidirectional)


def initialize_layer(layer: nn.Module, cell: type[Cell]) -> None:
    """W by Glorot, U orthogonal, both gate by gate; zero biases, except that of the forget gate."""
    hidden = layer.get_parameter("weight_hh_l0").shape[1]
    for name, parameter in layer.named_parameters():
        if "weight_hh" in name:
            for gate in parameter.data.split(hidden):
                nn.init.orthogonal_(gate)
        elif "weight_ih" in name:
            for gate in parameter.data.split(hidden):
                nn.init.xavier_uniform_(gate)
        else:
            nn.init.zeros_(parameter)
            if cell.forget_gate is not None and "bias_ih" in name:
                parameter.data.split(hidden)[cell.forget_gate].fill_(1.0)


def layer_weights(layer: nn.Module, direction: int = 0) -> LayerWeights:
    """The weights of a layer, forward (0) or backward (1)."""
    suffix = "_reverse" if direction else ""
    names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
    return LayerWeights(*(layer.get_parameter(name + suffix) for name in names))
