"""LSTM layers over padded batches on CUDA, with their backward pass written out.

Plain counterpart: `weft.models.recurrent._padded_direction` for LSTM cells, both directions together. Tested in
tests/fast/triton/test_lstm.py.

    i, f, o = σ(a), g = tanh(a) of a_t = W x_t + U h_{t−1} + b;     c_t = f ⊙ c_{t−1} + i ⊙ g;     h_t = o ⊙ tanh(c_t)

A time step is one product and one kernel, in both passes. The gates are overwritten with their activations and then
with their gradients, from which the gradient of U is one product after the last step. First-order gradients only, and
one backward pass.
"""

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 256


@triton.jit
def tanh(x):  # type: ignore[no-untyped-def]
    return 2.0 * tl.sigmoid(2.0 * x) - 1.0


@triton.jit
def is_kept(seeds, index, threshold):  # type: ignore[no-untyped-def]
    """Whether dropout keeps the value with this number."""
    bits = tl.randint(tl.load(seeds), index).to(tl.uint32, bitcast=True) >> 16
    return bits.to(tl.int32) >= threshold


@triton.jit
def _forward(  # type: ignore[no-untyped-def]
    gates, bias, cells_before, cells, states, outputs, seeds, count, size, state_stride, output_stride,
    counter, threshold, factor, has_bias: tl.constexpr, has_states: tl.constexpr, drops: tl.constexpr,
    block: tl.constexpr,
):  # fmt: skip
    """h_t is written to ``outputs``, with dropout, and to ``states``, without."""
    e = tl.program_id(0) * block + tl.arange(0, block)
    valid = e < count
    n, d = e // size, e % size
    gate = gates + n * 4 * size + d
    i = tl.load(gate, mask=valid, other=0.0)
    f = tl.load(gate + size, mask=valid, other=0.0)
    g = tl.load(gate + 2 * size, mask=valid, other=0.0)
    o = tl.load(gate + 3 * size, mask=valid, other=0.0)
    if has_bias:
        i += tl.load(bias + d, mask=valid, other=0.0)
        f += tl.load(bias + size + d, mask=valid, other=0.0)
        g += tl.load(bias + 2 * size + d, mask=valid, other=0.0)
        o += tl.load(bias + 3 * size + d, mask=valid, other=0.0)
    i, f, g, o = tl.sigmoid(i), tl.sigmoid(f), tanh(g), tl.sigmoid(o)
    c = f * tl.load(cells_before + e, mask=valid, other=0.0) + i * g
    h = o * tanh(c)
    tl.store(gate, i, mask=valid)
    tl.store(gate + size, f, mask=valid)
    tl.store(gate + 2 * size, g, mask=valid)
    tl.store(gate + 3 * size, o, mask=valid)
    tl.store(cells + e, c, mask=valid)
    if has_states:
        tl.store(states + n * state_stride + d, h, mask=valid)
    if drops:
        h = tl.where(is_kept(seeds, counter + e, threshold), h * factor, 0.0)
    tl.store(outputs + n * output_stride + d, h, mask=valid)


@triton.jit
def _backward(  # type: ignore[no-untyped-def]
    gates, cells_before, cells, d_outputs, d_states, d_cells, d_cells_out, seeds, count, size, output_stride,
    state_stride, counter, threshold, factor, has_cells_out: tl.constexpr, drops: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """``d_x`` is the gradient of x; that of the gates replaces them, that of c_{t−1} that of c_t in ``d_cells``."""
    e = tl.program_id(0) * block + tl.arange(0, block)
    valid = e < count
    n, d = e // size, e % size
    gate = gates + n * 4 * size + d
    i = tl.load(gate, mask=valid, other=0.0)
    f = tl.load(gate + size, mask=valid, other=0.0)
    g = tl.load(gate + 2 * size, mask=valid, other=0.0)
    o = tl.load(gate + 3 * size, mask=valid, other=0.0)
    dh = tl.load(d_outputs + n * output_stride + d, mask=valid, other=0.0)
    if drops:
        dh = tl.where(is_kept(seeds, counter + e, threshold), dh * factor, 0.0)
    dh += tl.load(d_states + n * state_stride + d, mask=valid, other=0.0)
    tanh_c = tanh(tl.load(cells + e, mask=valid, other=0.0))
    dc = tl.load(d_cells + e, mask=valid, other=0.0) + dh * o * (1.0 - tanh_c * tanh_c)
    if has_cells_out:
        dc += tl.load(d_cells_out + e, mask=valid, other=0.0)
    tl.store(d_cells + e, dc * f, mask=valid)
    tl.store(gate, dc * g * i * (1.0 - i), mask=valid)
    tl.store(gate + size, dc * tl.load(cells_before + e, mask=valid, other=0.0) * f * (1.0 - f), mask=valid)
    tl.store(gate + 2 * size, dc * i * (1.0 - g * g), mask=valid)
    tl.store(gate + 3 * size, dh * tanh_c * o * (1.0 - o), mask=valid)


class StepDropout(NamedTuple):
    """The dropout of one time step: value e of it has the number ``counter + e``."""

    seeds: Tensor
    counter: int
    probability: float

    @property
    def options(self) -> tuple[int, int, float]:
        return self.counter, round(self.probability * 65_536), 1.0 / (1.0 - self.probability)


def _dropout_options(dropout: StepDropout | None) -> tuple[int, int, float]:
    return (0, 0, 1.0) if dropout is None else dropout.options


def cell_forward(
    gates_BG: Tensor,
    cells_before_BD: Tensor,
    cells_BD: Tensor,
    outputs_BD: Tensor,
    *,
    bias_G: Tensor | None = None,
    states_BD: Tensor | None = None,
    dropout: StepDropout | None = None,
) -> None:
    """One step: c_t to ``cells_BD``, h_t to ``outputs_BD``, with dropout, and to ``states_BD``, without."""
    count, size = cells_BD.numel(), cells_BD.shape[-1]
    _forward[(triton.cdiv(count, BLOCK),)](
        gates_BG, gates_BG if bias_G is None else bias_G, cells_before_BD, cells_BD,
        outputs_BD if states_BD is None else states_BD, outputs_BD, gates_BG if dropout is None else dropout.seeds,
        count, size, 0 if states_BD is None else states_BD.stride(0), outputs_BD.stride(0), *_dropout_options(dropout),
        has_bias=bias_G is not None, has_states=states_BD is not None, drops=dropout is not None, block=BLOCK,
    )  # fmt: skip


def cell_backward(
    gates_BG: Tensor,
    cells_before_BD: Tensor,
    cells_BD: Tensor,
    d_outputs_BD: Tensor,
    d_states_BD: Tensor,
    d_cells_BD: Tensor,
    *,
    d_cells_out_BD: Tensor | None = None,
    dropout: StepDropout | None = None,
) -> None:
    """One step back: the gates become their gradients, the gradient of c_t that of c_{t−1}."""
    count, size = cells_BD.numel(), cells_BD.shape[-1]
    _backward[(triton.cdiv(count, BLOCK),)](
        gates_BG, cells_before_BD, cells_BD, d_outputs_BD, d_states_BD, d_cells_BD,
        d_cells_BD if d_cells_out_BD is None else d_cells_out_BD, gates_BG if dropout is None else dropout.seeds,
        count, size, d_outputs_BD.stride(0), d_states_BD.stride(0), *_dropout_options(dropout),
        has_cells_out=d_cells_out_BD is not None, drops=dropout is not None, block=BLOCK,
    )  # fmt: skip


class _PaddedLSTM(torch.autograd.Function):
    """(T, K, B, 4D), U (K, 4D, D), h_0 and c_0 (K, B, D) -> h_t and c_t (T, K, B, D), K: directions."""

    @staticmethod
    def forward(
        ctx: Any, input_TKBG: Tensor, state_KGD: Tensor, state_KBD: Tensor, cell_KBD: Tensor
    ) -> tuple[Tensor, Tensor]:
        times, directions, batch, _ = input_TKBG.shape
        size = state_KBD.shape[-1]
        gates_TKBG = input_TKBG.clone(memory_format=torch.contiguous_format)
        states_TKBD = gates_TKBG.new_empty(times, directions, batch, size)
        cells_TKBD = torch.empty_like(states_TKBD)
        state_KDG = state_KGD.transpose(1, 2)
        before_KBD, cell_before_KBD = state_KBD, cell_KBD.contiguous()
        for gates, states, cells in zip(gates_TKBG, states_TKBD, cells_TKBD, strict=True):
            torch.baddbmm(gates, before_KBD, state_KDG, out=gates)
            cell_forward(gates, cell_before_KBD, cells, states.flatten(0, 1))
            before_KBD, cell_before_KBD = states, cells
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(gates_TKBG, states_TKBD, cells_TKBD, state_KGD, state_KBD, cell_KBD)
        return states_TKBD, cells_TKBD

    @staticmethod
    def backward(ctx: Any, d_states_TKBD: Tensor | None, d_cells_TKBD: Tensor | None) -> tuple[Tensor, ...]:
        gates_TKBG, states_TKBD, cells_TKBD, state_KGD, state_KBD, cell_KBD = ctx.saved_tensors
        zeros_KBD = torch.zeros_like(cell_KBD, memory_format=torch.contiguous_format)
        d_state_KBD, d_cell_KBD = torch.zeros_like(zeros_KBD), torch.zeros_like(zeros_KBD)
        d_cells = None if d_cells_TKBD is None else d_cells_TKBD.contiguous()
        d_states = None if d_states_TKBD is None else d_states_TKBD.contiguous()
        for time in reversed(range(len(gates_TKBG))):
            gates = gates_TKBG[time]
            cell_backward(
                gates,
                cells_TKBD[time - 1] if time else cell_KBD.contiguous(),
                cells_TKBD[time],
                (zeros_KBD if d_states is None else d_states[time]).flatten(0, 1),
                d_state_KBD.flatten(0, 1),
                d_cell_KBD,
                d_cells_out_BD=None if d_cells is None else d_cells[time],
            )
            torch.bmm(gates, state_KGD, out=d_state_KBD)
        before_TKBD = torch.cat([state_KBD[None], states_TKBD[:-1]])
        gradients_KNG, before_KND = (part.transpose(0, 1).flatten(1, 2) for part in (gates_TKBG, before_TKBD))
        return gates_TKBG, gradients_KNG.transpose(1, 2) @ before_KND, d_state_KBD, d_cell_KBD


def padded_lstm(input_TKBG: Tensor, state_KGD: Tensor, state_KBD: Tensor, cell_KBD: Tensor) -> tuple[Tensor, Tensor]:
    """h_t and c_t (T, K, B, D) of K directions; ``input_TKBG``: W x_t + b, each direction in its own order."""
    states_TKBD, cells_TKBD = _PaddedLSTM.apply(input_TKBG, state_KGD, state_KBD, cell_KBD)
    return states_TKBD, cells_TKBD
