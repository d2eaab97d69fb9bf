"""Smoothed cross-entropy against its equation, against PyTorch's, and its gradient."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional

from weft.data.store.token_store import Batch
from weft.models.build import build_model
from weft.models.interface import alignment_weights
from weft.ragged import Ragged
from weft.recipe import ModelSettings
from weft.text.specials import BEGIN
from weft.training.loss import batch_loss, coverage_loss, cross_entropy

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
