"""``weft train --watch``: a service from the first event to the last."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from weft.apps.cli.terminal import watch
from weft.errors import RecipeError
from weft.training.events import Event


class Service:
    """In place of a process."""

    def __init__(self, *, stubborn: bool = False) -> None:
        self.calls: list[str] = []
        self.stubborn = stubborn

    def terminate(self) -> None:
        self.calls.append("terminate")

    def kill(self) -> None:
        self.calls.append("kill")

    def wait(self, timeout: float | None = None) -> int:
        self.calls.append("wait")
        if self.stubborn and timeout is not None:
            raise subprocess.TimeoutExpired("weft", timeout)
        return 0


def test_it_runs_while_training_does(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    service, folders = Service(), []
    monkeypatch.setattr(watch, "start_service", lambda folder: folders.append(folder) or service)
    events = [Event(1), Event(2)]
    watched = watch.with_watch(iter(events), tmp_path)
    assert not folders
    assert next(watched) is events[0] and folders == [tmp_path] and not service.calls
    assert list(watched) == events[1:]
    assert folders == [tmp_path] and service.calls == ["terminate", "wait"]


def test_it_ends_with_an_error_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    service = Service(stubborn=True)
    monkeypatch.setattr(watch, "start_service", lambda folder: service)

    def failing() -> object:
        yield Event(1)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(watch.with_watch(failing(), tmp_path))
    assert service.calls == ["terminate", "wait", "kill", "wait"]


def test_without_fastapi(monkeypatch: pytest.MonkeyPatch) -> None:
    watch.check_watch()
    monkeypatch.setattr(watch, "find_spec", lambda name: None)
    with pytest.raises(RecipeError, match="--watch: fastapi is not installed; pip install 'weft-seq2seq\\[serve\\]'"):
        watch.check_watch()
