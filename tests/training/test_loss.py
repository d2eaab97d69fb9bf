"""Smoothed cross-entropy against its equation, against PyTorch's, and its gradient."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.nn import functional

from weft.attention.ragged_attention import ReturnAttention, alignment_weights
from weft.data.store.token_store import Batch
from weft.models.build import build_model
from weft.models.interface import HasTargetLogProbabilities, TargetLogProbabilities
from weft.models.seq2seq import Seq2Seq
from weft.ragged import Ragged
from weft.recipe import ModelSettings
from weft.text.specials import BEGIN
from weft.training.loss import IGNORE_INDEX, batch_loss, coverage_loss, cross_entropy, targets_loss

TOKENS, VOCABULARY = 5, 7
SMOOTHINGS = [0.0, 0.1, 0.5]


def given() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    return torch.randn(TOKENS, VOCABULARY) * 3, torch.tensor([3, 0, 6, 3, 1])


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_equation(smoothing: float) -> None:
    logits, targets = given()
    smoothed = likelihood = 0.0
    for row, target in zip(logits.tolist(), targets.tolist(), strict=True):
        total = sum(math.exp(x) for x in row)
        log_p = [x - math.log(total) for x in row]
        smoothed += -(1 - smoothing) * log_p[target] - smoothing / VOCABULARY * sum(log_p)
        likelihood -= log_p[target]
    found = cross_entropy(logits, targets, smoothing=smoothing)
    assert float(found.smoothed) == pytest.approx(smoothed, rel=1e-5)
    assert float(found.negative_log_likelihood) == pytest.approx(likelihood, rel=1e-5)


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_value_and_gradient_are_pytorchs(smoothing: float) -> None:
    logits, targets = given()
    ours, theirs = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    found = cross_entropy(ours, targets, smoothing=smoothing).smoothed
    expected = functional.cross_entropy(theirs, targets, label_smoothing=smoothing, reduction="sum")
    torch.testing.assert_close(found, expected)
    (found * 3).backward()
    (expected * 3).backward()
    torch.testing.assert_close(ours.grad, theirs.grad)


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_gradcheck(smoothing: float) -> None:
    logits, targets = given()
    torch.autograd.gradcheck(
        lambda x: cross_entropy(x, targets, smoothing=smoothing).smoothed, logits.double().requires_grad_()
    )


def test_the_likelihood_carries_no_gradient_and_does_not_feel_smoothing() -> None:
    logits, targets = given()
    logits.requires_grad_()
    plain, smooth = (cross_entropy(logits, targets, smoothing=smoothing) for smoothing in (0.0, 0.3))
    assert not smooth.negative_log_likelihood.requires_grad
    assert torch.equal(plain.negative_log_likelihood, smooth.negative_log_likelihood)
    assert torch.equal(plain.smoothed, plain.negative_log_likelihood)


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_large_logits_stay_finite(smoothing: float) -> None:
    logits = torch.tensor([[1e4, -1e4, 0.0], [-1e4, 1e4, 0.0]], requires_grad=True)
    loss = cross_entropy(logits, torch.tensor([0, 0]), smoothing=smoothing).smoothed
    loss.backward()
    assert bool(loss.isfinite()) and logits.grad is not None and bool(logits.grad.isfinite().all())


def test_the_logits_stay_as_they_are() -> None:
    logits, targets = given()
    kept = logits.clone()
    logits.requires_grad_()
    cross_entropy(logits, targets, smoothing=0.1).smoothed.backward()
    assert torch.equal(logits, kept)


def test_low_precision_logits_are_summed_in_single() -> None:
    logits, targets = given()
    low = logits.bfloat16().requires_grad_()
    found = cross_entropy(low, targets, smoothing=0.1)
    expected = cross_entropy(low.detach().float(), targets, smoothing=0.1)
    assert found.smoothed.dtype == torch.float32 and torch.equal(found.smoothed, expected.smoothed)
    found.smoothed.backward()
    assert low.grad is not None and low.grad.dtype == torch.bfloat16


def test_the_coverage_loss() -> None:
    """Σ_t Σ_j min(α_tj, Σ_{t' < t} α_t'j) with scalars, over the tokens of each row."""
    torch.manual_seed(3)
    weights_BTS = torch.rand(2, 4, 3, dtype=torch.float64).softmax(-1).requires_grad_()
    lengths = [4, 2]
    expected = 0.0
    for row, length in enumerate(lengths):
        covered = [0.0, 0.0, 0.0]
        for weights in weights_BTS[row, :length].tolist():
            expected += sum(min(weight, before) for weight, before in zip(weights, covered, strict=True))
            covered = [before + weight for before, weight in zip(covered, weights, strict=True)]
    real_BT = torch.arange(4) < torch.tensor(lengths)[:, None]
    loss = coverage_loss(weights_BTS, real_BT)
    assert loss.item() == pytest.approx(expected)
    [gradient_BTS] = torch.autograd.grad(loss, weights_BTS)
    assert not gradient_BTS[1, 2:].any() and gradient_BTS[0].any()


@pytest.mark.parametrize("kind", ["lstm", "transformer"])
def test_the_coverage_loss_is_part_of_a_batchs_loss(kind: str) -> None:
    stack = {"kind": kind, "hidden": 8, **({"heads": 2, "feed_forward": 8} if kind == "transformer" else {})}
    settings = ModelSettings.model_validate({"embedding": 8, "dropout": 0.0, "encoder": stack, "decoder": stack})
    model = build_model(settings, source_size=11, target_size=13).double()
    batch = Batch(Ragged.of([[3, 4, 2], [5, 2]]), Ragged.of([[3, 4, 5, 2], [7, 2]]))
    plain, covered = batch_loss(model, batch, smoothing=0.1), batch_loss(model, batch, smoothing=0.1, coverage=0.5)
    inputs = batch.target.shifted(BEGIN)
    weights_BTS = alignment_weights(model(batch.source, inputs, return_attention=True).attention, batch.source.layout)
    assert weights_BTS is not None
    added = coverage_loss(weights_BTS, ~inputs.layout.masked_BS)
    assert covered.smoothed.item() == pytest.approx(plain.smoothed.item() + 0.5 * added.item())
    assert covered.negative_log_likelihood == plain.negative_log_likelihood


class OwnProbabilities(nn.Module):
    """A model that computes the log-probabilities of targets itself, around a model with an output layer."""

    def __init__(self, inner: Seq2Seq) -> None:
        super().__init__()
        self.inner = inner

    def target_log_probabilities(
        self,
        source: Ragged,
        inputs: Ragged,
        targets_N: torch.Tensor,
        *,
        smoothing: float,
        return_attention: ReturnAttention = False,
    ) -> TargetLogProbabilities:
        output = self.inner(source, inputs, return_attention=return_attention)
        log_NV = output.logits_NV.log_softmax(-1)
        log_p_N = log_NV.gather(1, targets_N.clamp(min=0)[:, None])[:, 0]
        return TargetLogProbabilities(log_p_N, log_NV.mean(-1) if smoothing else None, output.attention)


@pytest.mark.parametrize("coverage", [0.0, 0.5])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_a_model_with_probabilities_of_its_own(smoothing: float, coverage: float) -> None:
    stack = {"kind": "lstm", "hidden": 8}
    settings = ModelSettings.model_validate({"embedding": 8, "dropout": 0.0, "encoder": stack, "decoder": stack})
    model = build_model(settings, source_size=11, target_size=13).double()
    assert isinstance(model, Seq2Seq)
    own = OwnProbabilities(model)
    assert isinstance(own, HasTargetLogProbabilities) and not isinstance(model, HasTargetLogProbabilities)
    batch = Batch(Ragged.of([[3, 4, 2], [5, 2]]), Ragged.of([[3, 4, 5, 2], [7, 2]]))
    expected = batch_loss(model, batch, smoothing=smoothing, coverage=coverage)
    loss = batch_loss(own, batch, smoothing=smoothing, coverage=coverage)  # type: ignore[arg-type]
    torch.testing.assert_close(loss, expected)
    assert not loss.negative_log_likelihood.requires_grad
    gradients = [torch.autograd.grad(part.smoothed, list(model.parameters())) for part in (loss, expected)]
    torch.testing.assert_close(*gradients)


def test_ignored_targets_of_a_model_with_probabilities_of_its_own() -> None:
    log_p_N = torch.tensor([-1.0, -2.0, -4.0], requires_grad=True)
    uniform_N = torch.tensor([-3.0, -5.0, -7.0], requires_grad=True)
    targets_N = torch.tensor([3, IGNORE_INDEX, 4])
    loss = targets_loss(TargetLogProbabilities(log_p_N, uniform_N), targets_N, smoothing=0.25)
    assert loss.smoothed.item() == 0.75 * 5.0 + 0.25 * 10.0 and loss.negative_log_likelihood.item() == 5.0
    loss.smoothed.backward()
    assert log_p_N.grad is not None and log_p_N.grad.tolist() == [-0.75, 0.0, -0.75]
