"""Signals during training: held until the next step boundary, where a checkpoint is saved before they take effect.

SIGINT (Ctrl-C), SIGTERM and SIGHUP are held while the training loop works. After the checkpoint, the handler that was
in force is called: Python's own raises KeyboardInterrupt for SIGINT, that of the operating system ends the process. A
second signal takes effect at once; signals that the program ignores stay ignored. While a consumer of the events has
control, and in other threads than the main one, signals are not touched.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

Value = TypeVar("Value")

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class _AbandonedError(Exception):
    """A signal has arrived during a computation that can be abandoned."""


class SignalHold:
    """Holds signals back; `pending` is the number of the one that has arrived, or 0."""

    def __init__(self) -> None:
        self.pending = 0
        self._handlers: dict[int, Any] = {}
        self._can_abandon = False

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Hold the signals that arrive during the block."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        for number in SIGNALS:
            handler = signal.getsignal(number)
            if handler not in (signal.SIG_IGN, None):
                self._handlers[number] = handler
                signal.signal(number, self._hold)
        try:
            yield
        finally:
            self._restore()

    def interruptible(self, compute: Callable[[], Value]) -> Value | None:
        """A value that takes long and can be computed again; None if a signal arrives before it is done."""
        if self.pending:
            return None
        try:
            try:
                self._can_abandon = True
                value = compute()
                self._can_abandon = False
            finally:
                self._can_abandon = False
        except _AbandonedError:
            return None
        return value

    def deliver(self, number: int) -> None:
        """Let a signal take effect. Its handler may return, and training continues."""
        self.pending = 0
        handler = signal.getsignal(number)
        if callable(handler):
            handler(number, None)
        else:
            os.kill(os.getpid(), number)

    def _hold(self, number: int, frame: FrameType | None) -> None:
        if self.pending:
            self._restore()
            self.deliver(number)
            return
        self.pending = number
        if self._can_abandon:
            self._can_abandon = False
            raise _AbandonedError

    def _restore(self) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._handlers = {}
