"""One update: the precision it is made in, and what an update that is not finite leaves behind."""

from __future__ import annotations

import math

import pytest
import torch

from weft.data.batching.batches import StepBatches
from weft.data.store.token_store import Batch
from weft.errors import WeftWarning
from weft.models.build import build_model
from weft.models.interface import Model
from weft.ragged import Ragged
from weft.recipe import ModelSettings, TrainingSettings
from weft.training import update
from weft.training.loss import Loss, batch_loss
from weft.training.optimizer import make_optimizer
from weft.training.update import PlainUpdate, TrainingContext, UpdateStatistics

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
STACK = {"kind": "transformer", "layers": 2, "hidden": 6, "heads": 2, "feed_forward": 7}
CELL = {"kind": "gru", "hidden": 6}
TRANSFORMER = {"encoder": STACK, "decoder": STACK}
MODELS = {
    "transformer": TRANSFORMER,
    "attention": {"encoder": {**STACK, "kind": "attention"}, "decoder": STACK},
    "prefix": {"kind": "prefix_lm", "decoder": STACK},
    "transformer language model": {"kind": "language_model", "decoder": STACK},
    "gru": {"encoder": CELL, "decoder": CELL},
    "lstm": {"encoder": {"hidden": 6}, "decoder": {"hidden": 6}},
    "transformer to gru": {"encoder": STACK, "decoder": CELL},
    "gru to transformer": {"encoder": CELL, "decoder": STACK},
    "language model": {"kind": "language_model", "decoder": CELL},
}
ATTENTIVE = ("transformer", "attention", "prefix", "transformer language model")
"""Those without a recurrence."""
every_model = pytest.mark.parametrize("name", MODELS)


def build(name: str, dropout: float = 0.0) -> Model:
    tree = {"embedding": 6, "dropout": dropout, **MODELS[name]}
    return build_model(ModelSettings.model_validate(tree), source_size=11, target_size=13)


def batches(name: str) -> list[Batch]:
    """Two of unequal size; a language model has no sources."""
    sources, targets = [[3, 7], [5, 4, 6], [9]], [[3, 5, 2], [7, 2], [4, 6, 8, 10, 2]]
    if "language" in name:
        sources = [[], [], []]
    return [
        Batch(Ragged.of(sources[:2]), Ragged.of(targets[:2])),
        Batch(Ragged.of(sources[2:]), Ragged.of(targets[2:])),
    ]


def updating(model: Model, **changes: object) -> PlainUpdate:
    settings = TrainingSettings(**{"label_smoothing": 0.0, "clip": 0.0, "optimizer": "sgd", **changes})
    return PlainUpdate(model, make_optimizer(model, settings), TrainingContext(settings))


def run(update: PlainUpdate, batches: list[Batch], rate: float, probability: float = 0.0) -> UpdateStatistics:
    result = update(StepBatches.of(batches), learning_rate=rate, sampling_probability=probability)
    assert not result.deferred
    return result.statistics()


def weights(model: Model) -> dict[str, torch.Tensor]:
    return {name: one.detach().clone() for name, one in model.named_parameters()}


class LimitedMemory(PlainUpdate):
    """An update that runs out of memory in the backward pass of batches with more than ``most`` rows."""

    most = 1

    def add_gradients(self, batch: Batch, target_tokens: int, sampling_probability: float) -> torch.Tensor:
        likelihood = super().add_gradients(batch, target_tokens, sampling_probability)
        if batch.target.rows > self.most:  # gradients were added already, some or all
            raise torch.OutOfMemoryError("CUDA out of memory")
        return likelihood


class TestMemoryThatRunsOut:
    ROWS = Batch(
        Ragged.of([[3, 7], [5, 4, 6], [9], [8, 3], [4]]),
        Ragged.of([[3, 5, 2], [7, 2], [4, 6, 8, 10, 2], [2], [9, 9, 2]]),
    )

    @every_model
    @pytest.mark.parametrize("most", [1, 2, 3])
    def test_parts_give_the_update_of_the_whole(self, name: str, most: int) -> None:
        """One oracle: the update at once, of the gradient of the mean over the tokens of all batches."""
        batch = self.ROWS
        if "language" in name:
            batch = Batch(Ragged.of([[]] * 5), batch.target)
        given = [batch, *batches(name)]
        whole, divided = build(name), build(name)
        divided.load_state_dict(whole.state_dict())
        changes = {"label_smoothing": 0.1, "clip": 0.5, "accumulate": 3}
        expected = run(updating(whole, **changes), given, 0.25)
        update = updating(divided, **changes)
        limited = LimitedMemory(divided, update.optimizer, update.context)
        limited.most = most
        with pytest.warns(WeftWarning) as warned:
            statistics = run(limited, given, 0.25)
            again = run(limited, given, 0.25)
        assert [str(one.message) for one in warned] == [
            "training: not enough memory for a whole batch; continuing in parts, with the same results"
        ]
        assert statistics == pytest.approx(expected, rel=1e-5) and again.loss < statistics.loss
        run(updating(whole, **changes), given, 0.25)
        for one, other in zip(whole.parameters(), divided.parameters(), strict=True):
            torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-5)

    def test_one_row_that_does_not_fit(self) -> None:
        model = build("gru")
        before, update = weights(model), updating(model)
        limited = LimitedMemory(model, update.optimizer, update.context)
        limited.most = 0
        with pytest.warns(WeftWarning, match="^training: "), pytest.raises(torch.OutOfMemoryError):
            run(limited, [self.ROWS], 0.25)
        assert all(torch.equal(before[name], one) for name, one in weights(model).items())

    def test_a_process_that_may_not_divide(self) -> None:
        update = updating(build("gru"))
        limited = LimitedMemory(update.model, update.optimizer, update.context)
        limited.can_divide = False
        with pytest.raises(torch.OutOfMemoryError):
            run(limited, [self.ROWS], 0.25)


class TestOneUpdate:
    @pytest.mark.parametrize("name", ATTENTIVE)
    def test_bf16_is_near_single(self, name: str) -> None:
        found = {}
        for precision in ("fp32", "bf16"):
            model = build(name)
            found[precision] = run(updating(model, precision=precision), batches(name), 0.1)
            assert all(one.dtype == torch.float32 and one.isfinite().all() for one in model.parameters())
        assert found["bf16"][0] == pytest.approx(found["fp32"][0], rel=0.02)
        assert found["bf16"][1] == pytest.approx(found["fp32"][1], rel=0.2)

    @every_model
    @pytest.mark.parametrize("smoothing", [0.0, 0.1])
    def test_is_the_gradient_of_the_mean_loss_over_all_batches(self, name: str, smoothing: float) -> None:
        model, given = build(name), batches(name)
        before = weights(model)
        total = torch.zeros(())
        tokens = 0
        for batch in given:
            logits_NV = model(batch.source, batch.target.shifted(1)).logits_NV
            total = total + torch.nn.functional.cross_entropy(
                logits_NV, batch.target.values, reduction="sum", label_smoothing=smoothing
            )
            tokens += batch.target.layout.total
        parameters = dict(model.named_parameters())
        gradients = torch.autograd.grad(total / tokens, list(parameters.values()), allow_unused=True)
        statistics = run(updating(model, label_smoothing=smoothing), given, 0.25)
        norm = math.sqrt(sum(float(one.pow(2).sum()) for one in gradients if one is not None))
        assert statistics.grad_norm == pytest.approx(norm, rel=1e-4)
        for (key, parameter), gradient in zip(parameters.items(), gradients, strict=True):
            wanted = before[key] if gradient is None else before[key] - 0.25 * gradient
            torch.testing.assert_close(parameter.detach(), wanted, atol=1e-5, rtol=1e-4)

    @pytest.mark.parametrize(
        ("name", "probability"), [*((name, 0.3) for name in MODELS), ("gru", 1.0), ("prefix", 1.0)]
    )
    def test_own_predictions(self, name: str, probability: float) -> None:
        """Scheduled and free forcing go through `step`; a few updates lower the loss of the same batch."""
        torch.manual_seed(1)
        model = build(name, dropout=0.1).train()
        update = updating(model, optimizer="adam")
        losses = [run(update, batches(name), 0.05, probability).loss for _ in range(30)]
        assert all(map(math.isfinite, losses))
        assert sum(losses[-3:]) < 0.8 * sum(losses[:3])  # 0.07 to 0.59 with other seeds

    @every_model
    @pytest.mark.parametrize("place", [1, 2])
    def test_one_that_is_not_finite_leaves_everything_alone(
        self, name: str, place: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        model = build(name)
        one = updating(model, optimizer="adamw")
        run(one, batches(name), 0.01)
        before = weights(model)
        moments = [{key: part.clone() for key, part in state.items()} for state in one.optimizer.state.values()]
        calls = 0

        def spoilt(*arguments: object, **keywords: object) -> Loss:
            nonlocal calls
            calls += 1
            found = batch_loss(*arguments, **keywords)  # type: ignore[arg-type]
            return Loss(found.smoothed * math.nan, found.negative_log_likelihood) if calls == place else found

        monkeypatch.setattr(update, "batch_loss", spoilt)
        loss, norm = run(one, batches(name), 0.01)
        assert math.isfinite(loss) and not math.isfinite(norm)
        assert all(torch.equal(now, before[key]) for key, now in weights(model).items())
        for state, kept in zip(one.optimizer.state.values(), moments, strict=True):
            assert all(torch.equal(state[key], kept[key]) for key in kept)
        loss, norm = run(one, batches(name), 0.01)
        assert math.isfinite(loss) and math.isfinite(norm)
        assert any(not torch.equal(now, before[key]) for key, now in weights(model).items())


class TestSettingsReachTheOptimizer:
    """Two steps on known gradients, against the equations written out."""

    GRADIENTS = (0.5, -0.25)
    START = 2.0

    def stepped(self, **changes: object) -> float:
        settings = TrainingSettings(**{"learning_rate": 0.1, **changes})
        parameter = torch.nn.Parameter(torch.tensor([self.START]))
        module = torch.nn.Module()
        module.weight = parameter
        optimizer = make_optimizer(module, settings)  # type: ignore[arg-type]
        for gradient in self.GRADIENTS:
            parameter.grad = torch.tensor([gradient])
            optimizer.step()
        return float(parameter.detach())

    def adam(self, *, beta1: float, beta2: float, decay: float, decoupled: bool, rate: float = 0.1) -> float:
        """Kingma & Ba 2015, algorithm 1; Loshchilov & Hutter 2019, algorithm 2."""
        weight, first, second = self.START, 0.0, 0.0
        for step, gradient in enumerate(self.GRADIENTS, 1):
            if decoupled:
                weight -= rate * decay * weight
            else:
                gradient += decay * weight
            first = beta1 * first + (1 - beta1) * gradient
            second = beta2 * second + (1 - beta2) * gradient**2
            weight -= rate * first / (1 - beta1**step) / (math.sqrt(second / (1 - beta2**step)) + 1e-8)
        return weight

    @pytest.mark.parametrize(("optimizer", "decoupled"), [("adam", False), ("adamw", True)])
    @pytest.mark.parametrize(("beta1", "beta2", "decay"), [(0.9, 0.98, 0.0), (0.5, 0.98, 0.3), (0.9, 0.7, 0.3)])
    def test_adam(self, optimizer: str, decoupled: bool, beta1: float, beta2: float, decay: float) -> None:
        found = self.stepped(optimizer=optimizer, beta1=beta1, beta2=beta2, weight_decay=decay)
        expected = self.adam(beta1=beta1, beta2=beta2, decay=decay, decoupled=decoupled)
        assert found == pytest.approx(expected, rel=1e-5)
        if decay:
            other = self.adam(beta1=beta1, beta2=beta2, decay=decay, decoupled=not decoupled)
            assert abs(found - other) > 1e-3, "adam and adamw differ here"

    @pytest.mark.parametrize(("momentum", "decay"), [(0.0, 0.0), (0.9, 0.0), (0.0, 0.3), (0.5, 0.3)])
    def test_sgd(self, momentum: float, decay: float) -> None:
        weight, velocity = self.START, 0.0
        for step, gradient in enumerate(self.GRADIENTS):
            gradient += decay * weight
            velocity = gradient if step == 0 else momentum * velocity + gradient
            weight -= 0.1 * velocity
        assert self.stepped(optimizer="sgd", momentum=momentum, weight_decay=decay) == pytest.approx(weight, rel=1e-6)


class TestDropout:
    def test_every_batch_of_an_update_draws_its_own(self) -> None:
        """Of two equal batches, each is dropped out differently, and the same again in the same step."""
        model = build("gru", dropout=0.5).train()
        one = updating(model, accumulate=2, learning_rate=1e-9)
        batch, losses = batches("gru")[0], []
        original = one.batch_loss

        def recorded(batch: Batch, sampling_probability: float) -> Loss:
            loss = original(batch, sampling_probability)
            losses.append(float(loss.negative_log_likelihood))
            return loss

        one.batch_loss = recorded  # type: ignore[method-assign]
        for _ in range(2):
            torch.rand(3)
            run(one, [batch, batch], 1e-9)
        assert losses[0] != losses[1]
        assert losses[:2] == pytest.approx(losses[2:], rel=1e-6)
