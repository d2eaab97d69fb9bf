"""Recurrent layers over whole sequences, and the LSTM cell on a GPU.

Versions of `weft.models.recurrent.RecurrentStack.forward`:

    padded      the layout of recorded updates, in which every row runs for as many steps as the longest
    by_cudnn    one call of cuDNN for a layer
    lstm        an LSTM on a CPU by `weft.fast.cpu.lstm`, with its backward pass written out
    deferred    any other cell: dL/dU by one product after the loop

All but the first keep the values in time-major order from layer to layer. A version of
`weft.models.recurrent.LSTM.step` is `fused_lstm_cell`. Compared with the plain functions by
tests/fast/layers/test_recurrent.py, on a GPU by tests/contracts/test_gpu.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence

from weft.fast.cpu.lstm import lstm_layer
from weft.fast.layers.deferred_gradients import deferred_linear
from weft.fast.layers.layer_kernels import has_recurrent_kernels
from weft.fast.torch_private import torch_lstm_cell
from weft.models.recurrent import GRU, LSTM, Cell, LayerState, LayerWeights, RecurrentStack, StackState
from weft.ragged import CapturableLayout, PaddedTimeMajor, Ragged, TimeMajor

Forward = tuple[Ragged, StackState]
RunLayer = Callable[[RecurrentStack, int, Tensor, TimeMajor, LayerState], tuple[Tensor, LayerState]]
"""The outputs of a layer over time-major values and its last states, both directions concatenated."""
Direction = Callable[[type[Cell], LayerWeights, LayerState, int], tuple[Tensor, LayerState]]
"""The outputs and last states of a layer in one direction: 0 forward, 1 backward."""


# The cell


def is_on_gpu(input_BG: Tensor, state_BG: Tensor, state: LayerState) -> bool:
    return input_BG.is_cuda


def fused_lstm_cell(input_BG: Tensor, state_BG: Tensor, state: LayerState) -> LayerState:
    """`LSTM.step` by PyTorch's own kernel."""
    return torch_lstm_cell(input_BG, state_BG, state[1])


# Time-major order


def has_weights(stack: RecurrentStack) -> bool:
    """Whether it is a stack as it was trained, and not one with eight-bit products."""
    return type(stack) is RecurrentStack


def has_cudnn(stack: RecurrentStack, sequences: Ragged, initial: StackState | None = None) -> bool:
    return sequences.values.is_cuda and has_weights(stack) and stack.cell.torch_layer is not None


def by_cudnn(stack: RecurrentStack, sequences: Ragged, initial: StackState | None = None) -> Forward:
    """`RecurrentStack.forward` by PyTorch's own modules."""
    return _time_major(stack, sequences, initial, _cudnn_layer)


def is_lstm(stack: RecurrentStack, sequences: Ragged, initial: StackState | None = None) -> bool:
    return stack.cell is LSTM and has_weights(stack)


def lstm(stack: RecurrentStack, sequences: Ragged, initial: StackState | None = None) -> Forward:
    """`RecurrentStack.forward` of LSTM layers on a CPU."""
    return _time_major(stack, sequences, initial, _lstm_layer)


def is_trained(stack: RecurrentStack, sequences: Ragged, initial: StackState | None = None) -> bool:
    return has_weights(stack)


def deferred(stack: RecurrentStack, sequences: Ragged, initial: StackState | None = None) -> Forward:
    """`RecurrentStack.forward` for any cell."""
    return _time_major(stack, sequences, initial, _deferred_layer)


def _time_major(stack: RecurrentStack, sequences: Ragged, initial: StackState | None, run_layer: RunLayer) -> Forward:
    """Layer by layer, with all values in time-major order."""
    order = sequences.layout.time_major
    values_ND = order.sort(sequences.values)
    finals: list[LayerState] = []
    for level, start in enumerate(initial or stack.zeros(sequences.rows, sequences.values)):
        output_ND, final = run_layer(stack, level, values_ND, order, tuple(map(order.sort_rows, start)))
        finals.append(tuple(map(order.unsort_rows, final)))
        values_ND = stack.layer_output(level, values_ND, output_ND)
    return sequences.like(order.unsort(values_ND)), tuple(finals)


def _cudnn_layer(
    stack: RecurrentStack, level: int, values_ND: Tensor, order: TimeMajor, start: LayerState
) -> tuple[Tensor, LayerState]:
    packed = PackedSequence(values_ND, torch.tensor(order.batch_sizes))
    parts = tuple(torch.stack(part.chunk(stack.directions, -1)) for part in start)
    output, final = stack.layers[level](packed, parts if stack.cell.state_parts > 1 else parts[0])
    finals = final if isinstance(final, tuple) else (final,)
    return output.data, tuple(torch.cat(part.unbind(0), -1) for part in finals)


def _lstm_layer(
    stack: RecurrentStack, level: int, values_ND: Tensor, order: TimeMajor, start: LayerState
) -> tuple[Tensor, LayerState]:
    def run(cell: type[Cell], weights: LayerWeights, state: LayerState, direction: int) -> tuple[Tensor, LayerState]:
        input_NG = functional.linear(values_ND, weights.input_GD, weights.input_bias_G + weights.state_bias_G)
        output_ND, *final = lstm_layer(
            input_NG, weights.state_GD, *state, batch_sizes=order.batch_sizes, reverse=bool(direction)
        )
        return output_ND, tuple(final)

    return _both_directions(stack, level, start, run)


def _deferred_layer(
    stack: RecurrentStack, level: int, values_ND: Tensor, order: TimeMajor, start: LayerState
) -> tuple[Tensor, LayerState]:
    def run(cell: type[Cell], weights: LayerWeights, state: LayerState, direction: int) -> tuple[Tensor, LayerState]:
        inputs = functional.linear(values_ND, weights.input_GD, weights.input_bias_G).split(order.batch_sizes)
        state_map = deferred_linear(weights.state_GD, weights.state_bias_G)
        outputs: list[Tensor] = []
        if direction:  # shorter rows join when the loop reaches their last token
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

    return _both_directions(stack, level, start, run)


def _both_directions(stack: RecurrentStack, level: int, start: LayerState, run: Direction) -> tuple[Tensor, LayerState]:
    """The outputs and last states of all directions, concatenated."""
    starts = zip(*(part.chunk(stack.directions, -1) for part in start), strict=True)
    results = [
        run(stack.cell, stack.weights(level, direction), state, direction) for direction, state in enumerate(starts)
    ]
    outputs, finals = zip(*results, strict=True)
    return torch.cat(outputs, -1), tuple(torch.cat(parts, -1) for parts in zip(*finals, strict=True))


# Recorded updates


def is_padded(stack: RecurrentStack, sequences: Ragged, initial: StackState | None = None) -> bool:
    return isinstance(sequences.layout, CapturableLayout)


def padded(stack: RecurrentStack, sequences: Ragged, initial: StackState | None = None) -> Forward:
    """`RecurrentStack.forward` with shapes that do not depend on the lengths."""
    order, values_ND = sequences.layout.time_major, sequences.values
    assert isinstance(order, PaddedTimeMajor)
    kernels = {LSTM: _padded_lstm, GRU: _padded_gru} if has_recurrent_kernels(values_ND) else {}
    run_layer = kernels.get(stack.cell, _padded_layer)
    finals: list[LayerState] = []
    for level, start in enumerate(initial or stack.zeros(sequences.rows, values_ND)):
        output_ND, final = run_layer(stack, level, values_ND, order, start)
        finals.append(final)
        values_ND = stack.layer_output(level, values_ND, output_ND)
    return sequences.like(values_ND), tuple(finals)


def _padded_layer(
    stack: RecurrentStack, level: int, values_ND: Tensor, order: PaddedTimeMajor, start: LayerState
) -> tuple[Tensor, LayerState]:
    """Both directions start at time 0, so nothing that is computed after the end of a row is used."""

    def run(cell: type[Cell], weights: LayerWeights, state: LayerState, direction: int) -> tuple[Tensor, LayerState]:
        input_NG = functional.linear(values_ND, weights.input_GD, weights.input_bias_G)
        state_map = deferred_linear(weights.state_GD, weights.state_bias_G)
        states: list[LayerState] = []
        for input_BG in order.sort(input_NG, reverse=bool(direction)).split(order.batch_sizes):
            state = cell.step(input_BG, state_map(state[0]), state)
            states.append(state)
        parts = [torch.cat(part) for part in zip(*states, strict=True)]
        return order.unsort(parts[0], reverse=bool(direction)), tuple(order.last(part) for part in parts)

    return _both_directions(stack, level, start, run)


def _padded_lstm(
    stack: RecurrentStack, level: int, values_ND: Tensor, order: PaddedTimeMajor, start: LayerState
) -> tuple[Tensor, LayerState]:
    """`_padded_layer` for an LSTM on a GPU, by `weft.fast.triton.lstm`."""
    from weft.fast.triton.lstm import padded_lstm

    weights = [stack.weights(level, direction) for direction in range(stack.directions)]
    biases_K1G = torch.stack([part.state_bias_G for part in weights])[:, None]
    states = padded_lstm(
        _padded_inputs(values_ND, weights, order) + biases_K1G,
        torch.stack([part.state_GD for part in weights]),
        *(torch.stack(part.chunk(stack.directions, -1)) for part in start),
    )
    return _unsorted(states, order)


def _padded_gru(
    stack: RecurrentStack, level: int, values_ND: Tensor, order: PaddedTimeMajor, start: LayerState
) -> tuple[Tensor, LayerState]:
    """`_padded_layer` for a GRU on a GPU, by `weft.fast.triton.gru`."""
    from weft.fast.triton.gru import padded_gru

    weights = [stack.weights(level, direction) for direction in range(stack.directions)]
    states_TKBD = padded_gru(
        _padded_inputs(values_ND, weights, order),
        torch.stack([part.state_GD for part in weights]),
        torch.stack([part.state_bias_G for part in weights]),
        torch.stack(start[0].chunk(stack.directions, -1)),
    )
    return _unsorted((states_TKBD,), order)


def _padded_inputs(values_ND: Tensor, weights: Sequence[LayerWeights], order: PaddedTimeMajor) -> Tensor:
    """W x_t + b (T, K, B, G) of K directions, each in its own order."""
    inputs = [functional.linear(values_ND, part.input_GD, part.input_bias_G) for part in weights]
    sorted_inputs = [order.sort(part, reverse=bool(direction)) for direction, part in enumerate(inputs)]
    times = (len(order.batch_sizes), -1, sorted_inputs[0].shape[-1])
    return torch.stack([part.view(times) for part in sorted_inputs], 1)


def _unsorted(states: Sequence[Tensor], order: PaddedTimeMajor) -> tuple[Tensor, LayerState]:
    """The outputs of a layer and its last states, both directions concatenated, from its states (T, K, B, D)."""
    by_direction = [[part.flatten(0, 1) for part in states_TKBD.unbind(1)] for states_TKBD in states]
    outputs = [order.unsort(part, reverse=bool(direction)) for direction, part in enumerate(by_direction[0])]
    finals = tuple(torch.cat([order.last(part) for part in parts], -1) for parts in by_direction)
    return torch.cat(outputs, -1), finals
