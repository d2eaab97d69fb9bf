"""Recurrence h_t = f(h_{t−1}, x_t): the cells, and stacks of them.

A stack runs in two ways that give the same numbers: `forward` over whole ragged sequences (one call a layer), and
`step` for one time step, where the state is a value that the caller keeps. A state is a tuple over layers; a
layer's state is ``(h,)``, or ``(h, c)`` for an LSTM; the first axis of every tensor is the row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence

from weft.kernels.cpu.lstm import lstm_layer, lstm_step
from weft.kernels.deferred_gradients import LinearMap, deferred_linear
from weft.models.layers import dropout
from weft.ragged import PaddedTimeMajor, Ragged, TimeMajor
from weft.recipe.choices import CELLS, resolve

LayerState = tuple[Tensor, ...]
StackState = tuple[LayerState, ...]
CONNECTIONS = ("plain", "residual", "dense")


def rnn_cell(of_input_BG: Tensor, of_state_BG: Tensor | None, state: LayerState) -> LayerState:
    """h_t = tanh(W_xh x_t + W_hh h_{t−1} + b)   Elman 1990."""
    return (torch.tanh(of_input_BG if of_state_BG is None else of_input_BG + of_state_BG),)


def gru_cell(of_input_BG: Tensor, of_state_BG: Tensor | None, state: LayerState) -> LayerState:
    """r, z = σ(W x_t + U h_{t−1});  n = tanh(W x_t + r ⊙ (U h_{t−1}));  h_t = (1 − z) ⊙ n + z ⊙ h_{t−1}

    Cho et al. 2014, with the reset gate applied after the product and z in the role of their 1 − z, as in cuDNN.
    """
    assert of_state_BG is not None
    reset_x, update_x, new_x = of_input_BG.chunk(3, -1)
    reset_h, update_h, new_h = of_state_BG.chunk(3, -1)
    reset = torch.sigmoid(reset_x + reset_h)
    update = torch.sigmoid(update_x + update_h)
    new = torch.tanh(torch.addcmul(new_x, reset, new_h))
    return (torch.lerp(new, state[0], update),)


def lstm_cell(of_input_BG: Tensor, of_state_BG: Tensor | None, state: LayerState) -> LayerState:
    """i, f, o = σ(…), g = tanh(…) of W x_t + U h_{t−1} + b;  c_t = f ⊙ c_{t−1} + i ⊙ g;  h_t = o ⊙ tanh(c_t)

    Hochreiter & Schmidhuber 1997 with the forget gate of Gers et al. 2000.
    """
    if of_input_BG.is_cuda:
        of_state_BG = torch.zeros_like(of_input_BG) if of_state_BG is None else of_state_BG
        return torch.ops.aten._thnn_fused_lstm_cell(of_input_BG, of_state_BG, state[1])[:2]
    return lstm_step(of_input_BG if of_state_BG is None else of_input_BG + of_state_BG, state[1])


class Cell(NamedTuple):
    """What the library knows of one kind of recurrence."""

    step: Callable[[Tensor, Tensor | None, LayerState], LayerState]
    """What W x_t and U h_{t−1} make of the state; where the cell ``sums`` them, their sum and None will do."""
    sequence: Callable[..., nn.RNNBase]
    """PyTorch's module for whole sequences: it owns the weights, and on CUDA does the work."""
    parts: int
    """Tensors in the state."""
    sums: bool
    """Whether only W x_t + U h_{t−1} counts, so that one product can make both."""


RNN = Cell(rnn_cell, nn.RNN, 1, True)
GRU = Cell(gru_cell, nn.GRU, 1, False)
LSTM = Cell(lstm_cell, nn.LSTM, 2, True)


class LayerWeights(NamedTuple):
    """The weights of one layer in one direction, gate under gate."""

    input_GD: Tensor
    state_GD: Tensor
    input_bias_G: Tensor
    state_bias_G: Tensor


class StepMaps(NamedTuple):
    """The linear maps of one layer's step. One map may stand in both places: it reads [x; h] and sums both."""

    of_input: LinearMap
    of_state: LinearMap

    def apply(self, cell: Cell, inputs_BD: Tensor | None, added_BG: Tensor | None, state: LayerState) -> LayerState:
        """The layer's next state; ``added_BG`` is what is known already of the map of the input."""
        if cell.sums and (inputs_BD is None or self.of_input is self.of_state):
            given = (state[0],) if inputs_BD is None else (inputs_BD, state[0])
            return cell.step(self.of_state(*given, added=added_BG), None, state)
        if inputs_BD is not None:
            added_BG = self.of_input(inputs_BD, added=added_BG)
        assert added_BG is not None
        return cell.step(added_BG, self.of_state(state[0]), state)


class RecurrentStack(nn.Module):
    """Layers of one kind of cell, with plain, residual or dense connections between them.

    residual: layer l gives  x_l + h_l  where the sizes allow it (He et al. 2016; Britz et al. 2017)
    dense:    layer l reads  [x_1; h_1; …; h_{l−1}]  (Huang et al. 2017)

    With ``layer_norm`` what a layer gives is normalized: a (x − μ) / √(σ² + ε) + b, ε = 1e-5 (Ba et al. 2016).
    """

    def __init__(
        self,
        kind: str,
        *,
        inputs: int,
        hidden: int,
        layers: int,
        connections: str = "plain",
        layer_norm: bool = False,
        bidirectional: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.cell: Cell = resolve(CELLS, kind)
        self.inputs = inputs
        self.hidden = hidden
        self.connections = connections
        self.dropout = dropout
        self.directions = 2 if bidirectional else 1
        sizes = [inputs + level * hidden if connections == "dense" else hidden for level in range(layers)]
        sizes[0] = inputs
        layers_built = [
            self.cell.sequence(size, hidden // self.directions, bidirectional=bidirectional) for size in sizes
        ]
        for layer in layers_built:
            initialize(layer, kind)
        self.layers = nn.ModuleList(layers_built)
        self.norms = nn.ModuleList(nn.LayerNorm(hidden, eps=1e-5) if layer_norm else nn.Identity() for _ in sizes)

    @property
    def is_one_lstm(self) -> bool:
        """Whether this is one plain LSTM layer, forwards, and nothing else."""
        plain = self.connections == "plain" and isinstance(self.norms[0], nn.Identity)
        return plain and self.cell.step is lstm_cell and len(self.layers) == self.directions == 1

    def zeros(self, rows: int, like: Tensor) -> StackState:
        """The state before anything was read."""
        part = like.new_zeros(rows, self.hidden)
        return tuple((part,) * self.cell.parts for _ in self.layers)

    def _next_input(self, level: int, inputs: Tensor | None, output: Tensor) -> Tensor:
        """What the layer above reads (or, on top, what the stack gives), from this layer's input and state."""
        if self.connections == "residual" and inputs is not None and inputs.shape[-1] == output.shape[-1]:
            output = output + inputs
        output = self.norms[level](output)
        if level + 1 == len(self.layers):
            return output
        output = dropout(output, self.dropout, self.training)
        return torch.cat([inputs, output], -1) if self.connections == "dense" and inputs is not None else output

    def forward(self, sequences: Ragged, initial: StackState | None = None) -> tuple[Ragged, StackState]:
        """Whole sequences: every layer's states of the top layer, and every layer's last state."""
        order = sequences.layout.time_major
        initial = initial or self.zeros(sequences.rows, sequences.values)
        if isinstance(order, PaddedTimeMajor):
            return self._forward_padded(sequences, order, initial)
        values_ND = order.sort(sequences.values)
        run_layer = self._whole_layer if values_ND.is_cuda else self._layer_step_by_step
        finals: list[LayerState] = []
        for level in range(len(self.layers)):
            start = tuple(order.sort_rows(part) for part in initial[level])
            output_ND, final = run_layer(level, values_ND, order, start)
            finals.append(tuple(order.unsort_rows(part) for part in final))
            values_ND = self._next_input(level, values_ND, output_ND)
        return sequences.like(order.unsort(values_ND)), tuple(finals)

    def _forward_padded(
        self, sequences: Ragged, order: PaddedTimeMajor, initial: StackState
    ) -> tuple[Ragged, StackState]:
        """The same with every row running for as many steps as the longest: no shape depends on the lengths.

        Both directions start at time 0, so nothing that is computed after a row's end is read.
        """
        values_ND = sequences.values
        finals: list[LayerState] = []
        for level in range(len(self.layers)):
            outputs: list[Tensor] = []
            last: list[LayerState] = []
            starts = zip(*(part.chunk(self.directions, -1) for part in initial[level]), strict=True)
            for direction, state in enumerate(starts):
                weights = self.weights(level, direction)
                of_input_NG = functional.linear(values_ND, weights.input_GD, weights.input_bias_G)
                of_state = deferred_linear(weights.state_GD, weights.state_bias_G)
                states: list[LayerState] = []
                for of_input_BG in order.sort(of_input_NG, reverse=bool(direction)).split(order.batch_sizes):
                    state = self.cell.step(of_input_BG, of_state(state[0]), state)
                    states.append(state)
                whole = [torch.cat(part) for part in zip(*states, strict=True)]
                outputs.append(order.unsort(whole[0], reverse=bool(direction)))
                last.append(tuple(order.last(part) for part in whole))
            finals.append(tuple(torch.cat(parts, -1) for parts in zip(*last, strict=True)))
            values_ND = self._next_input(level, values_ND, torch.cat(outputs, -1))
        return sequences.like(values_ND), tuple(finals)

    def _whole_layer(
        self, level: int, values_ND: Tensor, order: TimeMajor, start: LayerState
    ) -> tuple[Tensor, LayerState]:
        """A layer over time-major values by PyTorch's own module: one call of cuDNN."""
        packed = PackedSequence(values_ND, torch.tensor(order.batch_sizes))
        parts = tuple(torch.stack(part.chunk(self.directions, -1)) for part in start)
        output, final = self.layers[level](packed, parts if self.cell.parts > 1 else parts[0])
        finals = final if isinstance(final, tuple) else (final,)
        return output.data, tuple(torch.cat(part.unbind(0), -1) for part in finals)

    def _layer_step_by_step(
        self, level: int, values_ND: Tensor, order: TimeMajor, start: LayerState
    ) -> tuple[Tensor, LayerState]:
        """The same with our own loop. On a CPU it is the quicker one: weights' gradients are taken once."""
        starts = [part.chunk(self.directions, -1) for part in start]
        found = [
            self._one_direction(
                self.weights(level, direction), values_ND, order.batch_sizes, one_start, bool(direction)
            )
            for direction, one_start in enumerate(zip(*starts, strict=True))
        ]
        finals = [final for _, final in found]
        return torch.cat([output for output, _ in found], -1), tuple(
            torch.cat(parts, -1) for parts in zip(*finals, strict=True)
        )

    def _one_direction(
        self, weights: LayerWeights, values_ND: Tensor, counts: list[int], state: LayerState, reverse: bool
    ) -> tuple[Tensor, LayerState]:
        """All steps in one direction; ``counts[t]`` leading rows have a token at time t."""
        if self.cell.step is lstm_cell:
            bias_G = weights.input_bias_G + weights.state_bias_G
            of_input_NG = functional.linear(values_ND, weights.input_GD, bias_G)
            output_ND, *final = lstm_layer(of_input_NG, weights.state_GD, *state, counts=counts, reverse=reverse)
            return output_ND, tuple(final)
        of_input = functional.linear(values_ND, weights.input_GD, weights.input_bias_G).split(counts)
        of_state = deferred_linear(weights.state_GD, weights.state_bias_G)
        outputs: list[Tensor] = []
        if reverse:  # shorter rows join in as the loop comes to their last token
            start, state = state, tuple(part[:0] for part in state)
            for of_input_BG in reversed(of_input):
                if len(of_input_BG) > len(state[0]):
                    joining = slice(len(state[0]), len(of_input_BG))
                    state = tuple(torch.cat([old, new[joining]]) for old, new in zip(state, start, strict=True))
                state = self.cell.step(of_input_BG, of_state(state[0]), state)
                outputs.append(state[0])
            return torch.cat(outputs[::-1]), state
        left: list[LayerState] = []  # the last states of rows that have ended, shortest rows first
        for of_input_BG in of_input:
            running = len(of_input_BG)
            if running < len(state[0]):
                left.append(tuple(part[running:] for part in state))
                state = tuple(part[:running] for part in state)
            state = self.cell.step(of_input_BG, of_state(state[0]), state)
            outputs.append(state[0])
        left.append(state)
        return torch.cat(outputs), tuple(torch.cat(parts) for parts in zip(*left[::-1], strict=True))

    def weights(self, level: int, direction: int = 0) -> LayerWeights:
        """The weights of a layer, forward (0) or backward (1)."""
        suffix = "_reverse" if direction else ""
        names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
        return LayerWeights(*(self.layers[level].get_parameter(name + suffix) for name in names))

    def step_maps(self, known: int | None = None) -> list[StepMaps]:
        """The maps for `step`, made once before a loop so that each weight's gradient is taken once after it.

        ``known``: how many leading inputs of the first layer `step` is given the map of. If not said, all of them,
        and the map that makes it is the first layer's ``of_input``.
        """
        maps: list[StepMaps] = []
        for level in range(len(self.layers)):
            layer = self.weights(level)
            if level == 0 and known is None:
                of_input = deferred_linear(layer.input_GD, layer.input_bias_G)
                maps.append(StepMaps(of_input, deferred_linear(layer.state_GD, layer.state_bias_G)))
                continue
            input_GD = layer.input_GD if level else layer.input_GD[:, known:]
            input_bias_G = layer.input_bias_G if level else None  # of the first layer it is in what is known
            if input_GD.shape[1] == 0:
                of_both = deferred_linear(layer.state_GD, layer.state_bias_G)
                maps.append(StepMaps(of_both, of_both))
            elif self.cell.sums:
                bias_G = layer.state_bias_G if input_bias_G is None else layer.state_bias_G + input_bias_G
                of_both = deferred_linear((input_GD, layer.state_GD), bias_G)
                maps.append(StepMaps(of_both, of_both))
            else:
                maps.append(
                    StepMaps(
                        deferred_linear(input_GD, input_bias_G), deferred_linear(layer.state_GD, layer.state_bias_G)
                    )
                )
        return maps

    def step(
        self,
        inputs_BD: Tensor | None,
        of_first_BG: Tensor,
        state: StackState,
        maps: list[StepMaps],
        extra_BD: Tensor | None = None,
    ) -> tuple[Tensor, StackState]:
        """One time step: the stack's output and the new state.

        ``of_first_BG`` is the first layer's map of the inputs that are ``known`` beforehand, which callers make in
        bulk; ``extra_BD`` are the others. The whole input is wanted only by residual and dense connections.
        """
        part = maps[0].apply(self.cell, extra_BD, of_first_BG, state[0])
        states = [part]
        current = self._next_input(0, inputs_BD, part[0])
        for level in range(1, len(maps)):
            part = maps[level].apply(self.cell, current, None, state[level])
            states.append(part)
            current = self._next_input(level, current, part[0])
        return current, tuple(states)


def initialize(layer: nn.RNNBase, kind: str) -> None:
    """Glorot for what reads the input, orthogonal for the recurrence, zero biases, an LSTM's forget gate open."""
    for name, parameter in layer.named_parameters():
        if "weight_hh" in name:
            for gate in parameter.data.split(layer.hidden_size):
                nn.init.orthogonal_(gate)
        elif "weight_ih" in name:
            for gate in parameter.data.split(layer.hidden_size):
                nn.init.xavier_uniform_(gate)
        else:
            nn.init.zeros_(parameter)
            if kind == "lstm" and "bias_ih" in name:
                parameter.data[layer.hidden_size : 2 * layer.hidden_size] = 1.0
