"""The throughput of training: plausible numbers from a moment of a tiny recipe, and what is counted."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from weft.apps.bench import training_speed as module
from weft.apps.bench.flops import training_flops
from weft.apps.bench.training_speed import training_speed
from weft.errors import RecipeError, TrainingError
from weft.models.build import build_model
from weft.recipe import Recipe
from weft.training.events import Event, Skipped, Started, Step

TRANSFORMER = {"kind": "transformer", "layers": 2, "hidden": 8, "heads": 2, "feed_forward": 12}
TINY_TRANSFORMER = {
    f"model.{side}.{name}": value for side in ("encoder", "decoder") for name, value in TRANSFORMER.items()
}
Tiny = Callable[..., Recipe]


@pytest.fixture
def known_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peak that takes no time to measure."""
    monkeypatch.setattr(module, "peak_flops", lambda *_: 1e12)


class TestTrainingSpeed:
    @pytest.mark.parametrize("model", [{}, TINY_TRANSFORMER], ids=["lstm", "transformer"])
    def test_sane_numbers(self, tiny: Tiny, model: dict[str, Any]) -> None:
        recipe = tiny({"name": "quick", **model, "training.steps": 3})
        found = training_speed(recipe, seconds=0.3, warmup=2)
        assert (found.recipe, found.device, found.precision) == ("quick", "cpu", "fp32")
        built = build_model(recipe.model, source_size=10, target_size=10)
        assert found.parameters == sum(one.numel() for one in built.parameters())
        assert found.steps >= 1 and found.seconds >= 0.3
        assert 0 < found.step_milliseconds <= 1000 * found.seconds
        assert found.target_tokens_per_second == pytest.approx(found.source_tokens_per_second), "a copy is as long"
        tokens = found.target_tokens_per_second * found.seconds
        assert tokens == pytest.approx(round(tokens)) and 1 <= tokens / found.steps <= 64
        assert 0 < found.first_step_seconds <= found.warmup_seconds
        assert found.flops_per_second > 0 and 1e8 < found.peak_flops_per_second < 1e14
        assert 0 < found.flops_utilization < 1
        assert 2**20 < found.memory_bytes < 2**40 and found.cores > 0
        each = training_flops(built, source=1, target=1) / found.seconds * tokens
        assert found.flops_per_second == pytest.approx(each)

    @pytest.mark.usefixtures("known_peak")
    def test_its_record_is_json(self, tiny: Tiny) -> None:
        record = training_speed(tiny(), seconds=0.1, warmup=1).record()
        assert json.loads(json.dumps(record)) == record
        assert {"target_tokens_per_second", "flops_utilization", "torch", "step_milliseconds"} <= record.keys()

    @pytest.mark.parametrize(
        "changes",
        [
            {"training.schedule": "cosine"},
            {"training.schedule": "plateau"},
            {"training.metric": "bleu", "training.validate_every": 1, "training.patience": 1},
            {"training.save_every": 1},
            {"training.accumulate": 2},
            {"model.kind": "language_model"},
        ],
        ids=str,
    )
    @pytest.mark.usefixtures("known_peak")
    def test_of_any_recipe(self, tiny: Tiny, changes: dict[str, Any]) -> None:
        """It neither ends early nor validates nor saves."""
        found = training_speed(tiny({**changes, "training.steps": 1}), seconds=0.1, warmup=1)
        assert found.steps >= 1 and found.target_tokens_per_second > 0

    @pytest.mark.usefixtures("known_peak")
    def test_nothing_is_kept(self, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        training_speed(tiny(), seconds=0.1, warmup=1)
        assert list(tmp_path.iterdir()) == []

    def test_a_device_that_is_none(self, tiny: Tiny) -> None:
        with pytest.raises(RecipeError, match=r"^training.device: 'gpu' is not a device"):
            training_speed(tiny({"training.device": "gpu"}), seconds=0.1)

    def test_cores_are_those_of_training(self, tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
        def busy(*_: object) -> float:
            begun = sum(os.times()[:2])
            while sum(os.times()[:2]) - begun < 0.5:
                pass
            return 1e12

        monkeypatch.setattr(module, "peak_flops", busy)
        monkeypatch.setattr(module, "cpu_seconds", lambda: sum(os.times()[:2]))
        found = training_speed(tiny(), seconds=0.2, warmup=1)
        assert found.cores < torch.get_num_threads() + 0.5


@pytest.mark.usefixtures("known_peak")
class TestEventsThatAreNoSteps:
    """The loop's events, made up."""

    prepared = Started(
        step=0,
        pairs=1,
        dropped={},
        source_vocabulary=10,
        target_vocabulary=10,
        parameters=1,
        device="cpu",
        steps=9,
        path="",
    )

    def step(self, number: int) -> Step:
        return Step(
            number,
            loss=1.0,
            learning_rate=1.0,
            grad_norm=1.0,
            source_tokens=3,
            target_tokens=4,
            seconds=0.01,
            data_wait=0.001,
            epoch=0,
        )

    @pytest.fixture
    def one_a_second(self, monkeypatch: pytest.MonkeyPatch) -> Callable[[list[Event]], None]:
        """Have training yield these events, one every second of a clock that nothing else advances."""

        def yield_events(events: list[Event]) -> None:
            now = 0.0

            def train(*_: object) -> Iterator[Event]:
                nonlocal now
                for event in events:
                    now += 1
                    yield event

            monkeypatch.setattr(module, "train", train)
            monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now))

        return yield_events

    def test_windows(
        self, tiny: Tiny, one_a_second: Callable[[list[Event]], None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "WINDOW_SECONDS", 3)
        one_a_second([self.prepared, *(self.step(number) for number in range(1, 100))])
        measured = training_speed(tiny(), seconds=8, warmup=2)
        assert (measured.steps, measured.seconds, measured.windows) == (8, 8, [4.0, 4.0])
        assert training_speed(tiny(), seconds=2, warmup=2).windows == [], "shorter than a window"

    def test_a_run_that_ends_too_soon(self, tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
        for events in ([], [self.prepared], [self.prepared, self.step(1), self.step(2)]):
            monkeypatch.setattr(module, "train", lambda *_, events=events: iter(events))
            with pytest.raises(TrainingError, match=r"^the run ended before anything could be measured$"):
                training_speed(tiny(), warmup=2)

    def test_skipped_updates_are_not_counted(self, tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
        events = [self.prepared, self.step(1), self.step(2), Skipped(3, 1), self.step(4), self.step(5)]
        monkeypatch.setattr(module, "train", lambda *_: iter(events))
        assert training_speed(tiny(), warmup=1).steps == 3

    def test_the_last_of_the_warmup_may_be_skipped(
        self, tiny: Tiny, one_a_second: Callable[[list[Event]], None]
    ) -> None:
        one_a_second([self.prepared, self.step(1), Skipped(2, 1), self.step(3), self.step(4)])
        measured = training_speed(tiny(), warmup=2)
        assert (measured.steps, measured.seconds, measured.warmup_seconds) == (2, 2, 2)
