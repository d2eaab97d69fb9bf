"""``weft train --watch``: a service that shows a run while it is trained."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from weft.errors import RecipeError

if TYPE_CHECKING:
    from weft.training.events import Event

STOP_SECONDS = 10.0


def check_watch() -> None:
    """Fail if the service cannot be started."""
    for name in ("fastapi", "uvicorn"):
        if find_spec(name) is None:
            raise RecipeError(f"--watch: {name} is not installed; pip install 'weft-seq2seq[serve]'")


def with_watch(events: Iterator[Event], folder: Path) -> Iterator[Event]:
    """Pass the events on; once the run folder exists, a service shows the run, until training ends."""
    from weft.pairs.race.events import RaceEvent

    service: subprocess.Popen[bytes] | None = None
    try:
        for event in events:
            if service is None and not isinstance(event, RaceEvent):
                service = start_service(folder)
            yield event
    finally:
        if service is not None:
            stop_service(service)


def start_service(folder: Path) -> subprocess.Popen[bytes]:
    """`weft serve` on a free port, with one thread: the others are for training."""
    arguments = ("serve", str(folder), "--port", "0", "--device", "cpu", "--set", "threads=1")
    return subprocess.Popen(
        [sys.executable, "-m", "weft", *arguments],
        stdin=subprocess.DEVNULL,
        env={**os.environ, "WEFT_NO_PROGRESS": "1"},
        start_new_session=True,  # Ctrl-C is for training, which saves a checkpoint first
    )


def stop_service(service: subprocess.Popen[bytes]) -> None:
    service.terminate()
    try:
        service.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        service.kill()
        service.wait()
