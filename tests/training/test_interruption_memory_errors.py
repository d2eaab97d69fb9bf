"""A run that runs out of memory: it continues in parts, or stops with a checkpoint. Errors are simulated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from weft.errors import TrainingError, WeftWarning, is_out_of_memory
from weft.recipe import Recipe
from weft.runs.weights import read_tensors
from weft.training.events import Event, Finished, Saved, Step, Validation
from weft.training.train import train
from weft.training.update import PlainUpdate
from weft.training.validation import validation_loss

Tiny = Callable[..., Recipe]
CHANGES = {"training.steps": 6, "training.validate_every": 3, "training.save_every": 0, "model.dropout": 0.0}
IN_PARTS = "not enough memory for a whole batch; continuing in parts, with the same results"


@pytest.fixture(autouse=True)
def plain_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.training.trainer.make_update", lambda *given: PlainUpdate(*given[:3]))


@contextmanager
def little_memory(rows: int, *, first: int) -> Iterator[None]:
    """Only so many rows fit in memory, from the ``first`` update on."""
    updates = 0
    update, add_gradients = PlainUpdate._update, PlainUpdate.add_gradients

    def counted(self: Any, *given: Any) -> Any:
        nonlocal updates
        updates += 1
        return update(self, *given)

    def limited(self: Any, batch: Any, *given: Any) -> Any:
        if updates >= first and batch.target.rows > rows:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return add_gradients(self, batch, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PlainUpdate, "_update", counted)
        patch.setattr(PlainUpdate, "add_gradients", limited)
        yield


def losses(events: list[Event]) -> list[float]:
    return [event.loss for event in events if isinstance(event, Step | Validation)]


def test_training_in_parts(tiny: Tiny, tmp_path: Path) -> None:
    """The losses are those of a run with enough memory."""
    expected = losses([*train(tiny(CHANGES), tmp_path / "whole")])
    with little_memory(2, first=3), pytest.warns(WeftWarning) as warned:
        events = [*train(tiny(CHANGES), tmp_path / "parts")]
    assert [str(one.message) for one in warned] == [f"training: {IN_PARTS}"]
    assert losses(events) == pytest.approx(expected, rel=1e-4) and isinstance(events[-1], Finished)


@pytest.mark.filterwarnings("ignore::weft.errors.WeftWarning")
def test_a_run_that_must_stop_has_saved(tiny: Tiny, tmp_path: Path) -> None:
    """It ends, once resumed, as if it had never stopped."""
    expected, run = [*train(tiny(CHANGES), tmp_path / "whole")], tmp_path / "run"
    events: list[Event] = []
    with little_memory(0, first=5), pytest.raises(TrainingError) as error:
        for event in train(tiny(CHANGES), run):
            events.append(event)
    assert str(error.value) == (
        f"step 5: not enough memory on cpu, even for one pair at a time; {run} is saved at step 4; free some memory, "
        f"which other processes may hold, and continue with: weft train {run} --resume"
    )
    assert is_out_of_memory(error.value) and isinstance(events[-1], Saved) and events[-1].step == 4
    resumed = [*train(tiny(CHANGES), run, resume=True)]
    assert losses(events) + losses(resumed) == losses(expected)
    weights = [read_tensors(folder / "model.safetensors").tensors for folder in (tmp_path / "whole", run)]
    assert all(torch.equal(tensor, weights[1][name]) for name, tensor in weights[0].items())


def test_other_errors_save_nothing(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise ValueError("bad")

    monkeypatch.setattr(PlainUpdate, "add_gradients", fail)
    with pytest.raises(ValueError, match="bad"):
        list(train(tiny(CHANGES), tmp_path / "run"))


@pytest.mark.parametrize("sparse", [False, True])
def test_a_validation_in_parts(tiny: Tiny, tmp_path: Path, sparse: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loss is the same: of log-probabilities, and of sparse outputs."""
    from weft.data.store.token_store import PairStore, TokenStore
    from weft.models.build import build_model

    loss = "entmax15" if sparse else "cross_entropy"
    model = build_model(tiny().model, source_size=9, target_size=9, loss=loss).eval()
    rows = [[3, 4, 2], [5, 2], [6, 7, 8, 2], [4, 2], [3, 2]]
    pairs = PairStore(TokenStore.of(rows), TokenStore.of(rows[::-1]))
    device = torch.device("cpu")
    expected = validation_loss(model, pairs, device, sparse=sparse, begin=1)
    batch_of = PairStore.batch

    def limited(self: Any, rows: Any) -> Any:
        if len(rows) > 2:
            raise torch.OutOfMemoryError
        return batch_of(self, rows)

    monkeypatch.setattr(PairStore, "batch", limited)
    name = "validation" if sparse else "scoring"
    with pytest.warns(WeftWarning, match=f"^{name}: {IN_PARTS}$"):
        assert validation_loss(model, pairs, device, sparse=sparse, begin=1) == pytest.approx(expected)
