"""Recurrence h_t = f(h_{t−1}, x_t): the cells, and stacks of them.

A stack runs in two ways that give the same numbers: `forward` over whole ragged sequences (one call a layer), and
`step` for one time step, where the state is a value that the caller keeps. A state is a tuple over layers; a
layer's state is ``(h,)``, or ``(h, c)`` for an LSTM; the first axis of every tensor is the row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence

from weft.models.layers import dropout
from weft.ragged import Ragged, TimeMajor
from weft.unrolled import Map, unrolled

LayerState = tuple[Tensor, ...]
StackState = tuple[LayerState, ...]
CONNECTIONS = ("plain", "residual", "dense")


def rnn_cell(of_input_BG: Tensor, of_state_BG: Tensor, state: LayerState) -> LayerState:
    """h_t = tanh(W_xh x_t + W_hh h_{t−1} + b)   Elman 1990."""
    return (torch.tanh(of_input_BG + of_state_BG),)


def gru_cell(of_input_BG: Tensor, of_state_BG: Tensor, state: LayerState) -> LayerState:
    """r, z = σ(W x_t + U h_{t−1});  n = tanh(W x_t + r ⊙ (U h_{t−1}));  h_t = (1 − z) ⊙ n + z ⊙ h_{t−1}

    Cho et al. 2014, with the reset gate applied after the product and z in the role of their 1 − z, as in cuDNN.
    """
    reset_x, update_x, new_x = of_input_BG.chunk(3, -1)
    reset_h, update_h, new_h = of_state_BG.chunk(3, -1)
    reset = torch.sigmoid(reset_x + reset_h)
    update = torch.sigmoid(update_x + update_h)
    new = torch.tanh(torch.addcmul(new_x, reset, new_h))
    return (torch.lerp(new, state[0], update),)


class _LstmStep(torch.autograd.Function):
    """The LSTM's equations with their gradient written out: half the passes over memory that autograd would make."""

    @staticmethod
    def forward(ctx: Any, of_input_BG: Tensor, of_state_BG: Tensor, memory_BD: Tensor) -> tuple[Tensor, Tensor]:
        gates_BG = of_input_BG + of_state_BG
        enter, forget, new, out = gates_BG.chunk(4, -1)
        gates_BG[:, : 2 * memory_BD.shape[-1]].sigmoid_()
        new.tanh_()
        out.sigmoid_()
        next_BD = torch.addcmul(forget * memory_BD, enter, new)
        shown_BD = next_BD.tanh()
        ctx.save_for_backward(gates_BG, memory_BD, shown_BD)
        return out * shown_BD, next_BD

    @staticmethod
    def backward(ctx: Any, state_grad_BD: Tensor, next_grad_BD: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        gates_BG, memory_BD, shown_BD = ctx.saved_tensors
        enter, forget, new, out = gates_BG.chunk(4, -1)
        grad_BG = torch.empty_like(gates_BG)
        of_enter, of_forget, of_new, of_out = grad_BG.chunk(4, -1)
        total_BD = torch.addcmul(next_grad_BD, state_grad_BD * out, 1 - shown_BD * shown_BD)
        torch.mul(total_BD, new, out=of_enter)
        torch.mul(total_BD, memory_BD, out=of_forget)
        torch.mul(total_BD, enter, out=of_new)
        torch.mul(state_grad_BD, shown_BD, out=of_out)
        both = 2 * memory_BD.shape[-1]
        grad_BG[:, :both].mul_(gates_BG[:, :both]).mul_(1 - gates_BG[:, :both])
        of_new.mul_(1 - new * new)
        of_out.mul_(out).mul_(1 - out)
        return grad_BG, grad_BG, total_BD * forget


def lstm_cell(of_input_BG: Tensor, of_state_BG: Tensor, state: LayerState) -> LayerState:
    """i, f, o = σ(…), g = tanh(…) of W x_t + U h_{t−1} + b;  c_t = f ⊙ c_{t−1} + i ⊙ g;  h_t = o ⊙ tanh(c_t)

    Hochreiter & Schmidhuber 1997 with the forget gate of Gers et al. 2000.
    """
    if of_input_BG.is_cuda:
        return torch.ops.aten._thnn_fused_lstm_cell(of_input_BG, of_state_BG, state[1])[:2]
    return _LstmStep.apply(of_input_BG, of_state_BG, state[1])


class Cell(NamedTuple):
    """What the library knows of one kind of recurrence."""

    step: Callable[[Tensor, Tensor, LayerState], LayerState]
    sequence: Callable[..., nn.RNNBase]
    """PyTorch's module for whole sequences: it owns the weights, and on CUDA does the work."""
    parts: int
    """Tensors in the state."""


CELLS: dict[str, Cell] = {
    "rnn": Cell(rnn_cell, nn.RNN, 1),
    "gru": Cell(gru_cell, nn.GRU, 1),
    "lstm": Cell(lstm_cell, nn.LSTM, 2),
}


class LayerWeights(NamedTuple):
    """The weights of one layer in one direction, gate under gate."""

    input_GD: Tensor
    state_GD: Tensor
    input_bias_G: Tensor
    state_bias_G: Tensor


class StepMaps(NamedTuple):
    """The linear maps of one layer's step: of its input and of its state."""

    of_input: Map
    of_state: Map


class RecurrentStack(nn.Module):
    """Layers of one kind of cell, with plain, residual or dense connections between them.

    residual: layer l gives  x_l + h_l  where the sizes allow it (He et al. 2016; Britz et al. 2017)
    dense:    layer l reads  [x_1; h_1; …; h_{l−1}]  (Huang et al. 2017)

    With ``layer_norm`` what a layer gives is normalised: a (x − μ) / √(σ² + ε) + b, ε = 1e-5 (Ba et al. 2016).
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
        self.cell = CELLS[kind]
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
            initialise(layer, kind)
        self.layers = nn.ModuleList(layers_built)
        self.norms = nn.ModuleList(nn.LayerNorm(hidden, eps=1e-5) if layer_norm else nn.Identity() for _ in sizes)

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
        if sequences.layout.fixed:
            return self._on_fixed_grid(sequences, initial or self.zeros(sequences.rows, sequences.values))
        order = sequences.layout.time_major
        values_ND = order.sort(sequences.values)
        initial = initial or self.zeros(sequences.rows, sequences.values)
        run_layer = self._whole_layer if values_ND.is_cuda else self._layer_step_by_step
        finals: list[LayerState] = []
        for level in range(len(self.layers)):
            start = tuple(part.index_select(0, order.rows) for part in initial[level])
            output_ND, final = run_layer(level, values_ND, order, start)
            finals.append(tuple(part.index_select(0, order.rows_back) for part in final))
            values_ND = self._next_input(level, values_ND, output_ND)
        return sequences.like(order.unsort(values_ND)), tuple(finals)

    def _on_fixed_grid(self, sequences: Ragged, initial: StackState) -> tuple[Ragged, StackState]:
        """The same with every row running to the end of a fixed grid: no shape depends on the lengths.

        Rows lie at the left whichever way they are read, so what is computed after a row's end is never read.
        """
        layout = sequences.layout
        ends_B = (layout.counts - 1).clamp(min=0) * layout.rows + torch.arange(layout.rows, device=layout.device)
        values_ND = sequences.values
        finals: list[LayerState] = []
        for level in range(len(self.layers)):
            outputs: list[Tensor] = []
            last: list[LayerState] = []
            starts = zip(*(part.chunk(self.directions, -1) for part in initial[level]), strict=True)
            for direction, state in enumerate(starts):
                weights = self.weights(level, direction)
                of_input_NG = functional.linear(values_ND, weights.input_GD, weights.input_bias_G)
                of_state = unrolled(weights.state_GD, weights.state_bias_G)
                states: list[LayerState] = []
                for of_input_BG in sequences.like(of_input_NG).steps(back=bool(direction)).unbind(0):
                    state = self.cell.step(of_input_BG, of_state(state[0]), state)
                    states.append(state)
                grids = [torch.stack(part) for part in zip(*states, strict=True)]
                outputs.append(sequences.from_steps(grids[0], back=bool(direction)).values)
                last.append(tuple(grid_TBD.flatten(0, 1).index_select(0, ends_B) for grid_TBD in grids))
            finals.append(tuple(torch.cat(parts, -1) for parts in zip(*last, strict=True)))
            values_ND = self._next_input(level, values_ND, torch.cat(outputs, -1))
        return sequences.like(values_ND), tuple(finals)

    def _whole_layer(
        self, level: int, values_ND: Tensor, order: TimeMajor, start: LayerState
    ) -> tuple[Tensor, LayerState]:
        """A layer over time-major values by PyTorch's own module: one call of cuDNN."""
        packed = PackedSequence(values_ND, torch.tensor(order.counts))
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
            self._one_direction(self.weights(level, direction), values_ND, order.counts, one_start, bool(direction))
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
        of_input = functional.linear(values_ND, weights.input_GD, weights.input_bias_G).split(counts)
        of_state = unrolled(weights.state_GD, weights.state_bias_G)
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

    def step_maps(self) -> list[StepMaps]:
        """The maps for `step`, made once before a loop so that each weight's gradient is taken once after it."""
        layers = [self.weights(level) for level in range(len(self.layers))]
        return [
            StepMaps(unrolled(layer.input_GD, layer.input_bias_G), unrolled(layer.state_GD, layer.state_bias_G))
            for layer in layers
        ]

    def step(
        self, inputs_BD: Tensor | None, of_first_BG: Tensor, state: StackState, maps: list[StepMaps]
    ) -> tuple[Tensor, StackState]:
        """One time step: the stack's output and the new state.

        ``of_first_BG`` is the first layer's map of the input, which callers make in bulk; the input itself is
        wanted only by residual and dense connections.
        """
        part = self.cell.step(of_first_BG, maps[0].of_state(state[0][0]), state[0])
        states = [part]
        current = self._next_input(0, inputs_BD, part[0])
        for level in range(1, len(maps)):
            of_input, of_state = maps[level]
            part = self.cell.step(of_input(current), of_state(state[level][0]), state[level])
            states.append(part)
            current = self._next_input(level, current, part[0])
        return current, tuple(states)


def initialise(layer: nn.RNNBase, kind: str) -> None:
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
