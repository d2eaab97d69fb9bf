"""R-Drop: two passes against the equation, for every kind of distribution over tokens."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from oracles import regularization as oracle
from weft.attention.ragged_attention import ReturnAttention
from weft.data.store.token_store import Batch
from weft.errors import TrainingError
from weft.models.build import build_model
from weft.models.interface import Model, ModelOutput, TargetLogProbabilities
from weft.ragged import Ragged
from weft.recipe import ModelSettings, TrainingSettings
from weft.text.specials import BEGIN
from weft.training.consistency import consistency_loss, symmetric_divergence
from weft.training.loss import IGNORE_INDEX, batch_loss
from weft.training.update import TrainingContext, training_loss

STACK = {"kind": "transformer", "layers": 2, "hidden": 6, "heads": 2, "feed_forward": 7}
CELLS: dict[str, Any] = {"encoder": {"hidden": 6}, "decoder": {"hidden": 5}}
MODELS: dict[str, dict[str, Any]] = {
    "lstm": CELLS,
    "input feeding": {**CELLS, "decoder": {"hidden": 5, "input_feeding": True}},
    "transformer": {"encoder": STACK, "decoder": STACK},
    "prefix": {"kind": "prefix_lm", "decoder": STACK},
    "language model": {"kind": "language_model", "decoder": {"hidden": 6}},
    "transformer language model": {"kind": "language_model", "decoder": STACK},
    "hard": {**CELLS, "attention": {"hard": "monotonic"}},
    "copying": {**CELLS, "copy": True},
    "sparse copying": {**CELLS, "copy": True, "attention": {"normalizer": "sparsemax"}},
    "hard copying": {**CELLS, "copy": True, "attention": {"hard": "first"}},
}
every_model = pytest.mark.parametrize("name", MODELS)
SOURCE_SIZE, VOCABULARY, ALPHA = 11, 13, 5.0
TARGET = Ragged.of([[3, 5, 2], [7, 2], [4, 6, 8, 10, 2]])


def build(name: str, dropout: float) -> Model:
    tree = {"embedding": 6, "dropout": dropout, **MODELS[name]}
    model = build_model(ModelSettings.model_validate(tree), source_size=SOURCE_SIZE, target_size=VOCABULARY)
    return model.to("cpu", torch.float64).train()


def batch(name: str) -> Batch:
    """With copying, tokens that no vocabulary has: source 24 (the first own id), as a target 13 + its position."""
    if "language" in name:
        return Batch(Ragged.of([[], [], []]), TARGET)
    if "copying" in name:
        target = Ragged.of([[3, 5, 2], [14, 2], [4, 6, 8, 10, 2]])
        return Batch(Ragged.of([[3, 7, 2], [5, 24, 6, 2], [9, 2]]), target)
    return Batch(Ragged.of([[3, 7, 2], [5, 4, 6, 2], [9, 2]]), TARGET)


def probabilities(model: Model, given: Batch) -> list[list[float]]:
    with torch.no_grad():
        distributions: list[list[float]] = (
            model(given.source, given.target.shifted(BEGIN)).logits_NV.softmax(-1).tolist()
        )
    return distributions


def settings(**changes: Any) -> TrainingSettings:
    return TrainingSettings(**{"consistency": ALPHA, "label_smoothing": 0.0, **changes})


def loss_of(model: Model, given: Batch, used: TrainingSettings, targets_N: Tensor | None = None) -> Any:
    targets_N = given.target.values if targets_N is None else targets_N
    return consistency_loss(model, given.source, given.target.shifted(BEGIN), targets_N, used)


def test_divergence_is_that_of_its_equation() -> None:
    torch.manual_seed(1)
    logits_NV, others_NV = (torch.randn(5, 7, dtype=torch.float64) * 3 for _ in range(2))
    log_p_NV, log_q_NV = logits_NV.log_softmax(-1), others_NV.log_softmax(-1)
    rows = zip(log_p_NV.exp().tolist(), log_q_NV.exp().tolist(), strict=True)
    expected = [oracle.divergence(p, q) + oracle.divergence(q, p) for p, q in rows]
    assert symmetric_divergence(log_p_NV, log_q_NV).tolist() == pytest.approx(expected, rel=1e-12)
    divergence = symmetric_divergence(log_p_NV, log_q_NV)
    padded = nn.functional.pad(log_p_NV, (0, 2), value=-math.inf), nn.functional.pad(log_q_NV, (0, 2), value=-math.inf)
    torch.testing.assert_close(symmetric_divergence(*padded), divergence)

    def of_logits(first_NV: Tensor, second_NV: Tensor) -> Tensor:
        return symmetric_divergence(first_NV.log_softmax(-1), second_NV.log_softmax(-1))

    torch.autograd.gradcheck(of_logits, (logits_NV.requires_grad_(), others_NV.requires_grad_()))


def test_a_token_without_probability_in_one_pass_has_a_finite_divergence() -> None:
    log_p = torch.tensor([[0.5, 0.5, 0.0]]).log().requires_grad_()
    log_q = torch.tensor([[0.5, 0.25, 0.25]]).log().requires_grad_()
    divergence = symmetric_divergence(log_p, log_q)
    assert 1 < divergence.item() < 50
    divergence.sum().backward()
    assert log_p.grad is not None and log_p.grad.isfinite().all()


@every_model
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_loss_is_that_of_its_equation(name: str, smoothing: float) -> None:
    """Half of the paper's loss, of two passes that draw their dropout masks one after the other."""
    model, given = build(name, dropout=0.4), batch(name)
    torch.manual_seed(3)
    loss = loss_of(model, given, settings(label_smoothing=smoothing))
    torch.manual_seed(3)
    first, second = (probabilities(model, given) for _ in range(2))
    assert first != second
    targets = given.target.values.tolist()
    if smoothing and "copying" in name:  # of the mixture without copies: weft.models.copying
        torch.manual_seed(3)
        losses = [batch_loss(model, given, smoothing=smoothing).smoothed.item() for _ in range(2)]
        unsmoothed = [oracle.consistency_loss(first, second, targets, smoothing=0.0, alpha=a) for a in (ALPHA, 0.0)]
        expected = sum(losses) / 2 + unsmoothed[0] - unsmoothed[1]
    else:
        expected = oracle.consistency_loss(first, second, targets, smoothing=smoothing, alpha=ALPHA)
    assert loss.smoothed.item() == pytest.approx(expected, rel=1e-9)
    likelihood = oracle.consistency_loss(first, second, targets, smoothing=0.0, alpha=0.0)
    assert loss.negative_log_likelihood.item() == pytest.approx(likelihood, rel=1e-9)
    gradients = torch.autograd.grad(loss.smoothed, list(model.parameters()), allow_unused=True)
    assert all(gradient is None or gradient.isfinite().all() for gradient in gradients)


@every_model
def test_without_dropout_it_is_the_loss_of_one_pass(name: str) -> None:
    model, given = build(name, dropout=0.0), batch(name)
    coverage = 0.0 if "language" in name else 0.5
    single = batch_loss(model, given, smoothing=0.1, coverage=coverage)
    loss = loss_of(model, given, settings(label_smoothing=0.1, coverage_loss=coverage, consistency=7.0))
    torch.testing.assert_close(loss.smoothed, single.smoothed)
    torch.testing.assert_close(loss.negative_log_likelihood, single.negative_log_likelihood)


@pytest.mark.parametrize("name", ["transformer", "hard"])
def test_targets_without_loss_do_not_count(name: str) -> None:
    model, given = build(name, dropout=0.4), batch(name)
    targets_N = given.target.values.clone()
    targets_N[-5:] = IGNORE_INDEX  # the last row
    torch.manual_seed(3)
    loss = loss_of(model, given, settings(), targets_N)
    torch.manual_seed(3)
    first, second = (probabilities(model, given)[:-5] for _ in range(2))
    expected = oracle.consistency_loss(first, second, targets_N[:-5].tolist(), smoothing=0.0, alpha=ALPHA)
    assert loss.smoothed.item() == pytest.approx(expected, rel=1e-9)


def test_off_is_a_single_pass() -> None:
    model, given = build("transformer", dropout=0.4), batch("transformer")
    losses = []
    for used in (settings(consistency=0.0), settings(consistency=1e-9), settings()):
        torch.manual_seed(3)
        losses.append(training_loss(model, given, TrainingContext(used), 0.0).smoothed.item())
    torch.manual_seed(3)
    assert losses[0] == batch_loss(model, given).smoothed.item()
    assert losses[1] != losses[0] and losses[2] > losses[1]


class OwnModel(nn.Module):
    """A model that has only what every model has."""

    def __init__(self, inner: Model) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, source: Ragged, inputs: Ragged, *, return_attention: ReturnAttention = False) -> ModelOutput:
        output: ModelOutput = self.inner(source, inputs, return_attention=return_attention)
        return output


class TargetsAlone(OwnModel):
    """A model that gives the probabilities of targets only."""

    def target_log_probabilities(
        self, source: Ragged, inputs: Ragged, targets_N: Tensor, **options: Any
    ) -> TargetLogProbabilities:
        log_NV = self.inner(source, inputs).logits_NV.log_softmax(-1)
        return TargetLogProbabilities(log_NV.gather(1, targets_N[:, None])[:, 0])


def test_models_of_users() -> None:
    model, given = build("lstm", dropout=0.4), batch("lstm")
    torch.manual_seed(3)
    expected = loss_of(model, given, settings())
    torch.manual_seed(3)
    torch.testing.assert_close(loss_of(OwnModel(model), given, settings()), expected)  # type: ignore[arg-type]
    with pytest.raises(TrainingError) as caught:
        loss_of(TargetsAlone(model), given, settings())  # type: ignore[arg-type]
    assert str(caught.value) == "training.consistency: this model gives no distribution with its loss; set it to 0"
