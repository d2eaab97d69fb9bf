"""``weft serve``: what is refused before anything is loaded, keys, and names."""

from __future__ import annotations

import asyncio
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from weft.apps.cli.commands import serve


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What would be served."""
    calls: list[Any] = []
    monkeypatch.setattr(serve, "_serve", lambda *arguments, **options: calls.append((*arguments, options)))
    return calls


def test_what_is_refused(refusal: Callable[..., str], finished: Path, tmp_path: Path, served: list[Any]) -> None:
    for arguments, words in (
        ((), "RUN: missing; name at least one run folder"),
        ((tmp_path / "none",), "no such run folder"),
        ((finished, "--host", "0.0.0.0"), "--host 0.0.0.0: other machines could use the service; add --key-file FILE"),
        ((f"a={finished}", f"a={finished}"), f"RUN: a is already the name of {finished}; choose another for"),
        ((finished, "--set", "max_line=3"), "max_line: unknown setting; did you mean 'max_lines'?"),
        ((finished, "--set", "search.size=3"), "--set search.size=3: expected a setting of the service"),
        ((finished, "--engine", "fast"), "--engine fast: unknown engine"),
        (("--new-key", "me"), "--new-key: needs --key-file FILE"),
        ((f"both={finished}+",), f"RUN: {finished}+: + separates the run folders of an ensemble"),
        ((f"both={finished}+none",), "none: no such run folder"),
    ):
        assert words in refusal("serve", *arguments)
    assert not served


def test_names_and_settings(command: Callable[..., Any], finished: Path, served: list[Any], tmp_path: Path) -> None:
    other = tmp_path / "run"
    other.symlink_to(finished)
    keys = tmp_path / "keys"
    said = command("serve", "--new-key", "somebody", "--key-file", keys)
    assert said.stdout.strip() and said.stdout.strip() not in keys.read_text("utf-8")
    assert "the key itself is not stored" in said.stderr
    command(
        "serve",
        finished,
        f"old={finished}",
        "--host",
        "0.0.0.0",
        "--open-to-all",
        "--set",
        "max_lines=3",
        "--open",
        "--languages",
        "en-fr",
    )
    command("serve", finished, finished, "--host", "::", "--key-file", keys, "--precision", "int8", "--port", "0")
    command("serve", f"both={finished}+{other}", f"{finished}+{other}")
    (first, settings, key_file, options), (second, more, given_keys, _), (ensembles, *_) = served
    assert ensembles == {"both": (finished, other), "run+run": (finished, other)}
    assert first == {"old": finished, "run": finished} and second == {"run": finished, "run-2": finished}
    assert settings.languages == ["en-fr"]
    assert settings.max_lines == 3 and settings.host == "0.0.0.0" and key_file is None and options["open_browser"]
    assert more.precision == "int8" and more.port == 0 and given_keys == keys


def test_without_fastapi(refusal: Callable[..., str], finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import builtins

    original = builtins.__import__

    def without(name: str, *arguments: Any, **options: Any) -> Any:
        if name == "weft.apps.serve.app":
            raise ModuleNotFoundError("No module named 'fastapi'", name="fastapi")
        return original(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    assert refusal("serve", finished) == "serve: fastapi is not installed; pip install 'weft-seq2seq[serve]'"


@pytest.mark.parametrize("in_training", [False, True])
def test_a_run_that_cannot_be_loaded(
    command: Callable[..., Any], finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_training: bool
) -> None:
    """The command ends with one line; of a run in training, which has no weights yet, it goes on."""
    from weft.apps.serve.worker_process import WorkerProcess
    from weft.runs.locks import lock_folder

    async def fail(self: WorkerProcess) -> int:
        self.on_event("failed", b'{"problem": "run/recipe.toml: damaged"}')
        await asyncio.sleep(60)
        return 0

    monkeypatch.setattr(WorkerProcess, "run", fail)
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    if not in_training:
        said = command("serve", run, "--port", "0", check=2)
        assert said.stderr.splitlines()[1:] == ["weft: run: run/recipe.toml: damaged"]
        return
    with lock_folder(run, "training"):
        stop_after_warning(monkeypatch)
        said = command("serve", run, "--port", "0")
    assert "weft: warning: run: run/recipe.toml: damaged" in said.stderr.splitlines()


def stop_after_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    """End a service, as SIGTERM does, once it has reported its models."""
    original = serve._report_models

    def report(models: Any, server: Any, problems: list[str]) -> None:
        original(models, server, problems)

        async def end() -> None:
            await models.reporting
            server.handle_exit(signal.SIGTERM, None)

        server.ending = asyncio.ensure_future(end())

    monkeypatch.setattr(serve, "_report_models", report)
