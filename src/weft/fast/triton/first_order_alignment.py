"""Hard attention of first order over whole targets on CUDA: one kernel for all steps of a pass.

Plain counterpart: `weft.attention.hard_alignment.HardAlignment.forward` for `First`. Tested in
tests/fast/triton/test_first_order_alignment.py.

    w_t(j) = log Σ_δ exp(f_{t−1}(j − δ) + p_t(j − δ, δ)),    f_t = w_t + e_t − log Σ_j exp(w_t(j) + e_t(j))

all in log space: w_t the weights before y_t is known, f_t those after, p_t(i, δ) the transitions by δ positions, e_t
the emissions. A program has one row, and writes f_t for the next step, whose positions it reads shifted. By PyTorch's
operations a step is forty launches forwards and as many backwards, each of which takes longer than what it computes.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _log_sum(values):  # type: ignore[no-untyped-def]
    """The logarithm of the sum of the exponentials; −∞ if all values are."""
    top = tl.max(values, 0)
    top = tl.where(top == float("-inf"), 0.0, top)
    return tl.log(tl.sum(tl.exp(values - top), 0)) + top


@triton.jit
def _forward(  # type: ignore[no-untyped-def]
    transitions, emissions, weights, filtered, times, positions,
    width: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """``filtered``: f_{t−1} at step t."""
    row = tl.program_id(0).to(tl.int64)
    j = tl.arange(0, block)
    valid = j < positions
    tl.store(filtered + row * times * positions + j, tl.where(j == 0, 0.0, float("-inf")), mask=valid)
    for time in range(0, times):
        start = (row * times + time) * positions
        tl.debug_barrier()
        top = tl.full([block], float("-inf"), tl.float32)
        for jump in tl.static_range(0, width):
            i = j - jump
            inside = valid & (i >= 0)
            before = tl.load(filtered + start + i, mask=inside, other=float("-inf"))
            moved = before + tl.load(transitions + (start + i) * width + jump, mask=inside, other=float("-inf"))
            top = tl.maximum(top, moved)
        top = tl.where(top == float("-inf"), 0.0, top)
        total = tl.zeros([block], tl.float32)
        for jump in tl.static_range(0, width):
            i = j - jump
            inside = valid & (i >= 0)
            before = tl.load(filtered + start + i, mask=inside, other=float("-inf"))
            moved = before + tl.load(transitions + (start + i) * width + jump, mask=inside, other=float("-inf"))
            total += tl.exp(moved - top)
        weight = tl.log(total) + top
        tl.store(weights + start + j, weight, mask=valid)
        joint = weight + tl.load(emissions + start + j, mask=valid, other=float("-inf"))
        after = joint - _log_sum(joint)
        if time + 1 < times:
            tl.store(filtered + start + positions + j, after, mask=valid)


@triton.jit
def _backward(  # type: ignore[no-untyped-def]
    transitions, emissions, weights, filtered, d_weights, d_transitions, d_emissions, times, positions,
    width: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """``d_weights``: the gradients of w_t, which are overwritten with those of all that follows from w_t.

    No gradient passes through what is impossible.
    """
    row = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, block)
    valid = i < positions
    d_filtered = tl.zeros([block], tl.float32)
    for back in range(0, times):
        start = (row * times + times - 1 - back) * positions
        weight = tl.load(weights + start + i, mask=valid, other=float("-inf"))
        joint = weight + tl.load(emissions + start + i, mask=valid, other=float("-inf"))
        probability = tl.exp(joint - _log_sum(joint))
        d_joint = d_filtered - probability * tl.sum(d_filtered, 0)
        tl.store(d_emissions + start + i, d_joint, mask=valid)
        d_weight = tl.load(d_weights + start + i, mask=valid, other=0.0) + d_joint
        tl.store(d_weights + start + i, tl.where(weight == float("-inf"), 0.0, d_weight), mask=valid)
        tl.debug_barrier()
        before = tl.load(filtered + start + i, mask=valid, other=float("-inf"))
        d_filtered = tl.zeros([block], tl.float32)
        for jump in tl.static_range(0, width):
            inside = valid & (i + jump < positions)
            moved = before + tl.load(transitions + (start + i) * width + jump, mask=valid, other=float("-inf"))
            weight = tl.load(weights + start + i + jump, mask=inside, other=float("-inf"))
            possible = weight != float("-inf")
            share = tl.where(possible, tl.exp(moved - tl.where(possible, weight, 0.0)), 0.0)
            gradient = share * tl.load(d_weights + start + i + jump, mask=inside, other=0.0)
            tl.store(d_transitions + (start + i) * width + jump, gradient, mask=valid)
            d_filtered += gradient


class _FirstOrder(torch.autograd.Function):
    """p_t (B, T, S, w + 1), e_t (B, T, S) -> w_t (B, T, S)"""

    @staticmethod
    def forward(ctx: Any, transitions_BTSW: Tensor, emissions_BTS: Tensor) -> Tensor:
        transitions_BTSW, emissions_BTS = transitions_BTSW.contiguous(), emissions_BTS.contiguous()
        weights_BTS, filtered_BTS = torch.empty_like(emissions_BTS), torch.empty_like(emissions_BTS)
        _forward[(len(emissions_BTS),)](
            transitions_BTSW, emissions_BTS, weights_BTS, filtered_BTS, **_sizes(transitions_BTSW)
        )
        ctx.save_for_backward(transitions_BTSW, emissions_BTS, weights_BTS, filtered_BTS)
        return weights_BTS

    @staticmethod
    def backward(ctx: Any, d_weights_BTS: Tensor) -> tuple[Tensor, Tensor]:
        transitions_BTSW, emissions_BTS, weights_BTS, filtered_BTS = ctx.saved_tensors
        d_weights_BTS = d_weights_BTS.clone(memory_format=torch.contiguous_format)
        d_transitions_BTSW, d_emissions_BTS = torch.empty_like(transitions_BTSW), torch.empty_like(emissions_BTS)
        _backward[(len(emissions_BTS),)](
            transitions_BTSW, emissions_BTS, weights_BTS, filtered_BTS, d_weights_BTS, d_transitions_BTSW,
            d_emissions_BTS, **_sizes(transitions_BTSW),
        )  # fmt: skip
        return d_transitions_BTSW, d_emissions_BTS


def _sizes(transitions_BTSW: Tensor) -> dict[str, Any]:
    """The arguments of both kernels that are no tensors."""
    _, times, positions, width = transitions_BTSW.shape
    block = triton.next_power_of_2(positions)
    warps = min(max(block // 32, 1), 8)
    return {"times": times, "positions": positions, "width": width, "block": block, "num_warps": warps}


def first_order_weights(transitions_BTSW: Tensor, emissions_BTS: Tensor) -> Tensor:
    """log w_t (B, T, S) of all steps."""
    weights_BTS: Tensor = _FirstOrder.apply(transitions_BTSW, emissions_BTS)
    return weights_BTS
