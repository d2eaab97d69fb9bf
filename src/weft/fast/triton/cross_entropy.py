"""Cross-entropy and its gradient on a GPU: one kernel reads a row of logits and overwrites it with the gradient.

A row of at most `WHOLE_ROW` logits is held in registers and read once, a longer one is read twice.

Must equal the CPU branch of `weft.fast.updating.chunked_loss`, and so `weft.training.loss.cross_entropy`:
tests/contracts/test_gpu.py. Imported only if there is a GPU.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

WHOLE_ROW = 32_768
BLOCK = 4096
WARPS = 8


@triton.jit
def _row(  # type: ignore[no-untyped-def]
    logits, targets, likelihoods, uniforms, stride, vocabulary, smoothing, block: tl.constexpr
):
    """One row: −log p(y), −mean log p(v), and p − (1 − ε) [v = y] − ε/V in place of the logits."""
    row = tl.program_id(0).to(tl.int64)
    target = tl.load(targets + row)
    start = logits + row * stride
    offsets = tl.arange(0, block)
    running_max = tl.full((), float("-inf"), tl.float32)
    exp_sum = tl.zeros((), tl.float32)
    total = tl.zeros((), tl.float32)
    target_logit = tl.zeros((), tl.float32)
    for first in range(0, vocabulary, block):
        columns = first + offsets
        mask = columns < vocabulary
        values = tl.load(start + columns, mask=mask, other=float("-inf")).to(tl.float32)
        new_max = tl.maximum(running_max, tl.max(values, 0))
        exp_sum = exp_sum * tl.exp(running_max - new_max) + tl.sum(tl.exp(values - new_max), 0)
        running_max = new_max
        total += tl.sum(tl.where(mask, values, 0.0), 0)
        target_logit += tl.sum(tl.where(columns == target, values, 0.0), 0)
    log_sum = running_max + tl.log(exp_sum)
    counted = target >= 0
    tl.store(likelihoods + row, tl.where(counted, log_sum - target_logit, 0.0))
    tl.store(uniforms + row, tl.where(counted, log_sum - total / vocabulary, 0.0))
    for first in range(0, vocabulary, block):
        columns = first + offsets
        mask = columns < vocabulary
        values = tl.load(start + columns, mask=mask, other=float("-inf")).to(tl.float32)
        gradient = tl.exp(values - log_sum) - smoothing / vocabulary
        gradient = tl.where(columns == target, gradient - (1.0 - smoothing), gradient)
        gradient = tl.where(counted, gradient, 0.0)
        tl.store(start + columns, gradient.to(logits.dtype.element_ty), mask=mask)


@triton.jit
def _whole_row(  # type: ignore[no-untyped-def]
    logits, targets, likelihoods, uniforms, stride, vocabulary, smoothing, block: tl.constexpr
):
    """`_row` for a row that fits into one block."""
    row = tl.program_id(0).to(tl.int64)
    target = tl.load(targets + row)
    start = logits + row * stride
    columns = tl.arange(0, block)
    mask = columns < vocabulary
    values = tl.load(start + columns, mask=mask, other=float("-inf")).to(tl.float32)
    counted = target >= 0
    target_logit = tl.load(start + target, mask=counted, other=0.0).to(tl.float32)
    tl.debug_barrier()  # the logit of the target is read before it is overwritten
    maximum = tl.max(values, 0)
    total = tl.sum(tl.where(mask, values, 0.0), 0)
    powers = tl.exp(values - maximum)
    exp_sum = tl.sum(powers, 0)
    log_sum = maximum + tl.log(exp_sum)
    tl.store(likelihoods + row, tl.where(counted, log_sum - target_logit, 0.0))
    tl.store(uniforms + row, tl.where(counted, log_sum - total / vocabulary, 0.0))
    gradient = powers / exp_sum - smoothing / vocabulary
    gradient = tl.where(columns == target, gradient - (1.0 - smoothing), gradient)
    gradient = tl.where(counted, gradient, 0.0)
    tl.store(start + columns, gradient.to(logits.dtype.element_ty), mask=mask)


def losses_and_gradient(logits_CV: Tensor, targets_C: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Σ −log p(y) and Σ −mean log p(v) over the rows; ``logits_CV`` is overwritten with the gradient."""
    likelihoods, uniforms = (torch.empty(len(logits_CV), device=logits_CV.device) for _ in range(2))
    vocabulary = logits_CV.shape[1]
    is_whole = vocabulary <= WHOLE_ROW
    block = max(triton.next_power_of_2(vocabulary), 1024) if is_whole else BLOCK
    kernel = _whole_row if is_whole else _row
    kernel[(len(logits_CV),)](
        logits_CV,
        targets_C,
        likelihoods,
        uniforms,
        logits_CV.stride(0),
        vocabulary,
        smoothing,
        block=block,
        num_warps=block // 1024 if is_whole else WARPS,
    )
    return likelihoods.sum(), uniforms.sum()
