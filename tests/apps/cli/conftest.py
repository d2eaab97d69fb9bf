"""Commands in this process: torch is imported once, and errors still go the way a user meets them."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
import typer.main

from weft.apps.cli import main


class Said(NamedTuple):
    """What a command printed."""

    stdout: str
    stderr: str


@pytest.fixture(scope="session", autouse=True)
def _parser() -> Iterator[None]:
    """Built once: typer builds the parser of all commands at every call, which takes longer than most commands here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", cache(typer.main.get_command))
        yield


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """``command("attend", run, "a b", check=2)``: what ``weft attend …`` prints, if it exits with this code."""
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")

    def command(*arguments: str | Path, check: int = 0) -> Said:
        monkeypatch.setattr(sys, "argv", ["weft", *map(str, arguments)])
        capsys.readouterr()
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        try:
            with pytest.raises(SystemExit) as ended:
                main()
        finally:  # pytest must get its own Ctrl-C, and a time limit on pytest its SIGTERM
            for number, handler in handlers.items():
                signal.signal(number, handler)
        said = Said(*capsys.readouterr())
        assert (ended.value.code or 0) == check, said.stderr
        return said

    return command


@pytest.fixture
def refusal(command: Callable[..., Said]) -> Callable[..., str]:
    """The one line that a command is refused with."""

    def refusal(*arguments: str | Path) -> str:
        said = command(*arguments, check=2)
        assert said.stdout == "" and said.stderr.startswith("weft: ") and said.stderr.count("\n") == 1
        return said.stderr.removeprefix("weft: ").rstrip("\n")

    return refusal


STACK = {"kind": "transformer", "layers": 2, "hidden": 16, "heads": 2, "feed_forward": 24}
BOTH = {f"model.{side}.{name}": value for side in ("encoder", "decoder") for name, value in STACK.items()}
ENCODER = {name: value for name, value in BOTH.items() if "encoder" in name}
LEARNED = {"positions": "learned", "max_positions": 40}
MODELS = {
    "transformer": BOTH,
    "learned": {
        **BOTH,
        "data.max_length": 15,
        **{f"model.{side}.{name}": value for side in ("encoder", "decoder") for name, value in LEARNED.items()},
    },
    "prefix": {
        **{name: value for name, value in BOTH.items() if "decoder" in name},
        "model.kind": "prefix_lm",
        "data.max_length": 15,
        **{f"model.decoder.{name}": value for name, value in LEARNED.items()},
    },
    "language": {**BOTH, "model.kind": "language_model"},
    "lstm": {},
    "copying": {"model.copy": True},
    "blind": {"model.attention.score": "none"},
    "half blind": {**ENCODER, "model.attention.score": "none"},
}


@pytest.fixture(scope="session")
def runs(tiny, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:  # type: ignore[no-untyped-def]
    """The folder of a run that was hardly trained, by the name of its model. Copy it before you change it."""
    from weft.training.train import train

    folder = tmp_path_factory.mktemp("runs")

    def run(name: str) -> Path:
        path = folder / name.replace(" ", "_")
        if not path.exists():
            list(train(tiny({"name": name, **MODELS[name], "training.steps": 2, "data.valid_size": 13}), path))
        return path

    return run
