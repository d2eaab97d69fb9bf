"""Long calls into native code that signals can interrupt.

Python runs the handler of a signal in the main thread, between two of its instructions: during a call into a library
written in another language, Ctrl-C and SIGTERM wait for its end, which may be minutes away. Here another thread makes
the call, and the main thread waits for it in Python. An exception of a handler leaves the call immediately; the
abandoned thread is a daemon, and ends with the process or when its library returns. The library must release the
global interpreter lock, as the trainers of `tokenizers` and SentencePiece do.

The main thread waits in intervals: a signal that arrives between its last instruction and the system call that waits,
or that the system delivers to another thread, interrupts no wait, and its handler runs after the interval.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import TypeVar

Value = TypeVar("Value")
POLL_SECONDS = 0.5
"""The longest delay of a signal that interrupted no wait, in seconds."""


def interruptible(call: Callable[[], Value]) -> Value:
    """Return or raise what the call does; outside of the main thread, which no handler interrupts, a plain call."""
    if threading.current_thread() is not threading.main_thread():
        return call()
    values: list[Value] = []
    errors: list[BaseException] = []
    done = threading.Event()

    def run() -> None:
        try:
            values.append(call())
        except BaseException as error:  # a panic of a Rust library is not an Exception
            errors.append(error)
        finally:
            done.set()

    threading.Thread(target=copy_context().run, args=(run,), name="weft-native", daemon=True).start()
    while not done.wait(POLL_SECONDS):
        pass  # handlers of signals run here
    if errors:
        raise errors[0]
    return values[0]
