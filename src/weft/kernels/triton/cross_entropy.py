"""Cross-entropy on a GPU: one kernel reads a row of logits twice, and leaves its gradient in their place.

Loaded only where there is a GPU; training/loss.py says what is computed, and is what this is tested against.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 4096


@triton.jit
def _row(  # type: ignore[no-untyped-def]
    logits, targets, likelihoods, uniforms, stride, vocabulary, smoothing, block: tl.constexpr
):
    """One row: −log p(y), −mean log p(v), and p − (1 − ε) [v = y] − ε/V in the logits' place."""
    row = tl.program_id(0).to(tl.int64)
    target = tl.load(targets + row)
    start = logits + row * stride
    offsets = tl.arange(0, block)
    top = tl.full((), float("-inf"), tl.float32)
    powers = tl.zeros((), tl.float32)
    total = tl.zeros((), tl.float32)
    chosen = tl.zeros((), tl.float32)
    for first in range(0, vocabulary, block):
        places = first + offsets
        inside = places < vocabulary
        values = tl.load(start + places, mask=inside, other=float("-inf")).to(tl.float32)
        higher = tl.maximum(top, tl.max(values, 0))
        powers = powers * tl.exp(top - higher) + tl.sum(tl.exp(values - higher), 0)
        top = higher
        total += tl.sum(tl.where(inside, values, 0.0), 0)
        chosen += tl.sum(tl.where(places == target, values, 0.0), 0)
    log_sum = top + tl.log(powers)
    counts = target >= 0
    tl.store(likelihoods + row, tl.where(counts, log_sum - chosen, 0.0))
    tl.store(uniforms + row, tl.where(counts, log_sum - total / vocabulary, 0.0))
    for first in range(0, vocabulary, block):
        places = first + offsets
        inside = places < vocabulary
        values = tl.load(start + places, mask=inside, other=float("-inf")).to(tl.float32)
        gradient = tl.exp(values - log_sum) - smoothing / vocabulary
        gradient = tl.where(places == target, gradient - (1.0 - smoothing), gradient)
        gradient = tl.where(counts, gradient, 0.0)
        tl.store(start + places, gradient.to(logits.dtype.element_ty), mask=inside)


def losses_and_gradient(logits_CV: Tensor, targets_C: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Σ −log p(y) and Σ −mean log p(v) over the rows; ``logits_CV`` becomes the gradient."""
    likelihoods, uniforms = (torch.empty(len(logits_CV), device=logits_CV.device) for _ in range(2))
    _row[(len(logits_CV),)](
        logits_CV,
        targets_C,
        likelihoods,
        uniforms,
        logits_CV.stride(0),
        logits_CV.shape[1],
        smoothing,
        block=BLOCK,
        num_warps=8,
    )
    return likelihoods.sum(), uniforms.sum()
