"""Output layer and loss in one, a chunk of rows at a time, so that all logits never exist together.

`output_loss` equals `weft.training.loss.output_loss`. It computes the gradients in the forward pass, while a chunk's
logits exist; the backward pass only scales them:

    cross-entropy     d loss / d logits = p − (1 − ε) [v = y] − ε/V
    1.5-entmax loss   d loss / d scores = p − [v = y],    p = [z/2 − τ]₊²

`vocabulary_log_probabilities` equals that of `weft.models.copying`. There every target has its own gradient, which is
known only in the backward pass; so the logits of a chunk are computed again:

    log p(y) = z_y − log Σ_v exp z_v           u = mean_v log p(v)
    d loss / d z_v = g [v = y] + h / V − (g + h) p(v)         g = d loss / d log p(y),  h = d loss / d u

`emission_chunk` is `weft.models.hard_attention.chunk_values` on a GPU, which has memory for larger chunks.

Test: tests/fast/updating/test_chunked_loss.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import torch
from torch import Tensor

from weft.models.layers import Output
from weft.training.loss import IGNORE_INDEX, Loss

CHUNK_LOGITS = {"cpu": 1 << 22, "cuda": 1 << 27}
"""Logits that exist at a time, in single precision."""
CHUNK_SCORES = {"cpu": 1 << 20, "cuda": 1 << 25}
"""Scores of 1.5-entmax that exist at a time."""

CHUNK_EMISSIONS = 1 << 28
"""Values of the emissions of hard attention that exist at a time on a GPU."""

ROW_ALIGNMENT = 16
"""Row alignment on a CPU: the rows of a chunk begin at multiples of this many numbers, beyond the last logit of the row
before.

Where rows begin anywhere, as they do if the size of the vocabulary is odd, the product that computes the logits takes
half as long again (AVX2: 54 instead of 82 GFLOP/s for 526 × 256 by 256 × 7969).
"""
MIN_PADDED_VOCABULARY = 256
"""The vocabulary size below which padding gains nothing."""

ITERATIONS = 9
"""Iterations of Newton's method for the threshold of 1.5-entmax."""


def is_on_gpu(states_ND: Tensor) -> bool:
    return states_ND.is_cuda


def emission_chunk(states_ND: Tensor) -> int:
    return CHUNK_EMISSIONS


def has_chunked_loss(output: Output, states_ND: Tensor, targets_N: Tensor, *, smoothing: float) -> bool:
    """Whether a loss is computed in chunks: on a CPU, cross-entropy is if no target is to be ignored."""
    if output.loss == "entmax15":
        return True
    return output.loss == "cross_entropy" and (states_ND.is_cuda or bool((targets_N != IGNORE_INDEX).all()))


def output_loss(output: Output, states_ND: Tensor, targets_N: Tensor, *, smoothing: float) -> Loss:
    """The loss that an output layer is trained by, summed over the targets."""
    layer = states_ND, output.weight_VD, output.bias_V
    if output.loss == "cross_entropy":
        return Loss(*cast("tuple[Tensor, Tensor]", _CrossEntropy.apply(*layer, targets_N, smoothing)))
    loss: Tensor = _EntmaxLoss.apply(*layer, targets_N)
    return Loss(loss, loss.detach())


def is_trained(output: Output, states_ND: Tensor, targets_N: Tensor, *, mean: bool) -> bool:
    """Whether there are gradients to compute. An output layer with eight-bit products has no matrix."""
    return torch.is_grad_enabled()


def vocabulary_log_probabilities(
    output: Output, states_ND: Tensor, targets_N: Tensor, *, mean: bool
) -> tuple[Tensor, Tensor | None]:
    """log p(y) of every target, and with ``mean`` the mean of log p(v) over the vocabulary; in float32 at least."""
    layer = states_ND, output.weight_VD, output.bias_V
    log_p_N, mean_N = cast("tuple[Tensor, Tensor]", _LogProbabilities.apply(*layer, targets_N, mean))
    return log_p_N, mean_N if mean else None


class _ChunkedOutput:
    """The output layer on a chunk of rows at a time, in the precision of the states; and its gradients, added up."""

    def __init__(self, states_ND: Tensor, weight_VD: Tensor, bias_V: Tensor, chunk_logits: int) -> None:
        self.states_ND, self.weight_VD, self.bias_V = states_ND, weight_VD, bias_V
        self.cast_weight_VD, self.cast_bias_V = weight_VD.to(states_ND.dtype), bias_V.to(states_ND.dtype)
        self.chunk_rows = max(chunk_logits // len(bias_V), 1)

    def chunks(self) -> Iterator[slice]:
        """The rows of each chunk."""
        for start in range(0, len(self.states_ND), self.chunk_rows):
            yield slice(start, min(start + self.chunk_rows, len(self.states_ND)))

    def logits(self, rows: slice, out: Tensor | None = None) -> Tensor:
        """(C, V) W h + b"""
        with torch.autocast(self.states_ND.device.type, enabled=False):
            return torch.addmm(self.cast_bias_V, self.states_ND[rows], self.cast_weight_VD.t(), out=out)

    def zero_gradients(self) -> None:
        self.states_grad_ND = torch.empty_like(self.states_ND)
        self.weight_grad_VD, self.bias_grad_V = torch.zeros_like(self.weight_VD), torch.zeros_like(self.bias_V)

    def add_gradients(self, rows: slice, grad_CV: Tensor, *, in_product: bool = False) -> None:
        """Add what the gradient of a chunk's logits gives.

        ``in_product``: the product for the matrix is added by the matrix multiplication itself, and not rounded before.
        """
        self.bias_grad_V += grad_CV.sum(0)
        grad_CV, states_CD, total_VD = grad_CV.to(self.states_ND.dtype), self.states_ND[rows], self.weight_grad_VD
        with torch.autocast(self.states_ND.device.type, enabled=False):
            torch.mm(grad_CV, self.cast_weight_VD, out=self.states_grad_ND[rows])
            if in_product and states_CD.dtype == total_VD.dtype:
                total_VD.addmm_(grad_CV.t(), states_CD)
            elif in_product and states_CD.is_cuda:
                torch.addmm(total_VD, grad_CV.t(), states_CD, total_VD.dtype, out=total_VD)
            else:
                total_VD += torch.mm(grad_CV.t(), states_CD)

    def gradients(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.states_grad_ND, self.weight_grad_VD, self.bias_grad_V


class _CrossEntropy(torch.autograd.Function):
    """The smoothed loss, and the negative log-likelihood without gradient."""

    @staticmethod
    def forward(
        ctx: Any, states_ND: Tensor, weight_VD: Tensor, bias_V: Tensor, targets_N: Tensor, smoothing: float
    ) -> tuple[Tensor, Tensor]:
        vocabulary, device_type = len(bias_V), states_ND.device.type
        layer = _ChunkedOutput(states_ND, weight_VD, bias_V, CHUNK_LOGITS[device_type])
        if states_ND.is_cuda and states_ND.dtype != torch.float32:
            layer.chunk_rows *= 2  # in as much memory
        layer.zero_gradients()
        likelihood, uniform = bias_V.new_zeros(()), bias_V.new_zeros(())
        buffer_CP = states_ND.new_empty(min(layer.chunk_rows, len(states_ND)), _padded_width(vocabulary, device_type))
        for rows in layer.chunks():
            padded_CP = buffer_CP[: rows.stop - rows.start]
            grad_CV = layer.logits(rows, out=padded_CP[:, :vocabulary])
            chunk_likelihood, chunk_uniform = _losses_and_gradient(padded_CP, vocabulary, targets_N[rows], smoothing)
            likelihood += chunk_likelihood
            uniform += chunk_uniform
            layer.add_gradients(rows, grad_CV, in_product=True)
        ctx.save_for_backward(*layer.gradients())
        ctx.mark_non_differentiable(likelihood)
        return (1 - smoothing) * likelihood + smoothing * uniform, likelihood

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, unused: Tensor) -> tuple[Tensor | None, ...]:
        return (*(part * gradient for part in ctx.saved_tensors), None, None)


class _EntmaxLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states_ND: Tensor, weight_VD: Tensor, bias_V: Tensor, targets_N: Tensor) -> Tensor:
        layer = _ChunkedOutput(states_ND, weight_VD, bias_V, CHUNK_SCORES[states_ND.device.type])
        layer.zero_gradients()
        loss = bias_V.new_zeros(())
        for rows in layer.chunks():
            chunk_loss, grad_CV = _entmax_loss_and_gradient(layer.logits(rows), targets_N[rows])
            loss += chunk_loss
            layer.add_gradients(rows, grad_CV)
        ctx.save_for_backward(*layer.gradients())
        return loss

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return (*(part * gradient for part in ctx.saved_tensors), None)


class _LogProbabilities(torch.autograd.Function):
    """log p(y), and the mean of log p(v); logits are computed again in the backward pass."""

    @staticmethod
    def forward(
        ctx: Any, states_ND: Tensor, weight_VD: Tensor, bias_V: Tensor, targets_N: Tensor, mean: bool
    ) -> tuple[Tensor, Tensor]:
        layer = _ChunkedOutput(states_ND, weight_VD, bias_V, CHUNK_LOGITS[states_ND.device.type])
        single = torch.promote_types(states_ND.dtype, torch.float32)
        log_p_N, mean_N, log_sum_N = states_ND.new_zeros(3, len(states_ND), dtype=single)
        for rows in layer.chunks():
            logits_CV = layer.logits(rows).to(single)
            log_sum_N[rows] = logits_CV.logsumexp(-1)
            log_p_N[rows] = logits_CV.gather(1, targets_N[rows, None])[:, 0] - log_sum_N[rows]
            if mean:
                mean_N[rows] = logits_CV.mean(-1) - log_sum_N[rows]
        ctx.save_for_backward(states_ND, weight_VD, bias_V, targets_N, log_sum_N)
        ctx.mean = mean
        if not mean:
            ctx.mark_non_differentiable(mean_N)
        return log_p_N, mean_N

    @staticmethod
    def backward(ctx: Any, grad_N: Tensor, mean_grad_N: Tensor) -> tuple[Tensor | None, ...]:
        states_ND, weight_VD, bias_V, targets_N, log_sum_N = ctx.saved_tensors
        layer = _ChunkedOutput(states_ND, weight_VD, bias_V, CHUNK_LOGITS[states_ND.device.type])
        layer.zero_gradients()
        total_N = grad_N + mean_grad_N if ctx.mean else grad_N
        for rows in layer.chunks():
            logits_CV = layer.logits(rows).to(log_sum_N.dtype)
            grad_CV = logits_CV.sub_(log_sum_N[rows, None]).exp_().mul_(-total_N[rows, None])
            if ctx.mean:
                grad_CV += mean_grad_N[rows, None] / len(bias_V)
            grad_CV.scatter_add_(1, targets_N[rows, None], grad_N[rows, None])
            layer.add_gradients(rows, grad_CV)
        return (*layer.gradients(), None, None)


# Cross-entropy


def _padded_width(vocabulary: int, device_type: str) -> int:
    """The width of a row of logits with its padding."""
    if device_type != "cpu" or vocabulary < MIN_PADDED_VOCABULARY:
        return vocabulary
    return (vocabulary // ROW_ALIGNMENT + 1) * ROW_ALIGNMENT


def _losses_and_gradient(
    padded_CP: Tensor, vocabulary: int, targets_C: Tensor, smoothing: float
) -> tuple[Tensor, Tensor]:
    """Σ −log p(y) and Σ −mean log p(v) over the rows; the logits, which come first, are overwritten with the gradient.

    What follows the logits in ``padded_CP`` means nothing.
    """
    if padded_CP.is_cuda:
        from weft.fast.triton.cross_entropy import losses_and_gradient

        return losses_and_gradient(padded_CP, targets_C, smoothing)
    targets_C1 = targets_C[:, None]
    is_half = padded_CP.dtype in (torch.float16, torch.bfloat16)
    padded_CP[:, vocabulary:] = float("-inf")  # p = 0
    grad_CP = padded_CP.float() if is_half else padded_CP  # sums in single precision at least
    max_C = grad_CP.amax(-1)
    target_logits_C1 = grad_CP.gather(1, targets_C1)
    mean_C = grad_CP[:, :vocabulary].mean(-1) if smoothing else None
    torch.softmax(grad_CP, -1, out=grad_CP)
    log_sum_C = max_C - grad_CP.amax(-1).log()  # log Σ exp(logits): the largest p is exp(max) / Σ exp
    likelihood = (log_sum_C - target_logits_C1[:, 0]).sum()
    uniform = torch.zeros_like(likelihood)
    if mean_C is not None:
        uniform = (log_sum_C - mean_C).sum()
        grad_CP -= smoothing / vocabulary
    grad_CP.scatter_add_(1, targets_C1, grad_CP.new_full(targets_C1.shape, smoothing - 1))
    if is_half:
        padded_CP.copy_(grad_CP)
    return likelihood, uniform


# 1.5-entmax


def _entmax_loss_and_gradient(scores_CV: Tensor, targets_C: Tensor) -> tuple[Tensor, Tensor]:
    """Σ (p − e_y)ᵀz + H(p) over the rows, and p − e_y in the precision of the scores."""
    is_half = scores_CV.dtype in (torch.float16, torch.bfloat16)
    single_CV = scores_CV.float() if is_half else scores_CV  # sums in single precision at least
    counts_C1 = (targets_C >= 0)[:, None].to(single_CV.dtype)
    targets_C1 = targets_C.clamp(min=0)[:, None]
    shifted_CV = (single_CV - single_CV.amax(-1, keepdim=True)) * 0.5
    roots_CV = _roots(shifted_CV)
    grad_CV = roots_CV.square()
    # Σ p z + (4/3) Σ (p − p^1.5) = Σ p (z + 4/3 (1 − √p)), less z_y; z and z_y less the largest score
    losses_C1 = (grad_CV * (2 * shifted_CV + (1 - roots_CV) * (4 / 3))).sum(-1, keepdim=True)
    losses_C1 -= 2 * shifted_CV.gather(1, targets_C1)
    grad_CV.scatter_add_(1, targets_C1, -torch.ones_like(counts_C1)).mul_(counts_C1)
    return (losses_C1 * counts_C1).sum(), grad_CV.to(scores_CV.dtype)


def _roots(shifted_CV: Tensor) -> Tensor:
    """√p = [s − τ]₊ of halved scores s = z/2 − max z/2, whose largest is 0.

    The threshold τ is found without sorting. With r(τ) = ‖[s − τ]₊‖₂, it is the root of r(τ) = 1 between −1 and 0. r is
    convex and falls, so Newton's method from −1 approaches the root from below and never passes it:

        τ ← τ + (r − 1) r / Σ [s − τ]₊

    It is exact after one step where all scores are equal or one is far above the others, and after `ITERATIONS` to
    rounding for every distribution that was tried. Their number is fixed: nothing waits for a GPU, so that an update
    can be captured in a CUDA graph, and a row does not depend on the others.
    """
    threshold_C1 = torch.full_like(shifted_CV[:, :1], -1.0)
    above_CV = torch.empty_like(shifted_CV)
    for _ in range(ITERATIONS):
        torch.sub(shifted_CV, threshold_C1, out=above_CV).clamp_(min=0)
        norm_C1 = torch.linalg.vector_norm(above_CV, dim=-1, keepdim=True)
        threshold_C1 += (norm_C1 - 1) * norm_C1 / above_CV.sum(-1, keepdim=True)
    return torch.sub(shifted_CV, threshold_C1, out=above_CV).clamp_(min=0)
