"""TensorBoard: the events pass unchanged, with or without it."""

import sys
import traceback

import pytest

from weft.apps.cli.terminal.tensorboard import _written, with_tensorboard
from weft.pairs.race.events import RaceSkipped
from weft.training.events import Validation


def failing_events():
    yield Validation(step=1, loss=2.0, perplexity=7.4, metrics={"bleu": 3.0})
    raise ValueError("of the training loop")


def test_a_missing_package_is_not_part_of_a_later_traceback(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ValueError, match="of the training loop") as caught:
        list(with_tensorboard(failing_events(), tmp_path))
    assert caught.value.__context__ is None
    assert "tensorboard" not in "".join(traceback.format_exception_only(caught.value))


def test_scalars_are_written_and_the_writer_is_closed_even_after_an_error(monkeypatch, tmp_path):
    calls = []

    class Writer:
        def __init__(self, folder):
            calls.append(folder)

        def add_scalar(self, name, value, step):
            calls.append((name, value, step))

        def close(self):
            calls.append("closed")

    monkeypatch.setattr("weft.apps.cli.terminal.tensorboard._import_writer", lambda: Writer)
    with pytest.raises(ValueError, match="of the training loop"):
        list(with_tensorboard(failing_events(), tmp_path))
    assert calls == [str(tmp_path / "tensorboard"), ("valid/loss", 2.0, 1), ("valid/bleu", 3.0, 1), "closed"]


def test_the_run_folder_of_a_race_is_not_created_before_the_race_is_decided(tmp_path):
    events = [RaceSkipped(0, "a reason")]
    assert list(_written(iter(events), writer_class=None, folder=tmp_path / "run")) == events
