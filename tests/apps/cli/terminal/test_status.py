"""The sign of life: what is shown, when, where, and where not. The clock is given, nothing is timed."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace

import pytest

from weft.apps.cli.terminal.status import CLEAR, REPEAT, SILENCE, Status, describe, duration, showing_status
from weft.runtime.activity import Activity, activity


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


def status_of(stream: io.StringIO, *activities: Activity, live: bool = False) -> Status:
    status = Status(stream, live=live)
    status.last_output = 0.0
    for one in activities:
        status.begin(one)
    return status


@pytest.mark.parametrize(
    ("running", "text"),
    [
        ([Activity("loading runs/x", start=0)], "loading runs/x, 8 s"),
        ([Activity("reading pairs.tsv", "pairs", done=1_200_000, start=0)], "reading pairs.tsv: 1,200,000 pairs, 8 s"),
        ([Activity("scoring", "pairs", 1_000, 250, start=0)], "scoring: 250 of 1,000 pairs, 8 s, 24 s left"),
        ([Activity("scoring", "pairs", 1_000, 3, start=0)], "scoring: 3 of 1,000 pairs, 8 s"),
        (
            [Activity("validating", start=0), Activity("scoring", "pairs", 40, 1, start=5)],
            "scoring: 1 of 40 pairs, 3 s",
        ),
        (
            [
                Activity("translating a.txt", "lines", done=4096, start=0),
                Activity("translating", "lines", 50, 7, start=7),
            ],
            "translating a.txt: 4,103 lines, 8 s",
        ),
    ],
)
def test_what_is_said(running: list[Activity], text: str) -> None:
    assert describe(running, now=8.0) == text


def test_durations() -> None:
    seconds = (-1, 0.4, 59, 61, 599, 600, 3599, 7_500, 200_000)
    words = ["0 s", "0 s", "59 s", "1 min 1 s", "9 min 59 s", "10 min", "60 min", "2 h 5 min", "2 days"]
    assert list(map(duration, seconds)) == words


def test_plain_lines_are_rare() -> None:
    stream = io.StringIO()
    reading = Activity("reading", start=0)
    status = status_of(stream, reading)
    for tenth in range(0, int(10 * (SILENCE + 2 * REPEAT)), 5):
        status.show(tenth / 10)
    assert stream.getvalue().splitlines() == [f"weft: reading, {second} s" for second in (2, 32)]
    assert "\x1b" not in stream.getvalue() and "\r" not in stream.getvalue()


def test_output_breaks_the_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    status = status_of(stream, Activity("reading", start=0))
    monkeypatch.setattr("weft.apps.cli.terminal.status.time", SimpleNamespace(monotonic=lambda: 5.0))
    status.before_output()
    status.show(5 + SILENCE - 0.1)
    assert not stream.getvalue()
    status.show(5 + SILENCE)
    assert stream.getvalue()


def test_nothing_is_running() -> None:
    stream = io.StringIO()
    reading = Activity("reading", start=0)
    status = status_of(stream, reading)
    status.end(reading)
    status.show(100.0)
    assert not stream.getvalue()


def test_a_terminal_has_one_line_that_vanishes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    stream = Terminal()
    reading = Activity("reading a file with a long name.tsv", "pairs", start=0)
    status = status_of(stream, reading, live=True)
    status.show(3.0)
    status.show(3.5)
    assert "\n" not in stream.getvalue() and stream.getvalue().startswith("\rreading a file with\x1b[K")
    status.end(reading)
    assert stream.getvalue().endswith(CLEAR)


def test_what_an_activity_counted_belongs_to_the_one_around_it() -> None:
    file, window = Activity("translating a.txt", "lines"), Activity("translating", "lines", done=7)
    status = status_of(io.StringIO(), file, window)
    status.end(window)
    assert file.done == 7


def shown(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO | None, *arguments: str) -> bool:
    """Whether anything would be shown on this stderr."""
    monkeypatch.delenv("WEFT_NO_PROGRESS", raising=False)
    monkeypatch.setattr(sys, "stderr", stream)
    with showing_status(arguments):
        is_shown = sys.stderr is not stream
    assert sys.stderr is stream
    return is_shown


def test_where_it_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    closed = io.StringIO()
    closed.close()
    assert shown(monkeypatch, io.StringIO(), "evaluate") and shown(monkeypatch, Terminal(), "evaluate", "--json")
    assert not shown(monkeypatch, io.StringIO(), "evaluate", "--json")
    assert not shown(monkeypatch, None, "evaluate") and not shown(monkeypatch, closed, "evaluate")
    assert not shown(monkeypatch, io.StringIO(), "train", "x", "--workers", "2"), "the workers show it"
    monkeypatch.setenv("RANK", "1")
    assert not shown(monkeypatch, io.StringIO(), "train", "x")


def test_a_dumb_terminal_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.delenv("WEFT_NO_PROGRESS", raising=False)
    monkeypatch.setattr("weft.apps.cli.terminal.status.SILENCE", 0.0)
    monkeypatch.setattr("weft.apps.cli.terminal.status.REFRESH", 0.001)
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with showing_status(["evaluate"]), activity("reading"):
        while not stream.getvalue():
            pass
        print("a line", file=sys.stderr)
    assert "weft: " in stream.getvalue() and "a line\n" in stream.getvalue() and "\x1b" not in stream.getvalue()


def test_a_reader_that_is_gone_ends_it() -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    status = status_of(Gone(), Activity("reading", start=0))
    status.show(100.0)
    assert status.ended.is_set()
