"""Interruptions: one line, and an exit code that says which signal it was."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from weft.apps.cli.terminal.signals import SignalInterrupt, exit_code, raise_on_signals

Command = Callable[..., tuple[str, str]]

DRIVER = """
import os, signal, sys
from weft.apps import cli

@cli.app.command("wait")
def wait(name: str) -> None:
    os.kill(os.getpid(), getattr(signal, name))

signal.signal(getattr(signal, sys.argv[2]), signal.SIG_DFL)  # not ignored, even where pytest runs under nohup
cli.main()
"""


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_every_command_says_so_in_one_line(name: str, code: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, "wait", name],
        capture_output=True,
        text=True,
        restore_signals=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "weft: interrupted\n")


def test_another_signal_at_the_end_of_the_process_leaves_no_traceback() -> None:
    """As ``timeout`` sends it, or someone who presses Ctrl-C twice: torch cleans up at exit."""
    code = (
        "import atexit, os, signal, sys\n"
        "from weft.apps import cli\n"
        "@cli.app.command('wait')\n"
        "def wait():\n"
        "    atexit.register(os.kill, os.getpid(), signal.SIGTERM)\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "cli.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code, "wait"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (-signal.SIGTERM, "weft: interrupted\n")


def test_an_interruption_during_imports() -> None:
    code = (
        "import builtins, sys\n"
        "original = builtins.__import__\n"
        "def interrupted(name, *arguments):\n"
        "    if name == 'typer':\n"
        "        raise KeyboardInterrupt\n"
        "    return original(name, *arguments)\n"
        "builtins.__import__ = interrupted\n"
        "from weft.__main__ import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "weft: interrupted\n")


def test_exit_codes() -> None:
    assert exit_code(KeyboardInterrupt()) == 130 and exit_code(SignalInterrupt(signal.SIGTERM)) == 143


def test_ignored_signals_stay_ignored() -> None:
    """As under nohup."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        raise_on_signals()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        with pytest.raises(SignalInterrupt):
            signal.raise_signal(signal.SIGTERM)
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


def test_training_says_how_to_continue(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command that it prints works as it is."""
    from weft.training import train as training

    original = training.Trainer.start_update

    def interrupted(self: training.Trainer, steps: int) -> object:
        if self.progress.step == 2:
            signal.raise_signal(signal.SIGTERM)
        return original(self, steps)

    sizes = ("data.train=copy", "data.train_size=60", "data.options={length=4, symbols=9}", "training.steps=5")
    sizes += ("data.valid_size=9",)
    changes = [part for change in (*sizes, "model.embedding=4", "training.device=cpu") for part in ("--set", change)]
    monkeypatch.chdir(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training.Trainer, "start_update", interrupted)
        stdout, stderr = command("train", "addition", *changes, "--out", "my runs/x", check=143)
    line = stderr.splitlines()[-1]
    assert stdout == ""
    assert line == "weft: interrupted at step 3; continue with: weft train 'my runs/x' --resume"
    _, stderr = command(*shlex.split(line.partition("continue with: weft ")[2]))
    assert "finished at step 5" in stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_before_and_after_the_command_itself(
    number: signal.Signals, code: int, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal may come when the command has ended and its output is written out."""
    import weft.apps.cli

    def interrupted(arguments: list[str]) -> None:
        raise SignalInterrupt(number)

    monkeypatch.setattr(weft.apps.cli, "_run", interrupted)
    _, stderr = command("recipes", check=code)
    assert stderr == "weft: interrupted\n"


def test_while_arguments_are_parsed(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    from typer.core import TyperGroup

    def interrupted(self: TyperGroup, *arguments: object, **options: object) -> None:
        raise SignalInterrupt(signal.SIGTERM)

    monkeypatch.setattr(TyperGroup, "make_context", interrupted)
    _, stderr = command("recipes", check=143)
    assert stderr == "weft: interrupted\n"
