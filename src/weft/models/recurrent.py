"""Recurrent networks: the equation of one step, stacks of layers, and the encoder that they make.

A cell is h_t = f(h_{t−1}, x_t). A layer computes  W x_t + b  and  U h_{t−1} + b′, one block of D rows per gate
(G = gates · D); the cell computes the new state from both. A state is ``(h,)``, or ``(h, c)`` for an LSTM; the first
axis of every tensor is the row.

A stack runs in two ways with equal results: `forward` over whole ragged sequences, layer by layer, and `step` for one
time step, where the caller keeps the state: a tuple over layers of the states of cells.

To add a cell: write the class and add its line to CELLS in weft/recipe/choices.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from weft.attention.initialization import initialize
from weft.attention.ragged_attention import ReturnAttention
from weft.models.architecture import PartArchitecture, StackShape
from weft.models.interface import Encoded, Model
from weft.models.layers import dropout
from weft.ragged import Ragged
from weft.recipe import ModelSettings, RecurrentEncoderSettings, RecurrentSettings
from weft.recipe.choices import CELLS, resolve
from weft.runtime.replaceable import replaceable
from weft.tree import first

LayerState = tuple[Tensor, ...]
StackState = tuple[LayerState, ...]


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
    return LayerWeights(*(getattr(layer, name + suffix) for name in names))


class RecurrentStack(nn.Module):
    """Layers of one kind of cell, with plain, residual or dense connections between them.

    residual: the output of layer l is  x_l + h_l  where the sizes allow it (He et al. 2016; Britz et al. 2017)
    dense:    the input of layer l is  [x_1; h_1; …; h_{l−1}]  (Huang et al. 2017)

    With ``layer_norm`` the output of a layer is normalized: a (x − μ) / √(σ² + ε) + b, ε = 1e-5 (Ba et al. 2016).
    """

    def __init__(
        self, settings: RecurrentSettings, *, inputs: int, bidirectional: bool = False, dropout: float = 0.0
    ) -> None:
        """``dropout``: between layers."""
        super().__init__()
        self.cell: type[Cell] = resolve(CELLS, settings.kind)
        self.inputs = inputs
        self.hidden = settings.hidden
        self.connections = settings.connections
        self.dropout = dropout
        self.directions = 2 if bidirectional else 1
        dense = settings.connections == "dense"
        sizes = [inputs + level * self.hidden if dense else self.hidden for level in range(settings.layers)]
        sizes[0] = inputs
        self.layers = nn.ModuleList(
            make_layer(self.cell, size, self.hidden // self.directions, bidirectional=bidirectional) for size in sizes
        )
        self.norms = nn.ModuleList(
            nn.LayerNorm(self.hidden, eps=1e-5) if settings.layer_norm else nn.Identity() for _ in sizes
        )
        initialize(self)

    def reset_parameters(self) -> None:
        for layer in self.layers:
            initialize_layer(layer, self.cell)

    def shape(self, module: str, *, fixed_shapes: bool = True) -> StackShape:
        """``module``: the name of the module in the model."""
        return StackShape(module, "recurrent", len(self.layers), self.hidden, fixed_shapes=fixed_shapes)

    def zeros(self, rows: int, like: Tensor) -> StackState:
        """The initial state, with the dtype and device of ``like``."""
        part = like.new_zeros(rows, self.hidden)
        return tuple((part,) * self.cell.state_parts for _ in self.layers)

    def weights(self, level: int, direction: int = 0) -> LayerWeights:
        """The weights of a layer, forward (0) or backward (1)."""
        return layer_weights(self.layers[level], direction)

    def layer_output(self, level: int, inputs: Tensor, output: Tensor) -> Tensor:
        """The input of the layer above (of the top layer: the stack's output) from this layer's input and state."""
        if self.connections == "residual" and inputs.shape[-1] == output.shape[-1]:
            output = output + inputs
        output = self.norms[level](output)
        if level + 1 == len(self.layers):
            return output
        output = dropout(output, self.dropout, self.training)
        return torch.cat([inputs, output], -1) if self.connections == "dense" else output

    @replaceable
    def forward(self, sequences: Ragged, initial: StackState | None = None) -> tuple[Ragged, StackState]:
        """The outputs of the top layer for whole sequences, and the last state of every layer."""
        finals: list[LayerState] = []
        for level, start in enumerate(initial or self.zeros(sequences.rows, sequences.values)):
            output_ND, final = self._run_layer(level, sequences, start)
            finals.append(final)
            sequences = sequences.like(self.layer_output(level, sequences.values, output_ND))
        return sequences, tuple(finals)

    def _run_layer(self, level: int, sequences: Ragged, start: LayerState) -> tuple[Tensor, LayerState]:
        """The outputs of a layer and its last states, both directions concatenated."""
        starts = zip(*(part.chunk(self.directions, -1) for part in start), strict=True)
        output_ND, final = self._run(self.weights(level), sequences, next(starts))
        for backward_start in starts:
            backward_ND, last = self._run(self.weights(level, direction=1), _reversed(sequences), backward_start)
            output_ND = torch.cat([output_ND, _reversed(sequences.like(backward_ND)).values], -1)
            final = tuple(torch.cat(parts, -1) for parts in zip(final, last, strict=True))
        return output_ND, final

    def _run(self, weights: LayerWeights, sequences: Ragged, start: LayerState) -> tuple[Tensor, LayerState]:
        """h_1 … h_T and the last state of every row; at time t a step for the rows that have a token."""
        order = sequences.layout.time_major
        inputs = order.sort(weights.input_gates(sequences.values)).split(order.batch_sizes)
        start = tuple(map(order.sort_rows, start))
        state, states = start, [first(start, 0)]
        for input_BG in inputs:
            state = first(state, len(input_BG))
            state = self.cell.step(input_BG, weights.state_gates(state[0]), state)
            states.append(state)
        parts = [torch.cat(part) for part in zip(*states, strict=True)]
        last = (order.last(part, initial) for part, initial in zip(parts, start, strict=True))
        return order.unsort(parts[0]), tuple(map(order.unsort_rows, last))

    def step(self, inputs_BD: Tensor, state: StackState) -> tuple[Tensor, StackState]:
        """One time step: the output of the top layer, and the new state of every layer."""
        states: list[LayerState] = []
        for level, layer_state in enumerate(state):
            states.append(self.step_layer(level, inputs_BD, layer_state))
            inputs_BD = self.layer_output(level, inputs_BD, states[-1][0])
        return inputs_BD, tuple(states)

    def step_layer(self, level: int, inputs_BD: Tensor, state: LayerState) -> LayerState:
        """h_t = f(h_{t−1}, x_t) in one layer."""
        weights = self.weights(level)
        return self.cell.step(weights.input_gates(inputs_BD), weights.state_gates(state[0]), state)


def _reversed(sequences: Ragged) -> Ragged:
    """Every row back to front."""
    layout = sequences.layout
    last_N = layout.device_lengths[layout.row_ids] - 1
    mirrored_N = torch.arange(layout.total, device=layout.device) + last_N - 2 * layout.positions
    return sequences.like(sequences.values.index_select(0, mirrored_N))


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


def final_state(encoded: Encoded) -> StackState:
    """The last state of an encoder; of one without recurrence, the mean of its states."""
    return ((encoded.states.means(),),) if encoded.final is None else encoded.final


def has_recurrence(model: Model) -> bool:
    """Whether any model has recurrent layers, weft's or PyTorch's."""
    return any(isinstance(module, RecurrentStack | nn.RNNBase) for module in model.modules())
