"""What is wrong with a run, by made-up curves: each rule says it, and says nothing of a run as it should be."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from weft.data.batching.batches import StoredCorpus
from weft.data.store.token_store import PairStore, TokenStore
from weft.recipe import Recipe
from weft.recipe.data import NamedCorpus
from weft.training.diagnostics import (
    Curves,
    Diagnostics,
    Loss,
    diverges,
    does_not_learn,
    few_steps,
    nothing_right,
    overfits,
    target_entropy,
    token_entropy,
    too_short,
)
from weft.training.events import Diagnosis, Event, Finished, Fitted, Skipped, Started, Step, Validation
from weft.training.train import train

Tiny = Callable[[dict[str, Any]], Recipe]


def curves(
    losses: Sequence[float], valid: Sequence[float] = (), metric: Sequence[float] = (), *, steps: int = 1_000
) -> Curves:
    """A run with as many blocks of ten updates as there are losses, and validations spread over them."""
    made = Curves(steps, [Loss(10 * number, loss) for number, loss in enumerate(losses, 1)])
    best = math.inf
    for number, loss in enumerate(valid, 1):
        metrics = {"exact_match": metric[number - 1]} if metric else {}
        score = -metric[number - 1] if metric else loss
        is_best, best = score < best, min(score, best)
        step = 10 * len(losses) * number // len(valid)
        made.validations.append(Validation(step, loss, math.exp(loss), metrics, is_best))
    return made


def falling(count: int, start: float = 5.0, end: float = 0.5) -> list[float]:
    """A loss as it should be, with noise."""
    random = Random(1)
    return [
        end + (start - end) * math.exp(-5 * number / count) + 0.1 * random.uniform(-1, 1) for number in range(count)
    ]


def test_a_run_as_it_should_be() -> None:
    run = curves(falling(100), falling(20, end=0.9))
    assert overfits(run) is None and diverges(run) is None and does_not_learn(run, 3.0, 50) is None
    by_metric = curves(falling(100), [2, 1.5, 1.2, 1.1, 1.0, 1.1, 1.2], [0, 0, 5, 20, 40, 45, 44])
    assert overfits(by_metric) is None and nothing_right(by_metric) is None


def test_few_pairs_are_named() -> None:
    advices = {0: "more pairs", 1: "more pairs (1 pair is very little)", 120: "more pairs (120 pairs are very few)"}
    advices[29_000] = "more pairs (29,000 pairs)"
    assert {pairs: Curves(100, pairs=pairs).more_pairs for pairs in advices} == advices


class TestDoesNotLearn:
    def test_a_loss_that_is_that_of_guessing(self) -> None:
        message = does_not_learn(curves([3.1, 3.0, 2.99, 3.02] * 5), 3.0, 0)
        assert message is not None and message.startswith(
            "does not learn: after 200 of 1,000 steps the training loss has not been below 2.99; guessing tokens by "
        )

    @pytest.mark.parametrize(
        ("losses", "entropy", "warmup"),
        [
            ([3.1] * 19, 3.0, 0),  # less than a fifth
            ([3.1] * 29, 3.0, 200),  # hardly after the warmup
            ([3.1, 2.9, 3.1] * 20, 3.0, 0),  # it was lower
            ([3.1] * 50, None, 0),  # a stream, or another loss
            ([], 3.0, 0),
        ],
    )
    def test_too_early_to_say(self, losses: list[float], entropy: float | None, warmup: int) -> None:
        assert does_not_learn(curves(losses), entropy, warmup) is None

    def test_of_a_short_run(self) -> None:
        assert does_not_learn(curves([3.1] * 9, steps=90), 3.0, 0) is None
        assert does_not_learn(curves([3.1] * 10, steps=100), 3.0, 0) is not None

    def test_nothing_is_right(self) -> None:
        message = nothing_right(curves(falling(20), [2, 1.5, 1], [0.0, 0.0, 0.0]))
        assert message is not None and message.startswith("does not learn: no validation has found an output ")
        assert nothing_right(curves(falling(20), [2, 1.5, 1], [0.0, 0.0, 0.5])) is None
        assert nothing_right(curves(falling(9), [2, 1.5, 1], [0.0, 0.0, 0.0])) is None
        assert nothing_right(curves(falling(20), [2, 1.5, 1])) is None


class TestDiverges:
    def test_a_loss_that_rises(self) -> None:
        message = diverges(curves([*falling(20, end=1.0), 2.5, 3.5, 4.5]))
        assert message is not None and message.endswith(
            " and is 4.50 at step 230; lower training.learning_rate, or raise training.warmup"
        )

    @pytest.mark.parametrize(
        "losses",
        [
            [*falling(20, end=1.0), 2.5, 3.0],  # two blocks
            [*falling(20, end=0.05), 0.4, 0.5, 0.4],  # little in nats
            [*falling(20, end=4.0), 5.0, 5.0, 5.0],  # little in proportion
            [3.0, 1.0, 5.0, 5.0, 5.0],  # too early
        ],
    )
    def test_ups_and_downs(self, losses: list[float]) -> None:
        assert diverges(curves(losses)) is None


class TestOverfits:
    def test_the_validation_loss_rises(self) -> None:
        message = overfits(curves(falling(60, end=0.1), [3.0, 2.0, 2.1, 2.4, 2.6, 3.0]))
        assert message is not None and message.startswith("overfits: from step 200 to 600 the validation loss has ")
        assert "; the best checkpoint is kept; " in message
        last = overfits(replace(curves(falling(60, end=0.1), [3.0, 2.0, 2.1, 2.4, 2.6, 3.0]), delivers_last=True))
        assert last is not None and "; the last checkpoint is delivered (training.choose); " in last
        assert "risen from 2.00 to 3.00, while the training loss fell from " in message

    def test_a_metric_that_falls_with_it(self) -> None:
        losses, valid = falling(60, end=0.1), [3.0, 2.0, 2.1, 2.4, 2.6, 3.0]
        assert overfits(curves(losses, valid, [10, 50, 49, 40, 38, 30])) is not None
        assert overfits(curves(losses, valid, [10, 40, 50, 49, 50, 49])) is None, "the loss alone"

    def test_a_resumed_run_whose_best_validation_was_before(self) -> None:
        resumed = curves(falling(60, end=0.1), [2.0, 2.1, 2.4, 2.6, 3.0, 3.1], [50, 49, 40, 38, 30, 20])
        resumed.validations = [replace(event, is_best=False) for event in resumed.validations]
        assert overfits(resumed) is None and too_short(resumed) is None

    @pytest.mark.parametrize(
        ("losses", "valid"),
        [
            (falling(60), [3.0, 2.0, 2.05, 2.1, 2.05, 2.1]),  # by little
            (falling(60), [3.0, 2.0, 3.0, 1.9, 3.0, 2.5]),  # not for long
            ([2.0] * 60, [3.0, 2.0, 2.4, 2.6, 2.8, 3.0]),  # the training loss does not fall
            (falling(60), []),
        ],
    )
    def test_it_does_not(self, losses: list[float], valid: list[float]) -> None:
        assert overfits(curves(losses, valid)) is None


class TestTooShort:
    def test_still_getting_better(self) -> None:
        assert too_short(curves(falling(60), [3, 2.5, 2, 1.8, 1.6, 1.4])) == (
            "ended while still getting better: validation loss 1.80 at step 400, 1.40 at step 600; "
            "more minutes would help"
        )
        assert "exact_match 30.00 at step 400, 45.00" in str(
            too_short(curves(falling(60), [3] * 6, [0, 10, 20, 30, 40, 45]))
        )

    def test_too_few_validations_to_tell(self) -> None:
        run = curves(falling(60), [3.0, 2.0])
        assert few_steps(run, 9_000) == "only 1,000 of 9,000 steps fit into the time; more minutes would help"
        assert few_steps(run, 1_500) is None
        assert few_steps(curves(falling(60), [3.0, 2.0, 1.0]), 9_000) is None

    def test_a_metric_that_is_still_at_its_worst(self) -> None:
        run = curves(falling(60), [3, 2.5, 2, 1.8, 1.6, 1.4], [0.0] * 6)
        run.validations = [replace(event, is_best=True) for event in run.validations]
        assert "better: validation loss 1.80 at step 400, 1.40 at step 600" in str(too_short(run))

    @pytest.mark.parametrize(
        "valid",
        [[3, 2, 1.5, 1.4, 1.39, 1.39], [1, 0.03, 0.02, 0.01, 0.002, 0.001], [3, 2, 1.4, 1.5, 1.6, 1.7], [3.0, 2.0], []],
    )
    def test_it_was_as_good_as_it_gets(self, valid: list[float]) -> None:
        assert too_short(curves(falling(60), valid)) is None


class TestEntropy:
    def test_of_tokens(self) -> None:
        """Against the definition, in a loop."""
        tokens = [3, 3, 3, 7, 7, 2, 9]
        shares = [tokens.count(token) / len(tokens) for token in set(tokens)]
        assert token_entropy(np.array(tokens)) == pytest.approx(-sum(share * math.log(share) for share in shares))
        assert token_entropy(np.array([5, 5])) == 0.0

    def test_of_a_corpus(self) -> None:
        store = PairStore(TokenStore.of([[1, 2], [1]]), TokenStore.of([[4, 2], [5, 2]]))
        assert target_entropy(StoredCorpus(store)) == pytest.approx(token_entropy(np.array([4, 2, 5, 2])))
        assert target_entropy(object()) is None  # type: ignore[arg-type]


def step(number: int, loss: float) -> Step:
    return Step(number, loss, 0.001, 1.0, 400, 400, 0.5, 0.0, 1)


STARTED = Started(0, 120, {}, 8, 8, 100, "cpu", 300, "runs/x")
FINISHED = Finished(300, "steps", 1.0, 300)


class TestWatching:
    @staticmethod
    def watched(diagnostics: Diagnostics, events: Iterable[Event]) -> list[Event]:
        def generator() -> Iterator[Event]:
            yield from events

        return list(diagnostics.watch(generator()))  # type: ignore[arg-type]

    def make(self, tiny: Tiny, **changes: Any) -> Diagnostics:
        recipe = tiny({"training.steps": 300, "training.warmup": 10, **changes})
        store = TokenStore.of([[3], [4], [5], [6]] * 5)
        return Diagnostics(recipe, StoredCorpus(PairStore(store, store)))

    def test_each_kind_once_and_the_end_last(self, tiny: Tiny) -> None:
        steps = [step(number, 1.5) for number in range(1, 301)]
        events = self.watched(self.make(tiny), [STARTED, *steps, FINISHED])
        kinds = [(event.step, event.kind) for event in events if isinstance(event, Diagnosis)]
        assert kinds == [(100, "does not learn")] and events[-1] == FINISHED
        diagnosis = next(number for number, event in enumerate(events) if isinstance(event, Diagnosis))
        assert events[diagnosis - 1].step == 100

    def test_skipped_updates_have_no_loss(self, tiny: Tiny) -> None:
        mixed = [step(number, 0.5) if number % 2 else Skipped(number, 1) for number in range(1, 301)]
        diagnostics = self.make(tiny)
        assert len(self.watched(diagnostics, mixed)) == 300 and len(diagnostics.curves.losses) == 15

    @pytest.mark.parametrize(
        ("fitted_steps", "reason", "told"), [(100, "steps", True), (300, "steps", False), (300, "time", True)]
    )
    def test_only_a_limit_is_too_short(self, tiny: Tiny, fitted_steps: int, reason: str, told: bool) -> None:
        validations = [Validation(10 * number, 3.0 - number / 3, 2.0, {}, is_best=True) for number in range(1, 7)]
        fitted = Fitted(0, 1, fitted_steps, 300, 0.1, 6, 1, 50)
        diagnostics = self.make(tiny, **{"training.steps": fitted_steps})
        events = self.watched(diagnostics, [fitted, *validations, Finished(300, reason, 1.0, 300)])
        assert any(isinstance(event, Diagnosis) and event.kind == "too short" for event in events[-2:-1]) == told

    def test_stages_of_a_mixture_may_jump(self, tiny: Tiny) -> None:
        jump = [step(number, 0.5 if number < 200 else 5.0) for number in range(1, 301)]
        assert any(isinstance(event, Diagnosis) for event in self.watched(self.make(tiny), jump))
        diagnostics = self.make(tiny)
        recipe = tiny({})
        later = [NamedCorpus(name="copy"), NamedCorpus(name="copy", first_step=200)]
        staged = recipe.model_copy(update={"data": recipe.data.model_copy(update={"train": later})})
        diagnostics.has_stages = Diagnostics(staged, object()).has_stages  # type: ignore[arg-type]
        assert not any(isinstance(event, Diagnosis) for event in self.watched(diagnostics, jump))

    def test_other_losses_are_not_compared(self, tiny: Tiny) -> None:
        assert self.make(tiny).entropy == pytest.approx(math.log(4))
        assert self.make(tiny, **{"training.loss": "entmax15", "training.label_smoothing": 0.0}).entropy is None
        assert self.make(tiny, **{"training.forcing": "free"}).entropy is None


def test_in_the_log_of_a_run(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.training.diagnostics.MIN_STEPS", 1)
    changes = {
        "training.steps": 2,
        "training.validate_every": 1,
        "training.metric": "exact_match",
        "data.valid_size": 2,
    }
    events = list(train(tiny(changes), tmp_path / "run"))
    assert isinstance(events[-2], Diagnosis) and isinstance(events[-1], Finished)
    log = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text("utf-8").splitlines()]
    assert log[-2] == {"event": "diagnosis", "step": 2, "kind": "does not learn", "message": events[-2].message}
    assert "with more pairs (120 pairs are very few)" in log[-2]["message"]
