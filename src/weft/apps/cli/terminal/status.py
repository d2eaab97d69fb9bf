"""A status line on stderr when nothing has been printed for two seconds: what the command is doing, and how far it is.

In a terminal it is one line that is rewritten and vanishes; in a file or a pipe a plain line after two seconds, then
one every thirty. It is never written to stdout. With --json only a terminal shows it, with ``WEFT_NO_PROGRESS`` set
nothing does.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from shutil import get_terminal_size
from typing import Any, TextIO

from weft.runtime.activity import Activity, observing

SILENCE = 2.0
"""Seconds without output after which the status is shown."""
REPEAT = 30.0
"""Seconds between plain lines."""
REFRESH = 0.5
"""Seconds between changes of the line in a terminal."""
CLEAR = "\r\x1b[K"


@contextmanager
def showing_status(arguments: Sequence[str]) -> Iterator[None]:
    """Show the activities of the block on stderr, unless it is switched off; ``arguments``: the command line's."""
    stdout, stderr = sys.stdout, sys.stderr
    live = is_live(stderr)
    if not is_open(stderr) or not _is_wanted(arguments, live=live):
        yield
        return
    status = Status(stderr, live=live)
    sys.stderr = _Watched(stderr, status)
    if is_live(stdout):  # output anywhere else is not seen, so it does not break the silence
        sys.stdout = _Watched(stdout, status)
    try:
        with status, observing(status):
            yield
    finally:
        sys.stdout, sys.stderr = stdout, stderr


def _is_wanted(arguments: Sequence[str], *, live: bool) -> bool:
    """Whether to show the status: among training processes, only the first worker does."""
    launches = any(argument.startswith("--workers") for argument in arguments) and "RANK" not in os.environ
    if launches or os.environ.get("RANK", "0") != "0" or "WEFT_NO_PROGRESS" in os.environ:
        return False
    return live or "--json" not in arguments


def is_open(stream: TextIO | None) -> bool:
    return stream is not None and not stream.closed


def is_live(stream: TextIO | None) -> bool:
    """Whether a line can be rewritten: in a terminal that understands control sequences."""
    return stream is not None and is_open(stream) and stream.isatty() and os.environ.get("TERM") != "dumb"


class Status:
    """Watches the activities and the output of a command in a separate thread."""

    def __init__(self, stream: TextIO, *, live: bool) -> None:
        self.stream = stream
        self.live = live
        self.running: list[Activity] = [Activity("starting")]
        self.last_output = time.monotonic()
        self.last_lines: dict[str, float] = {}
        """When a plain line about an activity was last written."""
        self.is_shown = False
        self.lock = threading.RLock()
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._run, name="weft-status", daemon=True)

    def __enter__(self) -> Status:
        self.thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.ended.set()
        self.thread.join()
        self.before_output()

    def begin(self, activity: Activity) -> None:
        with self.lock:
            if self.running and self.running[0].what == "starting":
                del self.running[0]
            self.running.append(activity)

    def end(self, activity: Activity) -> None:
        """Forget an activity; what it has counted belongs to the one around it."""
        with self.lock:
            self.running = [other for other in self.running if other is not activity]
            for outer in reversed(self.running):
                if activity.unit and outer.unit == activity.unit:
                    outer.done += activity.done
                    break
            if not self.running:
                self._clear()

    def before_output(self) -> None:
        """The command is about to print: remove the line."""
        with self.lock:
            self._clear()
            self.last_output = time.monotonic()

    def _clear(self) -> None:
        if self.is_shown:
            self.is_shown = False
            self._write(CLEAR)

    def _run(self) -> None:
        while not self.ended.wait(REFRESH):
            with self.lock:
                self.show(time.monotonic())

    def show(self, now: float) -> None:
        """Show what is running, if there has been silence for long enough."""
        if not self.running or now - self.last_output < SILENCE:
            return
        text = describe(self.running, now)
        if self.live:
            self.is_shown = True
            self._write(f"\r{text[: max(get_terminal_size().columns - 1, 10)]}\x1b[K")
            return
        shown = _counted_together(self.running)[0]
        if now - shown.start >= SILENCE and now - self.last_lines.get(shown.what, -REPEAT) >= REPEAT:
            self.last_lines[shown.what] = now
            self._write(f"weft: {text}\n")

    def _write(self, text: str) -> None:
        try:
            self.stream.write(text)
            self.stream.flush()
        except (OSError, ValueError):  # closed, or its reader is gone: the command itself will notice
            self.ended.set()


def describe(running: Sequence[Activity], now: float) -> str:
    """The innermost activity in one line, counted together with those around it."""
    counted = _counted_together(running)
    outer, done = counted[0], sum(activity.done for activity in counted)
    seconds = now - outer.start
    parts = [outer.what]
    if outer.unit:
        of = "" if outer.total is None else f" of {outer.total:,}"
        parts = [f"{outer.what}: {done:,}{of} {outer.unit}"]
    parts.append(duration(seconds))
    if outer.total and done * 20 >= outer.total:
        parts.append(f"{duration(seconds * (outer.total - done) / done)} left")
    return ", ".join(parts)


def _counted_together(running: Sequence[Activity]) -> list[Activity]:
    """The innermost activity, after those around it that count the same things."""
    inner = running[-1]
    return [activity for activity in running if inner.unit and activity.unit == inner.unit] or [inner]


def duration(seconds: float) -> str:
    """A duration in one or two units: ``8 s``, ``3 min 20 s``, ``2 h 5 min``."""
    whole = round(max(seconds, 0))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole < 600 else f"{round(whole / 60)} min"
    hours, minutes = divmod(round(whole / 60), 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{round(hours / 24)} days"


class _Watched:
    """A stream that removes the status line before it is written to."""

    def __init__(self, stream: TextIO, status: Status) -> None:
        self._stream = stream
        self._status = status

    def write(self, text: str) -> int:
        with self._status.lock:
            self._status.before_output()
            return self._stream.write(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    @property
    def buffer(self) -> Any:
        """The stream for bytes; accessed by code that is about to write."""
        self._status.before_output()
        return self._stream.buffer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
