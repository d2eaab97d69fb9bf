"""Stacks of recurrent layers.

A stack runs in two ways with equal results: `forward` over whole ragged sequences, layer by layer, and `step` for one
time step, where the caller keeps the state. A state is a tuple over layers of the states of `weft.models.cells`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence

from weft.kernels.cpu.lstm import lstm_layer
from weft.kernels.deferred_gradients import LinearMap, deferred_linear
from weft.models.cells import LSTM, Cell, LayerState, LayerWeights, initialize, layer_weights, make_layer
from weft.models.layers import dropout
from weft.ragged import PaddedTimeMajor, Ragged, TimeMajor
from weft.recipe import RecurrentSettings
from weft.recipe.choices import CELLS, resolve

StackState = tuple[LayerState, ...]


class LayerMaps(NamedTuple):
    """The linear maps of one layer's step. The same map in both fields reads [x; h] and returns the sum."""

    input_map: LinearMap
    state_map: LinearMap

    def advance(
        self, cell: type[Cell], inputs_BD: Tensor | None, added_BG: Tensor | None, state: LayerState
    ) -> LayerState:
        """The layer's next state; ``added_BG``: the part of W x_t + b that is already computed."""
        if cell.sums_gates and (inputs_BD is None or self.input_map is self.state_map):
            inputs = (state[0],) if inputs_BD is None else (inputs_BD, state[0])
            return cell.step(self.state_map(*inputs, added=added_BG), None, state)
        if inputs_BD is not None:
            added_BG = self.input_map(inputs_BD, added=added_BG)
        assert added_BG is not None
        return cell.step(added_BG, self.state_map(state[0]), state)


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
        for layer in self.layers:
            initialize(layer, self.cell)
        self.norms = nn.ModuleList(
            nn.LayerNorm(self.hidden, eps=1e-5) if settings.layer_norm else nn.Identity() for _ in sizes
        )

    @property
    def is_plain_lstm(self) -> bool:
        """Whether these are unidirectional LSTM layers without normalization, one on top of the other."""
        plain = self.connections == "plain" and isinstance(self.norms[0], nn.Identity)
        return plain and self.cell is LSTM and self.directions == 1

    @property
    def is_single_lstm(self) -> bool:
        """Whether this is one unidirectional LSTM layer without normalization."""
        return self.is_plain_lstm and len(self.layers) == 1

    def zeros(self, rows: int, like: Tensor) -> StackState:
        """The initial state, with the dtype and device of ``like``."""
        part = like.new_zeros(rows, self.hidden)
        return tuple((part,) * self.cell.state_parts for _ in self.layers)

    def weights(self, level: int, direction: int = 0) -> LayerWeights:
        """The weights of a layer, forward (0) or backward (1)."""
        return layer_weights(self.layers[level], direction)

    def layer_output(self, level: int, inputs: Tensor | None, output: Tensor) -> Tensor:
        """The input of the layer above (of the top layer: the stack's output) from this layer's input and state."""
        if self.connections == "residual" and inputs is not None and inputs.shape[-1] == output.shape[-1]:
            output = output + inputs
        output = self.norms[level](output)
        if level + 1 == len(self.layers):
            return output
        output = dropout(output, self.dropout, self.training)
        return torch.cat([inputs, output], -1) if self.connections == "dense" and inputs is not None else output

    # Whole sequences

    def forward(self, sequences: Ragged, initial: StackState | None = None) -> tuple[Ragged, StackState]:
        """The outputs of the top layer, and the last state of every layer."""
        order = sequences.layout.time_major
        padded = isinstance(order, PaddedTimeMajor)
        values_ND = sequences.values if padded else order.sort(sequences.values)
        initial = initial or self.zeros(sequences.rows, sequences.values)
        finals: list[LayerState] = []
        for level in range(len(self.layers)):
            start = tuple(order.sort_rows(part) for part in initial[level])
            if values_ND.is_cuda and not padded and self.cell.torch_layer is not None:
                output_ND, final = self._torch_layer(level, values_ND, order, start)
            else:
                output_ND, final = self._layer(level, values_ND, order, start)
            finals.append(tuple(order.unsort_rows(part) for part in final))
            values_ND = self.layer_output(level, values_ND, output_ND)
        return sequences.like(values_ND if padded else order.unsort(values_ND)), tuple(finals)

    def _torch_layer(
        self, level: int, values_ND: Tensor, order: TimeMajor, start: LayerState
    ) -> tuple[Tensor, LayerState]:
        """`_layer` by PyTorch's own module: one call of cuDNN."""
        packed = PackedSequence(values_ND, torch.tensor(order.batch_sizes))
        parts = tuple(torch.stack(part.chunk(self.directions, -1)) for part in start)
        output, final = self.layers[level](packed, parts if self.cell.state_parts > 1 else parts[0])
        finals = final if isinstance(final, tuple) else (final,)
        return output.data, tuple(torch.cat(part.unbind(0), -1) for part in finals)

    def _layer(self, level: int, values_ND: Tensor, order: TimeMajor, start: LayerState) -> tuple[Tensor, LayerState]:
        """The outputs of a layer and its last states, both directions concatenated."""
        if values_ND.is_cuda and self.cell is LSTM and isinstance(order, PaddedTimeMajor):
            from weft.kernels.layer_kernels import has_lstm_kernels

            if has_lstm_kernels(values_ND):
                return self._padded_lstm(level, values_ND, order, start)
        run: Callable[..., Any] = _padded_direction if isinstance(order, PaddedTimeMajor) else _direction
        if self.cell is LSTM and run is _direction:
            run = _lstm_direction
        starts = zip(*(part.chunk(self.directions, -1) for part in start), strict=True)
        results = [
            run(self.cell, self.weights(level, direction), values_ND, order, state, reverse=bool(direction))
            for direction, state in enumerate(starts)
        ]
        outputs, finals = zip(*results, strict=True)
        return torch.cat(outputs, -1), tuple(torch.cat(parts, -1) for parts in zip(*finals, strict=True))

    def _padded_lstm(
        self, level: int, values_ND: Tensor, order: PaddedTimeMajor, start: LayerState
    ) -> tuple[Tensor, LayerState]:
        """`_layer` for an LSTM over a padded batch on a GPU, by `weft.kernels.triton.lstm`."""
        from weft.kernels.triton.lstm import padded_lstm

        weights = [self.weights(level, direction) for direction in range(self.directions)]
        inputs = [functional.linear(values_ND, part.input_GD, part.input_bias_G) for part in weights]
        sorted_inputs = [order.sort(part, reverse=bool(direction)) for direction, part in enumerate(inputs)]
        times = (len(order.batch_sizes), -1, sorted_inputs[0].shape[-1])
        biases_K1G = torch.stack([part.state_bias_G for part in weights])[:, None]
        results = padded_lstm(
            torch.stack([part.view(times) for part in sorted_inputs], 1) + biases_K1G,
            torch.stack([part.state_GD for part in weights]),
            *(torch.stack(part.chunk(self.directions, -1)) for part in start),
        )
        by_direction = [[part.flatten(0, 1) for part in result_TKBD.unbind(1)] for result_TKBD in results]
        outputs = [order.unsort(part, reverse=bool(direction)) for direction, part in enumerate(by_direction[0])]
        finals = tuple(torch.cat([order.last(part) for part in parts], -1) for parts in by_direction)
        return torch.cat(outputs, -1), finals

    # One time step

    def step_maps(self, precomputed: int | None = None) -> list[LayerMaps]:
        """The linear maps for `step`, made once before a loop so that each weight gets its gradient once after it.

        ``precomputed``: for how many leading inputs of the first layer the caller computes W x_t + b. Not given: for
        all of them, by the first layer's ``input_map``.
        """
        maps: list[LayerMaps] = []
        for level in range(len(self.layers)):
            layer = self.weights(level)
            if level == 0 and precomputed is None:
                input_map = deferred_linear(layer.input_GD, layer.input_bias_G)
                maps.append(LayerMaps(input_map, deferred_linear(layer.state_GD, layer.state_bias_G)))
                continue
            input_GD = layer.input_GD if level else layer.input_GD[:, precomputed:]
            input_bias_G = layer.input_bias_G if level else None  # in the first layer it is part of what is precomputed
            if input_GD.shape[1] == 0:
                joint_map = deferred_linear(layer.state_GD, layer.state_bias_G)
                maps.append(LayerMaps(joint_map, joint_map))
            elif self.cell.sums_gates:
                bias_G = layer.state_bias_G if input_bias_G is None else layer.state_bias_G + input_bias_G
                joint_map = deferred_linear((input_GD, layer.state_GD), bias_G)
                maps.append(LayerMaps(joint_map, joint_map))
            else:
                state_map = deferred_linear(layer.state_GD, layer.state_bias_G)
                maps.append(LayerMaps(deferred_linear(input_GD, input_bias_G), state_map))
        return maps

    def step(
        self,
        inputs_BD: Tensor | None,
        precomputed_BG: Tensor,
        state: StackState,
        maps: list[LayerMaps],
        extra_BD: Tensor | None = None,
    ) -> tuple[Tensor, StackState]:
        """One time step: the output and the new state.

        ``precomputed_BG``: W x_t + b of the first layer for its leading inputs; ``extra_BD``: its other inputs. The
        whole input ``inputs_BD`` is needed by residual and dense connections only.
        """
        layer_state = maps[0].advance(self.cell, extra_BD, precomputed_BG, state[0])
        states = [layer_state]
        current_BD = self.layer_output(0, inputs_BD, layer_state[0])
        for level in range(1, len(maps)):
            layer_state = maps[level].advance(self.cell, current_BD, None, state[level])
            states.append(layer_state)
            current_BD = self.layer_output(level, current_BD, layer_state[0])
        return current_BD, tuple(states)


def _direction(
    cell: type[Cell], weights: LayerWeights, values_ND: Tensor, order: TimeMajor, state: LayerState, *, reverse: bool
) -> tuple[Tensor, LayerState]:
    """h_t = f(h_{t−1}, x_t) over time-major values, for the rows that have a token at time t."""
    inputs = functional.linear(values_ND, weights.input_GD, weights.input_bias_G).split(order.batch_sizes)
    state_map = deferred_linear(weights.state_GD, weights.state_bias_G)
    outputs: list[Tensor] = []
    if reverse:  # shorter rows join when the loop reaches their last token
        start, state = state, tuple(part[:0] for part in state)
        for input_BG in reversed(inputs):
            if len(input_BG) > len(state[0]):
                joining = slice(len(state[0]), len(input_BG))
                state = tuple(torch.cat([old, new[joining]]) for old, new in zip(state, start, strict=True))
            state = cell.step(input_BG, state_map(state[0]), state)
            outputs.append(state[0])
        return torch.cat(outputs[::-1]), state
    finished: list[LayerState] = []  # the last states of the rows that have ended, shortest rows first
    for input_BG in inputs:
        running = len(input_BG)
        if running < len(state[0]):
            finished.append(tuple(part[running:] for part in state))
            state = tuple(part[:running] for part in state)
        state = cell.step(input_BG, state_map(state[0]), state)
        outputs.append(state[0])
    finished.append(state)
    return torch.cat(outputs), tuple(torch.cat(parts) for parts in zip(*finished[::-1], strict=True))


def _lstm_direction(
    cell: type[Cell], weights: LayerWeights, values_ND: Tensor, order: TimeMajor, state: LayerState, *, reverse: bool
) -> tuple[Tensor, LayerState]:
    """`_direction` for an LSTM on a CPU, by `weft.kernels.cpu.lstm`."""
    input_NG = functional.linear(values_ND, weights.input_GD, weights.input_bias_G + weights.state_bias_G)
    output_ND, *final = lstm_layer(input_NG, weights.state_GD, *state, batch_sizes=order.batch_sizes, reverse=reverse)
    return output_ND, tuple(final)


def _padded_direction(
    cell: type[Cell],
    weights: LayerWeights,
    values_ND: Tensor,
    order: PaddedTimeMajor,
    state: LayerState,
    *,
    reverse: bool,
) -> tuple[Tensor, LayerState]:
    """`_direction` over values in the order of the batch, for shapes that do not depend on the lengths.

    Every row runs for as many steps as the longest. Both directions start at time 0, so nothing that is computed after
    the end of a row is used.
    """
    input_NG = functional.linear(values_ND, weights.input_GD, weights.input_bias_G)
    state_map = deferred_linear(weights.state_GD, weights.state_bias_G)
    states: list[LayerState] = []
    for input_BG in order.sort(input_NG, reverse=reverse).split(order.batch_sizes):
        state = cell.step(input_BG, state_map(state[0]), state)
        states.append(state)
    parts = [torch.cat(part) for part in zip(*states, strict=True)]
    return order.unsort(parts[0], reverse=reverse), tuple(order.last(part) for part in parts)
