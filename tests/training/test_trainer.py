"""The loop: one update checked by hand, what is skipped, what is kept, when it stops, and in which order it tells."""

import json
import math
from dataclasses import fields, replace

import pytest
import torch

from weft.data.batching.batches import Part, Position, StoredCorpus, draw_steps
from weft.data.batching.prefetch import prefetch
from weft.data.store.token_store import PairStore, TokenStore
from weft.errors import TrainingError
from weft.models.build import build_model
from weft.recipe import ModelSettings, TrainingSettings
from weft.runs.layout import RunFolder
from weft.runs.weights import model_tensors, read_tensors
from weft.training import trainer as loop
from weft.training import update
from weft.training.distributed import Workers
from weft.training.events import Averaged, Finished, Saved, Skipped, Step, Validation
from weft.training.loss import Loss, batch_loss
from weft.training.trainer import Trainer
from weft.training.update import TrainingContext, UpdateResult, UpdateStatistics
from weft.training.validation import ValidationScores

BEGIN, END, VOCABULARY = 1, 2, 13
MODEL = ModelSettings.model_validate(
    {"embedding": 7, "dropout": 0.0, "encoder": {"hidden": 10}, "decoder": {"hidden": 10}}
)

STACK = {"kind": "transformer", "layers": 2, "hidden": 10, "heads": 2, "feed_forward": 14}
TRANSFORMER = ModelSettings.model_validate({"embedding": 7, "dropout": 0.0, "encoder": STACK, "decoder": STACK})
PREFIX = ModelSettings.model_validate({"kind": "prefix_lm", "embedding": 7, "dropout": 0.0, "decoder": STACK})
every_model = pytest.mark.parametrize("model", [MODEL, TRANSFORMER, PREFIX], ids=["lstm", "transformer", "prefix"])


def pairs(count=24, longest=5):
    random = torch.Generator().manual_seed(3)

    def line(length):
        return [*torch.randint(3, VOCABULARY, (length,), generator=random).tolist(), END]

    lengths = [1 + place % longest for place in range(count)]
    return PairStore(TokenStore.of(map(line, lengths)), TokenStore.of(line(1 + length * 2 % 7) for length in lengths))


@pytest.fixture
def make(tmp_path):
    """A trainer of a small model: ``make(steps=3, validate=...)``; the rest are settings."""

    def fill(new):
        new.recipe.write_text("")
        (new.path / "tokenizer.json").write_text("{}")

    def make(*, validate=None, seed=1, data=None, model=MODEL, name="run", **changes):
        few = {"steps": 4, "batch_tokens": 40, "schedule": "constant", "warmup": 0, "save_every": 0}
        few |= {"label_smoothing": 0.0, "learning_rate": 0.001}
        settings = TrainingSettings(**{**few, "validate_every": 1 if validate else 0, **changes})
        path = tmp_path / name
        return Trainer(
            build_model(model, source_size=VOCABULARY, target_size=VOCABULARY, seed=seed),
            StoredCorpus(pairs()) if data is None else data if isinstance(data, StoredCorpus) else StoredCorpus(data),
            TrainingContext(settings, seed),
            folder=RunFolder(path) if path.exists() else RunFolder.create(path, fill),
            validate=validate,
        )

    return make


class FakeValidation:
    """A validation that gives the scores it was given, and remembers the weights it saw."""

    def __init__(self, *scores):
        self.scores = scores
        self.seen = []

    def __call__(self, model):
        assert not model.training
        self.seen.append(weights_of(model))
        score = self.scores[min(len(self.seen), len(self.scores)) - 1]
        return ValidationScores(-score, 2.0, {}, score)


def weights_of(model):
    return {name: one.clone() for name, one in model_tensors(model).items()}


def same(left, right, **tolerance):
    assert left.keys() == right.keys()
    if tolerance:
        return all(torch.allclose(left[name], right[name], **tolerance) for name in left)
    return all(torch.equal(left[name], right[name]) for name in left)


def distance(left, right):
    return math.sqrt(sum(float((left[name] - right[name]).double().pow(2).sum()) for name in left))


def kept(trainer):
    return read_tensors(trainer.folder.model)


class TestOneUpdate:
    @every_model
    def test_is_the_gradient_of_the_mean_loss(self, make, model):
        trainer = make(model=model, steps=1, optimizer="sgd", learning_rate=0.5, clip=0.0, batch_tokens=10_000)
        model, before = trainer.model, weights_of(trainer.model)
        batch = trainer.data.pairs.batch(torch.arange(24).numpy())
        logits_NV = model(batch.source, batch.target.shifted(BEGIN)).logits_NV
        loss = torch.nn.functional.cross_entropy(logits_NV, batch.target.values)
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        step = next(trainer.events())
        assert step.loss == pytest.approx(loss.item(), rel=1e-5)
        assert step.grad_norm == pytest.approx(math.sqrt(sum(float(one.pow(2).sum()) for one in gradients)), rel=1e-5)
        expected = {name: before[name] - 0.5 * one for name, one in zip(before, gradients, strict=True)}
        assert same(weights_of(model), expected, atol=1e-6)

    @pytest.mark.parametrize("smoothing", [0.0, 0.1])
    def test_accumulated_batches_are_one_batch(self, make, smoothing):
        settings = {"steps": 1, "optimizer": "sgd", "learning_rate": 1.0, "clip": 0.0, "label_smoothing": smoothing}
        data = pairs(7)
        whole = int(max(side.lengths.sum() for side in (data.source, data.target)))
        batches = next(budget for budget in range(1, whole) if len(loop_batches(data, budget)) == 2)
        joint = make(name="joint", data=data, batch_tokens=whole, **settings)
        parts = make(name="parts", data=data, batch_tokens=batches, accumulate=2, **settings)
        sizes = [planned.target_tokens for planned in loop_batches(data, batches)]
        assert sizes[0] != sizes[1]
        before = weights_of(joint.model)
        [one, two] = [next(trainer.events()) for trainer in (joint, parts)]
        assert not same(weights_of(joint.model), before)
        assert same(weights_of(joint.model), weights_of(parts.model), atol=1e-6, rtol=0)
        assert two.loss == pytest.approx(one.loss, abs=1e-6) and two.grad_norm == pytest.approx(one.grad_norm, abs=1e-6)
        assert (one.source_tokens, one.target_tokens) == (two.source_tokens, two.target_tokens)

    def test_the_gradient_is_clipped(self, make):
        free = make(name="free", steps=1, optimizer="sgd", learning_rate=1.0, clip=0.0)
        held = make(name="held", steps=1, optimizer="sgd", learning_rate=1.0, clip=0.01)
        before = weights_of(free.model)
        [loose, tight] = [next(trainer.events()) for trainer in (free, held)]
        assert loose.grad_norm == pytest.approx(tight.grad_norm) and loose.grad_norm > 0.05
        assert distance(before, weights_of(free.model)) == pytest.approx(loose.grad_norm, rel=1e-3)
        assert distance(before, weights_of(held.model)) == pytest.approx(0.01, rel=1e-3)

    def test_a_small_gradient_is_left_alone(self, make):
        free = make(name="free", steps=1, optimizer="sgd", clip=0.0)
        held = make(name="held", steps=1, optimizer="sgd", clip=1e6)
        for trainer in (free, held):
            next(trainer.events())
        assert same(weights_of(free.model), weights_of(held.model))

    @every_model
    @pytest.mark.parametrize("optimizer", ["adamw", "adam", "sgd"])
    def test_the_loss_falls(self, make, model, optimizer):
        rate = 0.01 if optimizer != "sgd" else 1.0 if model is MODEL else 0.1
        trainer = make(model=model, steps=100, optimizer=optimizer, learning_rate=rate, momentum=0.5)
        losses = [event.loss for event in trainer.events() if isinstance(event, Step)]
        assert sum(losses[-5:]) < 0.9 * sum(losses[:5])  # 0.27 to 0.76 with other seeds

    @every_model
    @pytest.mark.parametrize("forcing", ["teacher", "scheduled", "free"])
    def test_every_forcing_trains(self, make, model, forcing):
        events = list(make(model=model, steps=5, forcing=forcing, sampling=1.0, learning_rate=0.01).events())
        assert isinstance(events[-1], Finished) and not any(isinstance(event, Skipped) for event in events)

    def test_the_rate_follows_the_schedule(self, make):
        events = make(steps=6, schedule="inverse_sqrt", warmup=2, learning_rate=0.1).events()
        rates = [event.learning_rate for event in events if isinstance(event, Step)]
        assert rates == pytest.approx([0.05, *(0.1 * math.sqrt(2 / step) for step in range(2, 7))])


def loop_batches(data, budget):
    """The batches of the first epoch."""
    stream, found = StoredCorpus(data).batches(budget, seed=1), []
    while stream.position.epoch == 0:
        found += stream.take(1, 1)
    return found


class TestNotFinite:
    @pytest.fixture
    def spoil(self, monkeypatch):
        """Spoil the loss of some updates."""

        def spoil(steps, smoothed=math.nan, likelihood=math.nan):
            calls = 0

            def spoilt(*arguments, **keywords):
                nonlocal calls
                calls += 1
                found = batch_loss(*arguments, **keywords)
                if calls not in steps:
                    return found
                return Loss(found.smoothed * smoothed, found.negative_log_likelihood * likelihood)

            monkeypatch.setattr(update, "batch_loss", spoilt)

        return spoil

    @pytest.mark.parametrize(("smoothed", "likelihood"), [(math.nan, math.nan), (math.inf, 1.0), (1.0, math.inf)])
    @every_model
    def test_an_update_is_skipped(self, make, spoil, model, smoothed, likelihood):
        spoil({2, 3}, smoothed, likelihood)
        trainer = make(model=model, steps=5)
        before = weights_of(trainer.model)
        moments = {}
        changed = []
        for event in trainer.events():
            now = weights_of(trainer.model)
            state = {key: one.clone() for key, one in loop.optimizer_tensors(trainer.optimizer).items()}
            if isinstance(event, Step | Skipped):
                changed.append((event.step, type(event), not same(now, before)))
                assert not isinstance(event, Skipped) or same(state, moments)
            before, moments = now, state
        assert changed == [
            (1, Step, True),
            (2, Skipped, False),
            (3, Skipped, False),
            (4, Step, True),
            (5, Step, True),
        ]
        assert trainer.progress.skipped == 2
        assert all(one.isfinite().all() for one in kept(trainer).tensors.values())

    def test_skips_in_a_row_are_counted(self, make, spoil):
        spoil({2, 3, 5})
        found = [(event.step, event.consecutive) for event in make(steps=6).events() if isinstance(event, Skipped)]
        assert found == [(2, 1), (3, 2), (5, 1)]

    def test_five_in_a_row_end_the_run(self, make, spoil):
        spoil(range(3, 100))
        trainer = make(steps=50)
        seen = []
        good = None
        with pytest.raises(TrainingError) as caught:
            for event in trainer.events():
                seen.append(type(event))
                good = weights_of(trainer.model) if isinstance(event, Step) else good
        assert seen == [Step, Step, *[Skipped] * 5]
        message = str(caught.value)
        assert message.startswith("step 7: the loss was not finite 5 times in a row; ") and "\n" not in message
        assert str(trainer.folder.path) in message
        checkpoint = trainer.folder.read_checkpoint()
        assert checkpoint.state["step"] == 7 and checkpoint.state["skipped"] == 5
        assert same(checkpoint.weights, good)

    def test_four_in_a_row_do_not(self, make, spoil):
        spoil({2, 3, 4, 5, 7, 8, 9, 10})
        assert isinstance(list(make(steps=12).events())[-1], Finished)

    def test_one_spoilt_batch_spoils_its_update_only(self, make, spoil):
        spoil({2})
        events = [type(event) for event in make(steps=3, accumulate=2).events()]
        assert events[:3] == [Skipped, Step, Step]


NOT_FINITE = UpdateResult(lambda: UpdateStatistics(math.nan, 1.0), deferred=True)


class TestDeferredStatistics:
    """On a GPU the statistics of an update are read only after the next was started; here a CPU does the same."""

    def defer(self, trainer):
        update, reads = trainer.update, []

        def deferred(batches, **keywords):
            result, number = update(batches, **keywords), trainer.progress.step + 1

            def statistics():
                reads.append((number, trainer.progress.step))
                return result.statistics()

            return UpdateResult(statistics, deferred=True)

        trainer.update = deferred
        return reads

    @pytest.mark.parametrize(("validate_every", "save_every"), [(0, 0), (2, 0), (0, 3), (2, 2), (1, 1), (5, 5)])
    def test_events_are_the_same_in_the_same_order(self, make, validate_every, save_every):
        found = []
        for name in ("now", "later"):
            given = {"validate": FakeValidation(1, 2)} if validate_every else {}
            trainer = make(name=name, steps=5, validate_every=validate_every, save_every=save_every, **given)
            reads = self.defer(trainer) if name == "later" else None
            events = list(trainer.events())
            found.append([(event.step, type(event), getattr(event, "loss", None)) for event in events])
            state = trainer.folder.read_checkpoint().state
            assert state["step"] == 5 and all(event.seconds >= 0 for event in events if isinstance(event, Step))
        assert found[0] == found[1]
        due = {step for every in (validate_every, save_every) if every for step in range(every, 6, every)}
        assert reads == [(step, step if step in due or step == 5 else step + 1) for step in range(1, 6)]

    def test_skipped_updates_are_reported_and_counted(self, make, monkeypatch):
        trainer = make(steps=7)
        self.defer(trainer)
        inner, calls = trainer.update, iter(range(1, 100))

        def spoilt(batches, **keywords):
            return NOT_FINITE if next(calls) in (2, 3, 7) else inner(batches, **keywords)

        trainer.update = spoilt
        seen = [(event.step, type(event)) for event in trainer.events() if isinstance(event, Step | Skipped)]
        assert seen == [(1, Step), (2, Skipped), (3, Skipped), (4, Step), (5, Step), (6, Step), (7, Skipped)]
        assert trainer.folder.read_checkpoint().state["skipped"] == 3

    def test_five_in_a_row_end_the_run(self, make):
        trainer = make(steps=50)
        trainer.update = lambda batches, **_: NOT_FINITE
        seen = []
        with pytest.raises(TrainingError, match=r"^step 5: the loss was not finite 5 times in a row; "):
            seen += [event.step for event in trainer.events()]
        assert trainer.folder.read_checkpoint().state["skipped"] == 5


class TestWhatIsKept:
    def test_the_best(self, make):
        validation = FakeValidation(1, 5, 3, 4)
        trainer = make(steps=4, validate=validation)
        events = list(trainer.events())
        assert [event.is_best for event in events if isinstance(event, Validation)] == [True, True, False, False]
        assert same(kept(trainer).tensors, validation.seen[1]) and kept(trainer).metadata["step"] == "2"
        assert events[-1].best_step == 2
        assert not same(weights_of(trainer.model), validation.seen[1])

    @pytest.mark.parametrize(("choose", "step", "validations"), [("best", 2, 4), ("last", 4, 4), ("average", 2, 5)])
    def test_as_training_choose_says(self, make, choose, step, validations):
        validation = FakeValidation(1, 5, 3, 4, 2)
        trainer = make(steps=4, validate=validation, average=2, choose=choose)
        finished = list(trainer.events())[-1]
        assert len(validation.seen) == validations, "the mean is validated only if it may be delivered"
        assert same(kept(trainer).tensors, validation.seen[step - 1]) and kept(trainer).metadata["step"] == str(step)
        assert (finished.weights, finished.weight_steps) == ("last" if choose == "last" else "best", (step,))
        assert finished.best_step == 2

    def test_the_last_are_validated_wherever_training_ends(self, make):
        validation = FakeValidation(5, 1)
        trainer = make(steps=5, validate=validation, validate_every=2, choose="last", save_every=1)
        steps = [event.step for event in trainer.events() if isinstance(event, Validation)]
        assert steps == [2, 4, 5] and json.loads(kept(trainer).metadata["validation"])["loss"] == -1

    def test_an_average_of_the_weights_takes_their_place(self, make):
        validation = FakeValidation(1, 5, 3, 4)
        trainer = make(steps=4, validate=validation, ema=0.5)
        list(trainer.events())
        assert same(kept(trainer).tensors, validation.seen[1])
        assert same(validation.seen[3], trainer.moving_average.averages)
        assert not same(weights_of(trainer.model), validation.seen[3]), "the model keeps its own weights"

    def test_of_equals_the_first(self, make):
        validation = FakeValidation(1, 2, 2)
        trainer = make(steps=4, validate=validation)
        assert list(trainer.events())[-1].best_step == 2
        assert same(kept(trainer).tensors, validation.seen[1])

    def test_without_validation_the_last(self, make):
        trainer = make(steps=3)
        assert list(trainer.events())[-1].best_step == 3
        assert same(kept(trainer).tensors, weights_of(trainer.model)) and kept(trainer).metadata["step"] == "3"

    @pytest.mark.parametrize(
        ("average", "scores", "indices"),
        [
            (2, (1, 5, 3, 4), (1, 3)),
            (3, (1, 5, 3, 4), (1, 2, 3)),
            (2, (4, 3, 2, 1), (0, 1)),
            (9, (1, 2, 3, 4), range(4)),
        ],
    )
    def test_the_mean_of_the_best(self, make, average, scores, indices):
        validation = FakeValidation(*scores, 9)
        trainer = make(steps=4, validate=validation, average=average)
        events = list(trainer.events())
        chosen = [validation.seen[index] for index in indices]
        expected = {name: sum(one[name].double() for one in chosen) / len(chosen) for name in weights_of(trainer.model)}
        found = {name: one.double() for name, one in kept(trainer).tensors.items()}
        assert same(found, expected, atol=1e-7, rtol=1e-6)
        names = sorted(file.name for file in trainer.folder.best.iterdir())
        assert names == sorted(f"step-{index + 1}.safetensors" for index in indices)
        steps = tuple(index + 1 for index in indices)
        assert events[-2] == Averaged(4, steps, -9, 2.0, {}, is_best=True)
        assert (events[-1].weights, events[-1].weight_steps) == ("mean", steps)
        metadata = kept(trainer).metadata
        assert metadata["weights"] == "mean" and metadata["step"] == ",".join(map(str, steps))
        assert json.loads(metadata["validation"])["loss"] == -9
        assert same(weights_of(trainer.model), validation.seen[3]), "the model is as training left it"

    @pytest.mark.parametrize(("score", "kind"), [(4.9, "best"), (5, "best"), (5.1, "mean"), (math.nan, "best")])
    def test_the_better_of_the_best_and_their_mean(self, make, score, kind):
        validation = FakeValidation(1, 5, 3, 4, score)
        trainer = make(steps=4, validate=validation, average=2)
        events = list(trainer.events())
        assert (events[-1].weights, events[-2].is_best) == (kind, kind == "mean")
        found = kept(trainer)
        assert found.metadata["weights"] == kind and same(found.tensors, validation.seen[4 if kind == "mean" else 1])
        assert found.metadata["step"] == ("2" if kind == "best" else "2,4")

    def test_of_equal_scores_the_lower_loss(self, make):
        def validate(model):
            return ValidationScores(next(losses), 2.0, {"bleu": 7.0}, 7.0)

        for last, kind in ((1.0, "best"), (0.5, "mean")):
            losses = iter([1.0, 3.0, 2.0, 2.0, last])
            trainer = make(name=kind, steps=4, validate=validate, average=4)
            assert list(trainer.events())[-1].weights == kind

    def test_a_mean_is_not_delivered_before_it_is_validated(self, make):
        """Whenever the process is killed, model.safetensors holds weights with the score that its metadata says."""
        validation = FakeValidation(1, 2, 1.5, 3, 9)
        trainer = make(steps=4, validate=validation, average=3, save_every=1)
        for event in trainer.events():
            if isinstance(event, Validation | Saved):
                tensors, metadata = kept(trainer)
                score = -json.loads(metadata["validation"])["loss"]
                assert same(tensors, validation.seen[validation.scores.index(score)]) and metadata["weights"] == "best"

    def test_a_finished_run_that_is_resumed_delivers_the_same(self, make):
        first = make(steps=4, validate=FakeValidation(1, 5, 3, 4, 9), average=2)
        list(first.events())
        before = first.folder.model.read_bytes()
        again = make(steps=4, validate=FakeValidation(9), average=2)
        again.restore()
        assert [type(event) for event in again.events()] == [Averaged, Finished]
        assert again.folder.model.read_bytes() == before

    def test_a_run_whose_every_validation_diverged(self, make):
        """The last weights, and metadata that say so."""
        trainer = make(steps=3, validate=FakeValidation(-math.inf, math.nan, -math.inf))
        events = list(trainer.events())
        assert not any(event.is_best for event in events if isinstance(event, Validation))
        metadata = kept(trainer).metadata
        assert metadata["weights"] == "last" and json.loads(metadata["validation"])["loss"] == math.inf

    def test_at_every_moment(self, make):
        validation = FakeValidation(1, 2, 1, 3)
        trainer = make(steps=4, validate=validation)
        found = [kept(trainer).metadata["step"] for event in trainer.events() if isinstance(event, Validation)]
        assert found == ["1", "2", "2", "4"]

    def test_a_score_that_is_nan_is_never_the_best(self, make):
        validation = FakeValidation(math.nan, 1, math.nan, 2)
        trainer = make(steps=4, validate=validation)
        events = list(trainer.events())
        assert [event.is_best for event in events if isinstance(event, Validation)] == [False, True, False, True]
        assert events[-1].best_step == 4
        assert same(kept(trainer).tensors, validation.seen[3])


class TestStopping:
    def test_by_patience(self, make):
        trainer = make(steps=50, validate=FakeValidation(3, 5, 4, 5), patience=2)
        events = list(trainer.events())
        assert events[-1] == Finished(4, "patience", events[-1].seconds, 2, "best", (2,))
        assert trainer.folder.read_checkpoint().state["step"] == 4

    def test_a_gain_renews_patience(self, make):
        events = list(make(steps=50, validate=FakeValidation(1, 0, 2, 1, 3, 1, 1), patience=2).events())
        assert (events[-1].step, events[-1].reason, events[-1].best_step) == (7, "patience", 5)

    def test_no_patience_is_endless_patience(self, make):
        events = list(make(steps=8, validate=FakeValidation(5, 1), patience=0).events())
        assert (events[-1].step, events[-1].reason) == (8, "steps")

    def test_a_plateau_lowers_the_rate(self, make):
        settings = {"schedule": "plateau", "learning_rate": 0.1, "decay": 0.5, "decay_patience": 2}
        events = make(steps=7, validate=FakeValidation(5, 1), **settings).events()
        rates = [event.learning_rate for event in events if isinstance(event, Step)]
        assert rates == pytest.approx([0.1, 0.1, 0.1, 0.05, 0.05, 0.025, 0.025])

    def test_other_schedules_have_no_plateau(self, make):
        events = make(steps=6, validate=FakeValidation(5, 1), decay_patience=0, learning_rate=0.1).events()
        assert {event.learning_rate for event in events if isinstance(event, Step)} == {0.1}


class TestEvents:
    def test_in_order(self, make, capfd):
        trainer = make(steps=5, validate=FakeValidation(1, 2), validate_every=2, save_every=2)
        seen = [(event.step, type(event)) for event in trainer.events()]
        wanted = [
            (1, Step),
            (2, Step),
            (2, Validation),
            (2, Saved),
            (3, Step),
            (4, Step),
            (4, Validation),
            (4, Saved),
            (5, Step),
            (5, Saved),
            (5, Finished),
        ]
        assert seen == wanted
        assert capfd.readouterr() == ("", "")

    def test_the_last_step_is_saved_even_where_it_is_no_multiple(self, make):
        trainer = make(steps=3, save_every=2)
        saved = [event for event in trainer.events() if isinstance(event, Saved)]
        assert saved[-1] == Saved(3, str(trainer.folder.training / "step-3"))
        assert trainer.folder.read_checkpoint().state["step"] == 3

    def test_every_event_is_a_line_of_json(self, make):
        for event in make(steps=2, validate=FakeValidation(1)).events():
            record = json.loads(json.dumps(event.record()))
            assert record["event"] == type(event).__name__.lower()
            assert set(record) == {"event", *(field.name for field in fields(event))}

    def test_every_pair_is_read_once_an_epoch(self, make):
        data = pairs(24)
        tokens = {}
        for event in make(steps=12, data=data).events():
            if isinstance(event, Step):
                tokens.setdefault(event.epoch, []).append((event.source_tokens, event.target_tokens))
        assert len(tokens) >= 3
        for epoch in sorted(tokens)[:-1]:
            totals = tuple(sum(column) for column in zip(*tokens[epoch], strict=True))
            assert totals == (data.source.lengths.sum(), data.target.lengths.sum())
        assert all(max(one) <= 40 for many in tokens.values() for one in many)

    def test_waiting_for_a_batch_is_part_of_a_step(self, make):
        steps = [event for event in make(steps=5, accumulate=2).events() if isinstance(event, Step)]
        assert len(steps) == 5 and all(0 <= event.data_wait <= event.seconds for event in steps)

    def test_parts_come_and_go_with_their_steps(self, make):
        data = pairs(24)
        parts = Part(0, 10, last_step=3), Part(10, 14, first_step=4)
        trainer = make(steps=8, data=StoredCorpus(data, parts), batch_tokens=10_000)
        steps = [event for event in trainer.events() if isinstance(event, Step)]
        lengths = data.target.lengths
        assert [event.target_tokens for event in steps] == [lengths[:10].sum()] * 3 + [lengths[10:].sum()] * 5
        assert [event.epoch for event in steps] == [0, 1, 2, 0, 1, 2, 3, 4]
        state = trainer.folder.read_checkpoint().state
        assert [state[name] for name in Position._fields] == [1, 5, 0, 0]

    @every_model
    def test_the_same_seed_gives_the_same_weights(self, make, model):
        dropout = model.model_copy(update={"dropout": 0.3})
        found = []
        for name, seed in (("a", 1), ("b", 1), ("c", 2)):
            trainer = make(name=name, seed=seed, model=dropout)
            list(trainer.events())
            found.append(weights_of(trainer.model))
        assert same(found[0], found[1]) and not same(found[0], found[2])

    @every_model
    def test_a_restored_trainer_goes_on_the_same_way(self, make, model, monkeypatch):
        self.check_restoring(make, monkeypatch, model, "alike")

    @pytest.mark.parametrize(
        ("data", "read", "early"), [("mixed", 4, False), ("stages", 1, True), ("stages", 2, False), ("stages", 3, True)]
    )
    def test_a_restored_trainer_goes_on_the_same_way_wherever_it_stands(self, make, data, read, early, monkeypatch):
        """A thread that makes batches ahead, as on a GPU, has gone on; a checkpoint knows what was trained on."""
        if early:
            monkeypatch.setattr(loop, "draw_steps", lambda *given, **named: prefetch(draw_steps(*given, **named)))
        self.check_restoring(make, monkeypatch, MODEL, data, read=read, forcing="teacher")

    SOURCES = {  # noqa: RUF012
        "alike": StoredCorpus(pairs()),
        "mixed": StoredCorpus(pairs(), (Part(0, 3, variants=2, weight=1.0), Part(6, 18, weight=2.0))),
        "stages": StoredCorpus(
            pairs(), (Part(0, 10, last_step=2), Part(10, 8, first_step=2), Part(18, 6, first_step=4))
        ),
    }

    def check_restoring(self, make, monkeypatch, model, data, *, read=3, forcing="scheduled"):
        dropout = model.model_copy(update={"dropout": 0.3})
        given = {"data": self.SOURCES[data], "model": dropout, "steps": 6}
        given |= {"forcing": forcing, "sampling": 0.9, "accumulate": 2}
        straight = make(name="straight", **given)
        list(straight.events())
        first = make(name="halved", **given)
        events = first.events()
        for _ in range(read):
            next(events)
        first.save()
        next(events)  # lost
        monkeypatch.setattr(first, "save_unfinished", lambda: None)
        events.close()
        second = make(name="halved", seed=1, **given)
        torch.rand(7)
        second.restore()
        assert second.progress.step == read
        list(second.events())
        assert same(weights_of(straight.model), weights_of(second.model))
        assert kept(straight).tensors.keys() == kept(second).tensors.keys()
        assert same(kept(straight).tensors, kept(second).tensors)
        assert second.progress.position == straight.progress.position


@pytest.mark.parametrize(
    ("shard", "world_size", "expected"), [("full", 2, True), ("none", 2, False), ("full", 1, False)]
)
def test_what_is_sharded(shard, world_size, expected, make):
    """The result is the same: only the setting and the number of workers say whether it is."""
    made = make(shard=shard)
    context = replace(made.context, workers=Workers(world_size=world_size))
    assert Trainer(made.model, made.data, context, folder=made.folder).sharded is expected
