"""GRU layers over padded batches on CUDA, with their backward pass written out.

Plain counterpart: `weft.fast.layers.recurrent._padded_layer` for GRU cells, both directions together. Tested in
tests/fast/triton/test_gru.py.

    r, z = σ(x + u);    n = tanh(x + r ⊙ u);    h_t = (1 − z) ⊙ n + z ⊙ h_{t−1}       x = W x_t + b, u = U h_{t−1} + b′

A time step is one product and one kernel, in both passes; by PyTorch's operations it is ten and twenty. Of two
buffers, x is overwritten with r, z, n, and u of n with itself and its bias; then both with their gradients, from which
those of U and b′ are one product and one sum after the last step. First-order gradients only, and one backward pass.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from weft.fast.triton.lstm import tanh

BLOCK = 256


@triton.jit
def _forward(  # type: ignore[no-untyped-def]
    inputs, products, bias, before, states, count, size, rows, block: tl.constexpr
):  # fmt: skip
    """``rows``: of each direction, which has its own bias."""
    e = tl.program_id(0) * block + tl.arange(0, block)
    valid = e < count
    n, d = e // size, e % size
    x, u, b = inputs + n * 3 * size + d, products + n * 3 * size + d, bias + n // rows * 3 * size + d
    r = tl.load(x, mask=valid, other=0.0) + tl.load(u, mask=valid, other=0.0) + tl.load(b, mask=valid, other=0.0)
    z = tl.load(x + size, mask=valid, other=0.0) + tl.load(u + size, mask=valid, other=0.0)
    z += tl.load(b + size, mask=valid, other=0.0)
    u_n = tl.load(u + 2 * size, mask=valid, other=0.0) + tl.load(b + 2 * size, mask=valid, other=0.0)
    r, z = tl.sigmoid(r), tl.sigmoid(z)
    new = tanh(tl.load(x + 2 * size, mask=valid, other=0.0) + r * u_n)
    h = tl.load(before + e, mask=valid, other=0.0)
    tl.store(x, r, mask=valid)
    tl.store(x + size, z, mask=valid)
    tl.store(x + 2 * size, new, mask=valid)
    tl.store(u + 2 * size, u_n, mask=valid)
    tl.store(states + e, new + z * (h - new), mask=valid)


@triton.jit
def _backward(  # type: ignore[no-untyped-def]
    inputs, products, before, d_outputs, d_states, count, size, block: tl.constexpr
):  # fmt: skip
    """``d_outputs``: the gradient of h_t as an output; ``d_states``: that by the step after, which becomes the part of
    that of h_{t−1} that does not pass the product."""
    e = tl.program_id(0) * block + tl.arange(0, block)
    valid = e < count
    n, d = e // size, e % size
    x, u = inputs + n * 3 * size + d, products + n * 3 * size + d
    r = tl.load(x, mask=valid, other=0.0)
    z = tl.load(x + size, mask=valid, other=0.0)
    new = tl.load(x + 2 * size, mask=valid, other=0.0)
    u_n = tl.load(u + 2 * size, mask=valid, other=0.0)
    h = tl.load(before + e, mask=valid, other=0.0)
    dh = tl.load(d_outputs + e, mask=valid, other=0.0) + tl.load(d_states + e, mask=valid, other=0.0)
    dz = dh * (h - new) * z * (1.0 - z)
    dn = dh * (1.0 - z) * (1.0 - new * new)
    dr = dn * u_n * r * (1.0 - r)
    tl.store(x, dr, mask=valid)
    tl.store(x + size, dz, mask=valid)
    tl.store(x + 2 * size, dn, mask=valid)
    tl.store(u, dr, mask=valid)
    tl.store(u + size, dz, mask=valid)
    tl.store(u + 2 * size, dn * r, mask=valid)
    tl.store(d_states + e, dh * z, mask=valid)


class _PaddedGRU(torch.autograd.Function):
    """(T, K, B, 3D), U (K, 3D, D), b′ (K, 3D), h_0 (K, B, D) -> h_t (T, K, B, D), K: directions."""

    @staticmethod
    def forward(ctx: Any, input_TKBG: Tensor, state_KGD: Tensor, bias_KG: Tensor, state_KBD: Tensor) -> Tensor:
        times, directions, batch, gates = input_TKBG.shape
        size = gates // 3
        inputs_TKBG = input_TKBG.clone(memory_format=torch.contiguous_format)
        products_TKBG = torch.empty_like(inputs_TKBG)
        states_TKBD = inputs_TKBG.new_empty(times, directions, batch, size)
        state_KDG, bias_KG, start_KBD = state_KGD.transpose(1, 2), bias_KG.contiguous(), state_KBD.contiguous()
        before_KBD, count = start_KBD, start_KBD.numel()
        for inputs, products, states in zip(inputs_TKBG, products_TKBG, states_TKBD, strict=True):
            torch.bmm(before_KBD, state_KDG, out=products)
            _forward[(triton.cdiv(count, BLOCK),)](
                inputs, products, bias_KG, before_KBD, states, count, size, batch, block=BLOCK
            )
            before_KBD = states
        ctx.save_for_backward(inputs_TKBG, products_TKBG, states_TKBD, state_KGD, start_KBD)
        return states_TKBD

    @staticmethod
    def backward(ctx: Any, d_states_TKBD: Tensor) -> tuple[Tensor, ...]:
        inputs_TKBG, products_TKBG, states_TKBD, state_KGD, start_KBD = ctx.saved_tensors
        d_states_TKBD, d_state_KBD = d_states_TKBD.contiguous(), torch.zeros_like(start_KBD)
        count, size = start_KBD.numel(), start_KBD.shape[-1]
        for time in reversed(range(len(inputs_TKBG))):
            before_KBD = states_TKBD[time - 1] if time else start_KBD
            _backward[(triton.cdiv(count, BLOCK),)](
                inputs_TKBG[time], products_TKBG[time], before_KBD, d_states_TKBD[time], d_state_KBD, count, size,
                block=BLOCK,
            )  # fmt: skip
            torch.baddbmm(d_state_KBD, products_TKBG[time], state_KGD, out=d_state_KBD)
        before_TKBD = torch.cat([start_KBD[None], states_TKBD[:-1]])
        gradients_KNG, before_KND = (part.transpose(0, 1).flatten(1, 2) for part in (products_TKBG, before_TKBD))
        d_weights_KGD, d_bias_KG = gradients_KNG.transpose(1, 2) @ before_KND, gradients_KNG.sum(1)
        return inputs_TKBG, d_weights_KGD, d_bias_KG, d_state_KBD


def padded_gru(input_TKBG: Tensor, state_KGD: Tensor, bias_KG: Tensor, state_KBD: Tensor) -> Tensor:
    """h_t (T, K, B, D) of K directions; ``input_TKBG``: W x_t + b, each direction in its own order."""
    states_TKBD: Tensor = _PaddedGRU.apply(input_TKBG, state_KGD, bias_KG, state_KBD)
    return states_TKBD
