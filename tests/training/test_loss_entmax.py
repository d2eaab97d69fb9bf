"""The 1.5-entmax loss against its equation and its gradient; in a batch; under scheduled sampling; in a whole run."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

import weft
from weft.data.store.token_store import Batch
from weft.errors import RecipeError
from weft.models.build import build_model
from weft.models.seq2seq import Seq2Seq
from weft.ragged import Ragged
from weft.recipe import Recipe, make_recipe
from weft.runs.status import RunStatus
from weft.runs.weights import WeightsOrigin, read_metadata
from weft.text.specials import BEGIN
from weft.training.loss import batch_loss, entmax15_loss
from weft.training.train import train

BATCH = Batch(Ragged.of([[3, 4, 2], [5, 2]]), Ragged.of([[3, 4, 5, 2], [7, 2]]))


def recipe_of(*changes: str) -> Recipe:
    small = ["model.embedding=6", "model.encoder.hidden=6", "model.decoder.hidden=6", "model.dropout=0"]
    sparse = ["training.loss=entmax15", "training.label_smoothing=0"]
    return make_recipe({}, [*small, *sparse, *changes])


def model_of(recipe: Recipe) -> Seq2Seq:
    model = build_model(recipe.model, source_size=11, target_size=13, loss=recipe.training.loss).double()
    assert isinstance(model, Seq2Seq)
    with torch.no_grad():
        model.output.weight_VD.mul_(6)
    return model


def given() -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    return torch.randn(5, 7, dtype=torch.float64) * 3, torch.tensor([3, 0, 6, 3, 1])


def bisected(scores: list[float]) -> list[float]:
    """p = [z/2 − τ]₊², τ by bisection."""
    low, high = max(scores) / 2 - 1, max(scores) / 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(max(z / 2 - middle, 0) ** 2 for z in scores) > 1 else (low, middle)
    return [max(z / 2 - low, 0.0) ** 2 for z in scores]


def test_equation() -> None:
    """(p − e_y)ᵀz + (4/3) Σ (p − p^1.5), with scalars."""
    scores, targets = given()
    expected = 0.0
    for row, target in zip(scores.tolist(), targets.tolist(), strict=True):
        weights = bisected(row)
        expected += sum(p * z for p, z in zip(weights, row, strict=True)) - row[target]
        expected += 4 / 3 * sum(p - p**1.5 for p in weights)
    loss = entmax15_loss(scores, targets)
    assert loss.smoothed.item() == pytest.approx(expected, rel=1e-9) == loss.negative_log_likelihood.item()


def test_gradient() -> None:
    scores, targets = given()
    assert torch.autograd.gradcheck(lambda z: entmax15_loss(z, targets).smoothed, scores.requires_grad_())


def test_the_loss_is_zero_where_the_target_has_all_probability_and_finite_where_it_has_none() -> None:
    scores = torch.tensor([[9.0, 0.0, 1.0]], requires_grad=True)
    assert entmax15_loss(scores, torch.tensor([0])).smoothed.item() == pytest.approx(0, abs=1e-6)
    loss = entmax15_loss(scores, torch.tensor([1])).smoothed
    assert torch.autograd.grad(loss, scores)[0].tolist() == [[1.0, -1.0, 0.0]]


def test_the_loss_of_a_batch() -> None:
    model = model_of(recipe_of())
    states = model.hidden_states(BATCH.source, BATCH.target.shifted(BEGIN)).states
    expected = entmax15_loss(model.output.scores(states.values), BATCH.target.values)
    torch.testing.assert_close(batch_loss(model, BATCH), expected)


def test_scheduled_sampling() -> None:
    """Fed with its own predictions, a model's loss and gradients are those of the scores it had."""
    model = model_of(recipe_of("training.forcing=free"))
    memory = model.encode(BATCH.source)
    state, tokens_R, scores = model.start(memory), torch.tensor([BEGIN, BEGIN]), []
    for time in range(4):
        read: list[Tensor] = []
        handle = model.output.register_forward_pre_hook(lambda _, inputs, read=read: read.append(inputs[0]))
        logits_RV, state, _ = model.step(tokens_R, state, memory)
        handle.remove()
        scores += [model.output.scores(read[0])[row] for row in range(2) if time < len(BATCH.target.split()[row])]
        tokens_R = logits_RV.argmax(-1)
    targets = torch.tensor([3, 7, 4, 2, 5, 2])
    expected = entmax15_loss(torch.stack(scores), targets)
    found = batch_loss(model, BATCH, sampling_probability=1.0)
    torch.testing.assert_close(found, expected)
    names, parameters = zip(*model.named_parameters(), strict=True)
    gradients = torch.autograd.grad(found.smoothed, parameters)
    expected_gradients = torch.autograd.grad(expected.smoothed, parameters)
    for name, ours, theirs in zip(names, gradients, expected_gradients, strict=True):
        torch.testing.assert_close(ours, theirs, msg=name)
    assert not model.output._forward_pre_hooks


RUN = [
    *("data.train=copy", "data.valid=copy", "data.train_size=60", "data.valid_size=9", "tokenizer.kind=word"),
    *("training.steps=6", "training.validate_every=2", "training.save_every=6", "training.device=cpu"),
    *("training.batch_tokens=64", "training.average=2", "training.log_every=1", "training.patience=9"),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("sparse") / "run"
    list(train(recipe_of(*RUN), out))
    return out


def test_a_run_is_validated_by_its_loss(run: Path) -> None:
    """Without a perplexity, which would be infinite; the best checkpoint is that of the least loss."""
    events = [json.loads(line) for line in (run / "log.jsonl").read_text("utf-8").splitlines()]
    validations = [event for event in events if event["event"] == "validation"]
    losses = [event["loss"] for event in validations]
    assert (
        len(losses) == 3 and all(map(math.isfinite, losses)) and not any(event["perplexity"] for event in validations)
    )
    best = [step for step, event in enumerate(validations) if event["is_best"]]
    assert best == [step for step, loss in enumerate(losses) if loss == min(losses[: step + 1])]
    origin = WeightsOrigin.from_metadata(read_metadata(run / "model.safetensors"))
    assert origin is not None and origin.validation is not None and set(origin.validation) == {"loss"}
    status = RunStatus.read(run)
    assert status.metric == "loss" and status.score == origin.validation["loss"]


def test_a_loaded_run_gives_probabilities_that_are_zero(run: Path) -> None:
    loaded = weft.load(run)
    assert isinstance(loaded.model, Seq2Seq)
    with torch.no_grad():
        loaded.model.output.weight_VD.mul_(30)
    translation = loaded.translate("3 1 2")
    assert translation.log_probability > -math.inf
    [score] = loaded.score([("3 1 2", "9 9 9 9 9 9")])
    assert score.log_probability == -math.inf and not any(map(math.isnan, score.token_scores))
    report = weft.evaluate(loaded, [("3 1 2", "9 9 9 9 9 9")], ["exact_match"])
    assert report.perplexity.value == math.inf


def test_a_model_that_is_given_needs_the_output_layer_of_the_loss(tmp_path: Path) -> None:
    recipe = recipe_of(*RUN)
    dense = build_model(recipe.model, source_size=17, target_size=17)
    with pytest.raises(RecipeError, match=r"^training.loss: 'entmax15' was given, but the output layer of this model"):
        list(train(recipe, tmp_path / "run", model=dense))
