"""Progress of long calls: the library reports here what it is doing and prints nothing; a program may show it.

    with activity("reading pairs.tsv", "pairs") as reading:
        for pair in pairs:
            reading.done += 1

    with observing(observer):
        weft.load("runs/grammar").translate(lines)

An observer is notified when an activity begins and ends, and reads its progress, `Activity.done`, whenever it likes, so
counting costs one addition. Observers belong to the context (`contextvars`) that set them: other threads are not
observed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(slots=True, eq=False)
class Activity:
    """Something that may take a while."""

    what: str
    unit: str = ""
    """The counted unit, in the plural; empty: nothing is counted."""
    total: int | None = None
    """None: unknown."""
    done: int = 0
    start: float = field(default_factory=time.monotonic)


class Observer(Protocol):
    """Is notified of activities."""

    def begin(self, activity: Activity) -> None: ...

    def end(self, activity: Activity) -> None: ...


current_observer: ContextVar[Observer | None] = ContextVar("weft_observer", default=None)
"""Is notified of the activities of this context; None: nobody is."""


@contextmanager
def observing(observer: Observer) -> Iterator[None]:
    """Notify this observer of the activities of the block."""
    previous = current_observer.get()
    current_observer.set(observer)
    try:
        yield
    finally:
        current_observer.set(previous)


@contextmanager
def activity(what: str, unit: str = "", *, total: int | None = None) -> Iterator[Activity]:
    """An activity, from the beginning to the end of the block; add to `Activity.done` in it."""
    current = Activity(what, unit, total)
    observer = current_observer.get()
    if observer is None:
        yield current
        return
    observer.begin(current)
    try:
        yield current
    finally:
        observer.end(current)
