"""Handling of SIGINT (Ctrl-C), SIGTERM and SIGHUP: one line on stderr, and the exit code 128 + signal.

Each becomes an exception, so that a command can clean up. Training first saves a checkpoint (training/interruption.py)
and says how to continue.
"""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any, NoReturn

from weft.apps.cli.terminal.help_text import HelpGroup

SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")


class SignalInterrupt(KeyboardInterrupt):
    """A signal that ends the process."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_code = 128 + number


class CommandInterrupted(BaseException):
    """An interruption on its way out of the command line library, which ends silently on a KeyboardInterrupt."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(exit_code)
        self.exit_code = exit_code


class InterruptibleGroup(HelpGroup):
    """The commands, whose interruptions `main` reports."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        try:
            return super().make_context(*arguments, **options)
        except KeyboardInterrupt as interruption:
            raise CommandInterrupted(exit_code(interruption)) from None

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interruption:
            raise CommandInterrupted(exit_code(interruption)) from None


def exit_code(interruption: KeyboardInterrupt | CommandInterrupted) -> int:
    """129, 130 or 143, after SIGHUP, SIGINT or SIGTERM."""
    if isinstance(interruption, SignalInterrupt | CommandInterrupted):
        return interruption.exit_code
    return 128 + signal.SIGINT


def raise_on_signals() -> None:
    """Make these signals raise `SignalInterrupt`, except those that are ignored (nohup ignores SIGHUP)."""
    for name in SIGNALS:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) not in (signal.SIG_IGN, None):
            signal.signal(number, _raise)


def end_on_signals() -> None:
    """Let any further signal end the process immediately, so that it cannot interrupt the final cleanup."""
    for name in SIGNALS:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is _raise:
            signal.signal(number, signal.SIG_DFL)


def _raise(number: int, frame: FrameType | None) -> NoReturn:
    raise SignalInterrupt(number)
