"""Word-level distillation against its equation, and a teacher that stays as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from fixtures.small_networks import neural
from oracles import distillation as oracle
from weft.data.store.token_store import Batch
from weft.errors import RecipeError
from weft.models.ensemble import Ensemble
from weft.models.interface import Model
from weft.ragged import Ragged
from weft.recipe import make_recipe
from weft.text.specials import BEGIN, END
from weft.training.distillation import distillation_loss, freeze_teacher
from weft.training.loss import batch_loss
from weft.training.train import TrainingOptions, train, train_with
from weft.training.update import TrainingContext, training_loss

VOCABULARY = 13
CPU = torch.device("cpu")


def batch() -> Batch:
    source = Ragged.of([[3, 7, 5, END], [9, END]])
    target = Ragged.of([[4, 11, END], [6, 6, 12, 5, END]])
    return Batch(source, target)


def logits(model: Model) -> list[list[float]]:
    given = batch()
    rows: list[list[float]] = model(given.source, given.target.shifted(BEGIN)).logits_NV.double().tolist()
    return rows


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("kind", ["gru", "transformer"])
def test_equation(kind: str, weight: float, smoothing: float) -> None:
    student, teacher = neural(kind, vocabulary=VOCABULARY), neural("gru", vocabulary=VOCABULARY, seed=2)
    found = distillation_loss(student, teacher, batch(), weight=weight, smoothing=smoothing, begin=BEGIN)
    targets = batch().target.values.tolist()
    expected = oracle.loss(logits(student), logits(teacher), targets, weight=weight, smoothing=smoothing)
    assert float(found.smoothed.detach()) == pytest.approx(expected, rel=1e-4)
    plain = batch_loss(student, batch(), smoothing=smoothing)
    torch.testing.assert_close(found.negative_log_likelihood, plain.negative_log_likelihood)
    if not weight:
        torch.testing.assert_close(found.smoothed, plain.smoothed)


def test_an_ensemble_teaches_the_mean_of_its_distributions() -> None:
    student = neural("gru", vocabulary=VOCABULARY)
    members = [neural("gru", vocabulary=VOCABULARY, seed=seed) for seed in (2, 3)]
    found = distillation_loss(student, Ensemble(members), batch(), weight=1.0, smoothing=0.0, begin=BEGIN)
    losses = [
        distillation_loss(student, member, batch(), weight=1.0, smoothing=0.0, begin=BEGIN).smoothed
        for member in members
    ]
    torch.testing.assert_close(found.smoothed, torch.stack(losses).mean())


def test_only_the_student_has_gradients() -> None:
    teacher = freeze_teacher(neural.__wrapped__("gru", vocabulary=VOCABULARY, seed=4).train(), CPU)
    student = neural.__wrapped__("gru", vocabulary=VOCABULARY)
    assert not teacher.training
    distillation_loss(student, teacher, batch(), weight=1.0, smoothing=0.0, begin=BEGIN).smoothed.backward()
    assert all(parameter.grad is not None for parameter in student.parameters())
    assert all(parameter.grad is None for parameter in teacher.parameters())


def test_a_student_that_is_its_teacher_has_the_entropy_as_loss_and_no_gradient() -> None:
    model = neural.__wrapped__("gru", vocabulary=VOCABULARY)
    loss = distillation_loss(model, model, batch(), weight=1.0, smoothing=0.0, begin=BEGIN).smoothed
    loss.backward()
    largest = max(float(parameter.grad.abs().max()) for parameter in model.parameters())
    assert float(loss.detach()) > 0 and largest < 1e-5


@pytest.mark.parametrize("distillation", [0.0, 0.4])
def test_the_setting_decides(distillation: float) -> None:
    settings = make_recipe({"training": {"distillation": distillation, "label_smoothing": 0.0}}).training
    student, teacher = neural("gru", vocabulary=VOCABULARY), neural("gru", vocabulary=VOCABULARY, seed=2)
    loss = training_loss(student, batch(), TrainingContext(settings, teacher=teacher), 0.0)
    plain = batch_loss(student, batch())
    assert (float(loss.smoothed.detach()) == pytest.approx(float(plain.smoothed.detach()))) == (not distillation)


def test_a_recipe_names_no_teacher(tiny: Any, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"training\.distillation: 0\.5 needs a teacher, which only weft distill"):
        next(train(tiny({"training.distillation": 0.5}), tmp_path / "run"))
    assert not (tmp_path / "run").exists()


@pytest.mark.filterwarnings("ignore::weft.errors.WeftWarning")  # hardly trained
def test_the_teacher_changes_the_weights(tiny: Any, finished: Path, tmp_path: Path) -> None:
    from weft.runs.load import load_run
    from weft.runs.weights import read_tensors

    recipe = tiny({"training.distillation": 0.5, "training.steps": 3, "training.validate_every": 0})
    tensors = []
    for name, scale in (("run", 1.0), ("other", 0.0)):
        teacher = load_run(finished).model
        for parameter in teacher.parameters():
            parameter.data.mul_(scale)
        list(train_with(recipe, tmp_path / name, TrainingOptions(teacher=teacher)))
        tensors.append(read_tensors(tmp_path / name / "model.safetensors").tensors)
    assert any(not torch.equal(tensors[0][name], tensors[1][name]) for name in tensors[0])


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"training": {"loss": "entmax15", "label_smoothing": 0.0}}, "training.loss = 'entmax15'"),
        ({"training": {"forcing": "free"}}, "training.forcing = 'free'"),
        ({"training": {"coverage_loss": 1.0}}, "training.coverage_loss = 1"),
        ({"model": {"copy": True}}, "model.copy = true"),
        ({"model": {"kind": "language_model"}}, "model.kind = 'language_model'"),
    ],
)
def test_settings_that_exclude_it(settings: dict[str, Any], named: str) -> None:
    training = {**settings.get("training", {}), "distillation": 0.5}
    with pytest.raises(RecipeError, match=r"training\.distillation: needs cross-entropy") as error:
        make_recipe({**settings, "training": training})
    assert named in str(error.value)
