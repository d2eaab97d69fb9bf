"""Stacks of recurrent layers.

A stack runs in two ways with equal results: `forward` over whole ragged sequences, layer by layer, and `step` for one
time step, where the caller keeps the state. A state is a tuple over layers of the states of `weft.models.cells`.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from weft.attention.initialization import initialize
from weft.models.architecture import StackShape
from weft.models.cells import Cell, LayerState, LayerWeights, initialize_layer, layer_weights, make_layer
from weft.models.interface import Model
from weft.models.layers import dropout
from weft.ragged import Ragged
from weft.recipe import RecurrentSettings
from weft.recipe.choices import CELLS, resolve
from weft.runtime.replaceable import replaceable
from weft.tree import first

StackState = tuple[LayerState, ...]


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
        """``module``: its name in the model."""
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


def has_recurrence(model: Model) -> bool:
    """Whether any model has recurrent layers, weft's or PyTorch's."""
    return any(isinstance(module, RecurrentStack | nn.RNNBase) for module in model.modules())
