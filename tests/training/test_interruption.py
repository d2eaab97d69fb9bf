"""Signals during training, and a consumer that stops reading: a checkpoint is saved, and nothing of the run changes."""

import json
import os
import signal
from types import SimpleNamespace

import pytest

from fixtures.training_runs import EVERYTHING, contents
from weft.training import train as training
from weft.training import validation
from weft.training.events import Interrupted, Saved, Step, Validation
from weft.training.interruption import SignalHold
from weft.training.train import train

pytestmark = pytest.mark.filterwarnings("ignore::weft.errors.WeftWarning")


class ReceivedError(Exception):
    pass


@pytest.fixture
def handler():
    """A handler of SIGTERM that raises, in place of the operating system's, which would end the tests."""

    def receive(number, frame):
        raise ReceivedError

    previous = signal.signal(signal.SIGTERM, receive)
    yield receive
    signal.signal(signal.SIGTERM, previous)


@pytest.fixture(autouse=True)
def python_interrupts():
    """Python's own handler of SIGINT, which a shell's background job does not have: there SIGINT is ignored."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)


class TestSignalHold:
    def test_a_signal_waits_for_its_delivery(self, handler):
        hold = SignalHold()
        with hold.holding():
            os.kill(os.getpid(), signal.SIGTERM)
        assert hold.pending == signal.SIGTERM and signal.getsignal(signal.SIGTERM) is handler
        with pytest.raises(ReceivedError):
            hold.deliver(hold.pending)
        assert hold.pending == 0

    def test_a_second_one_does_not(self, handler):
        hold = SignalHold()
        with pytest.raises(ReceivedError), hold.holding():
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) is handler

    def test_ignored_signals_stay_ignored(self):
        previous = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        try:
            hold = SignalHold()
            with hold.holding():
                os.kill(os.getpid(), signal.SIGHUP)
            assert not hold.pending
        finally:
            signal.signal(signal.SIGHUP, previous)

    def test_ctrl_c_is_a_keyboard_interrupt(self):
        hold = SignalHold()
        with hold.holding():
            os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            hold.deliver(hold.pending)

    def test_a_long_computation_is_abandoned(self, handler):
        hold, finished = SignalHold(), []

        def compute():
            os.kill(os.getpid(), signal.SIGTERM)
            finished.append(True)

        with hold.holding():
            assert hold.interruptible(lambda: 3) == 3
            assert hold.interruptible(compute) is None and not finished
            assert hold.interruptible(lambda: 3) is None, "the signal is still pending"


@pytest.fixture(scope="module")
def straight(tiny, tmp_path_factory):
    """The contents of a run that was never interrupted."""
    path = tmp_path_factory.mktemp("straight") / "run"
    list(train(tiny(EVERYTHING), path))
    return contents(path)


def log(path):
    return [json.loads(line) for line in (path / "log.jsonl").read_text("utf-8").splitlines()]


class TestTraining:
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_a_signal_during_a_step(self, tiny, tmp_path, straight, handler, monkeypatch, number):
        """The step is completed and saved; the run goes on as if nothing had happened, with the validation it lacks."""
        path, events = tmp_path / "run", []
        original = training.Trainer.start_update

        def interrupted(self, steps):
            if self.progress.step == 3:
                os.kill(os.getpid(), number)
            return original(self, steps)

        monkeypatch.setattr(training.Trainer, "start_update", interrupted)
        with pytest.raises((KeyboardInterrupt, ReceivedError)):
            for event in train(tiny(EVERYTHING), path):
                events.append(event)
        assert [type(event) for event in events[-3:]] == [Step, Saved, Interrupted]
        assert events[-1] == Interrupted(4, signal.Signals(number).name, str(path / "training" / "step-4"))
        assert log(path)[-1]["event"] == "interrupted"
        monkeypatch.undo()
        resumed = list(train(tiny(EVERYTHING), path, resume=True))
        assert isinstance(resumed[1], Validation) and resumed[1].step == 4, "the signal came before the validation"
        assert contents(path) == straight

    def test_a_signal_during_a_validation(self, tiny, tmp_path, straight, handler, monkeypatch):
        """A validation is not waited for: it is done again."""
        path, validations, original = tmp_path / "run", [], validation.likelihood

        def interrupted(*arguments, **keywords):
            validations.append(1)
            if len(validations) == 2:
                os.kill(os.getpid(), signal.SIGTERM)
            return original(*arguments, **keywords)

        monkeypatch.setattr(validation, "likelihood", interrupted)
        with pytest.raises(ReceivedError):
            list(train(tiny(EVERYTHING), path))
        assert [line["event"] for line in log(path)][-2:] == ["saved", "interrupted"] and log(path)[-1]["step"] == 4
        list(train(tiny(EVERYTHING), path, resume=True))
        assert contents(path) == straight

    def test_a_signal_while_the_mean_is_validated(self, tiny, tmp_path, straight, handler, monkeypatch):
        path, original = tmp_path / "run", validation.Validator.scores_of_other

        def interrupted(self, weights):
            os.kill(os.getpid(), signal.SIGTERM)
            return original(self, weights)

        monkeypatch.setattr(validation.Validator, "scores_of_other", interrupted)
        with pytest.raises(ReceivedError):
            list(train(tiny(EVERYTHING), path))
        assert log(path)[-1] == {
            "event": "interrupted",
            "step": 7,
            "signal": "SIGTERM",
            "path": str(path / "training" / "step-7"),
        }
        monkeypatch.undo()
        list(train(tiny(EVERYTHING), path, resume=True))
        assert contents(path) == straight

    def test_a_handler_that_returns_lets_training_go_on(self, tiny, tmp_path, straight, monkeypatch):
        received, path = [], tmp_path / "run"
        previous = signal.signal(signal.SIGTERM, lambda number, frame: received.append(number))
        original = training.Trainer.start_update

        def interrupted(self, steps):
            if self.progress.step == 3 and not received:
                os.kill(os.getpid(), signal.SIGTERM)
            return original(self, steps)

        monkeypatch.setattr(training.Trainer, "start_update", interrupted)
        try:
            events = list(train(tiny(EVERYTHING), path))
        finally:
            signal.signal(signal.SIGTERM, previous)
        assert received == [signal.SIGTERM] and contents(path) == straight
        assert [event.step for event in events if isinstance(event, Saved)] == [3, 4, 6, 7]

    def test_a_consumer_that_stops_reading(self, tiny, tmp_path):
        path = tmp_path / "run"
        for event in train(tiny({"training.steps": 6, "training.validate_every": 3}), path):
            if event.step == 2:
                break
        assert [(line["event"], line["step"]) for line in log(path)][-2:] == [("step", 2), ("saved", 2)]
        assert [path.name for path in (path / "training").glob("step-*")] == ["step-2"]

    def test_a_keyboard_interrupt_of_the_consumer(self, tiny, tmp_path):
        def consume(events):
            for event in events:
                if event.step == 2:
                    raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            consume(train(tiny({"training.steps": 6}), tmp_path / "run"))
        assert [path.name for path in (tmp_path / "run" / "training").glob("step-*")] == ["step-2"]


class TestSavingByTime:
    def test_after_so_many_minutes(self, tiny, tmp_path, monkeypatch):
        """A clock by which every step takes a minute."""
        clock = {"minutes": 0}
        original = training.Trainer.start_update

        def slow(self, steps):
            clock["minutes"] += 1
            return original(self, steps)

        monkeypatch.setattr(training.Trainer, "start_update", slow)
        monkeypatch.setattr("weft.training.trainer.time", SimpleNamespace(monotonic=lambda: 60.0 * clock["minutes"]))
        for minutes, steps in ((2, [2, 4, 6, 7]), (3, [3, 6, 7]), (0, [7])):
            clock["minutes"] = 0
            changes = {"training.steps": 7, "training.save_minutes": minutes}
            events = list(train(tiny(changes), tmp_path / str(minutes)))
            assert [event.step for event in events if isinstance(event, Saved)] == steps

    def test_it_takes_two_percent_at_most(self, tiny, tmp_path, monkeypatch):
        """If saving takes a minute, 50 minutes pass until the next one."""
        clock = {"minutes": 0}
        original, save = training.Trainer.start_update, training.Trainer.save

        def slow(self, steps):
            clock["minutes"] += 10
            return original(self, steps)

        def slow_save(self, to=None):
            saved = save(self, to)
            self.save_seconds = 60.0
            return saved

        monkeypatch.setattr(training.Trainer, "start_update", slow)
        monkeypatch.setattr(training.Trainer, "save", slow_save)
        monkeypatch.setattr("weft.training.trainer.time", SimpleNamespace(monotonic=lambda: 60.0 * clock["minutes"]))
        events = list(train(tiny({"training.steps": 11}), tmp_path / "run"))
        assert [event.step for event in events if isinstance(event, Saved)] == [5, 10, 11]

    def test_may_change_when_a_run_is_resumed(self):
        assert "save_minutes" in training.CHANGEABLE
