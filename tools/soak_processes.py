"""Commands of weft as processes that can be killed: how they ended, and what they must not have said."""

from __future__ import annotations

import hashlib
import os
import re
import resource
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

PATIENCE = 300.0
"""Seconds after which a command hangs."""
MARK = "WEFT_SOAK_ROUND"
"""The environment variable by which the processes of a round are found."""


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    stdout: str
    stderr: str
    seconds: float


class BrokenPromiseError(Exception):
    """A promise that was not kept."""


def run(
    arguments: list[str],
    *,
    when: Callable[[float], bool] = lambda seconds: False,
    by: int = signal.SIGKILL,
    file_size: int | None = None,
) -> Ended:
    """``weft ARGUMENTS`` in a forked process, so that torch is imported once; a signal is sent when the time is up."""
    reading_out, writing_out = os.pipe()
    reading_error, writing_error = os.pipe()
    started = time.monotonic()
    process = os.fork()
    if process == 0:
        os.close(reading_out)
        os.close(reading_error)
        _command(arguments, writing_out, writing_error, file_size)
    os.close(writing_out)
    os.close(writing_error)
    contents = {reading_out: b"", reading_error: b""}
    pending, code, sent = set(contents), None, False
    while code is None or pending:
        elapsed = time.monotonic() - started
        if code is None and not sent and when(elapsed):
            os.kill(process, by)
            sent = True
        if elapsed > PATIENCE and code is None:
            os.killpg(process, signal.SIGKILL)
            os.waitpid(process, 0)
            raise BrokenPromiseError(f"hung: weft {' '.join(arguments)}")
        ready, _, _ = select.select(list(pending), [], [], 0.01)
        for stream in ready:
            data = os.read(stream, 65536)
            contents[stream] += data
            if not data:
                pending.discard(stream)
        if code is None:
            ended, status = os.waitpid(process, os.WNOHANG)
            code = os.waitstatus_to_exitcode(status) if ended else None
        elif not ready:
            break  # workers that the killed launcher left behind still hold the pipe
    for stream in contents:
        os.close(stream)
    texts = [content.decode("utf-8", "replace") for content in contents.values()]
    return Ended(code if code is not None else 1, *texts, time.monotonic() - started)


def _command(arguments: list[str], out: int, error: int, file_size: int | None) -> NoReturn:
    code = 1
    try:
        os.setsid()
        os.dup2(out, 1)
        os.dup2(error, 2)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if file_size is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, file_size))
        sys.argv = ["weft", *arguments]
        from weft.apps.cli import main

        main()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)


def digest(*paths: Path) -> str:
    """A hash of the content of files, and of which files there are."""
    value = hashlib.sha256()
    for path in paths:
        value.update(path.name.encode() + b"\0" + (path.read_bytes() if path.is_file() else b"missing") + b"\0")
    return value.hexdigest()


def check_messages(ended: Ended) -> None:
    if "Traceback (most recent call last)" in ended.stderr:
        raise BrokenPromiseError(f"traceback: {ended.stderr[-2000:]}")
    lines = [line for line in ended.stderr.splitlines() if line.startswith("weft: ")]
    errors = [line for line in lines if "warning" not in line and not re.search(r", \d+ s$", line)]  # signs of life
    if ended.code == 2 and len(errors) != 1:
        raise BrokenPromiseError(f"not one line: {ended.stderr[-500:]!r}")


def last_line(ended: Ended) -> str:
    return (ended.stderr.strip().splitlines() or [""])[-1]


def processes_of(mark: str) -> list[int]:
    """The processes that were started with this `MARK` in their environment, except forks of this one (Linux)."""
    processes = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            is_marked = f"{MARK}={mark}".encode() in (path / "environ").read_bytes().split(b"\0")
            state = (path / "stat").read_text("utf-8").rpartition(")")[2].split()[0]
        except OSError:  # it has ended, or is of another user
            continue
        if is_marked and state != "Z":
            processes.append(int(path.name))
    return processes


def wait_until(condition: Callable[[], bool], seconds: float, promise: str) -> None:
    """Until a condition holds; a promise is broken if that takes longer."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise BrokenPromiseError(promise)
        time.sleep(0.02)
