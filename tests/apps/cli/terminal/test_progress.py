"""Training progress: lines that stay short and whole wherever they are printed."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import replace
from types import SimpleNamespace

import pytest
from rich.console import Console

from weft.apps.cli.terminal import progress
from weft.apps.cli.terminal.progress import ProgressReporter, machine, short
from weft.pairs.race.events import RaceSkipped, TimeUsed
from weft.pairs.time_limit.revision import Revised
from weft.runtime.activity import activity
from weft.training.events import Diagnosis, Event, Finished, Fitted, Started, Step, Validation

STARTED = Started(
    0,
    29_000,
    {"a blank side": 3, "more than 100 tokens on a side": 1_234},
    8_000,
    8_000,
    47_000_000,
    "cpu",
    5_000,
    "runs/x",
)


def step(number: int, loss: float = 3.25) -> Step:
    return Step(number, loss, 0.001, 1.0, 4_000, 4_000, 0.5, 0.0, 1)


def printed(events: Iterable[Event], **console: object) -> str:
    stream = io.StringIO()
    reporter = ProgressReporter(Console(file=stream, highlight=False, markup=False, **console))  # type: ignore[arg-type]
    list(reporter(iter(events)))
    return stream.getvalue()


def test_the_parameters_that_are_trained() -> None:
    assert " 47,000,000 parameters; " in printed([STARTED], width=300)
    text = printed([replace(STARTED, trained_parameters=9_216)], width=300)
    assert " 47,000,000 parameters, 9,216 of them trained; " in text


def test_lines_of_a_file_are_not_wrapped(capsys: pytest.CaptureFixture[str]) -> None:
    list(ProgressReporter()(iter([STARTED, Finished(5_000, "steps", 12.0, 5_000)])))
    first, *_ = capsys.readouterr().err.splitlines()
    assert len(first) > 100 and first.endswith("vocabulary 8,000 / 8,000; cpu")


def test_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 0.0, *(float(second) for second in range(1, 100))])
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    lines = printed([STARTED, *map(step, range(1, 31))], width=200).splitlines()[1:]
    assert lines == [
        "step 3/5,000: loss 3.250, 8,000 target tokens/s, 1 h 23 min left",
        "step 14/5,000: loss 3.250, 8,000 target tokens/s, 1 h 23 min left",
        f"about 1 h 20 min of updates on {machine('cpu')}",
        "step 25/5,000: loss 3.250, 8,000 target tokens/s, 1 h 23 min left",
    ]


def test_the_expected_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, with what may change it; not of a run that is over soon, nor if it was fitted to a time."""

    def expected(started: Started, *events: Event) -> list[str]:
        clock = iter([0.0, 0.0, *(float(second) for second in range(1, 100))])
        monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: next(clock)))
        lines = printed([started, *events, *map(step, range(1, 50))], width=200).splitlines()[1:]
        return [line for line in lines if not line.startswith("step ")]

    cpu = machine("cpu")
    assert expected(STARTED) == [f"about 1 h 20 min of updates on {cpu}"]
    early = replace(STARTED, steps=240, validations=20, stops_early=True)
    assert expected(early) == [f"at most about 4 min of updates on {cpu}, and 20 validations"]
    assert expected(replace(STARTED, steps=50)) == [f"about 50 s of updates on {cpu}"]
    assert expected(replace(STARTED, steps=29)) == []
    fitted = Fitted(0, 5, 4_000, 9_000, 0.0415, 20, 1.5, 278)
    assert expected(early, fitted) == [
        f"fits into 5 min: 4,000 of the recipe's 9,000 steps (42 ms each on {cpu}), 20 validations; at most about 5 min"
    ]
    assert expected(early, replace(fitted, steps=2_249))[1:] == [
        "warning: few of the recipe's steps; all of them take about 6 min. More minutes give a better "
        "model; what else helps: docs/training.md"
    ]
    assert expected(early, replace(fitted, batch_tokens=1_024))[1:] == [
        "batches of 1,024 tokens, smaller than recommended: more updates fit"
    ]
    assert expected(STARTED, replace(fitted, steps=9_000, step_seconds=1.25, validations=0)) == [
        f"fits into 5 min: all 9,000 steps of the recipe (1.2 s each on {cpu}); about 5 min"
    ]
    assert expected(STARTED, replace(fitted, steps=12_000, validations=0)) == [
        f"fits into 5 min: 12,000 steps, 1.3 times as many as usual (42 ms each on {cpu}); about 5 min"
    ]


def test_decisions_of_a_race() -> None:
    events = [RaceSkipped(0, "a reason"), TimeUsed(9, 10.0, 9.5, "done")]
    lines = ["no race: a reason", "9.5 of 10 min used before the evaluation; done"]
    assert printed(events, width=100).splitlines() == lines


def test_the_end() -> None:
    def end(reason: str) -> list[str]:
        return printed([STARTED, Finished(40, reason, 12.3, 30)], width=200).splitlines()[1:]

    assert end("steps") == ["finished at step 40 in 12 s (all steps done)"]
    assert end("patience") == ["finished at step 40 in 12 s (no further improvement)"]
    assert end("time") == [
        "finished at step 40 in 12 s (the time is up)",
        "5,000 steps were planned, but the machine became slower; weft train RUN --resume continues up to them",
    ]


def test_a_revised_plan() -> None:
    """Its steps are those that the message at the end names."""
    revised = Revised(1_250, 2_100, 5_000, 0.5, 0.125)
    assert printed([STARTED, revised, Finished(2_000, "time", 12.3, 30)], width=200).splitlines()[1:] == [
        "the plan is revised at step 1,250: 2,100 steps instead of 5,000, since a step takes 0.5 s instead of 0.125 s",
        "finished at step 2,000 in 12 s (the time is up)",
        "2,100 steps were planned, but the machine became slower; weft train RUN --resume continues up to them",
    ]


def test_a_warning() -> None:
    assert printed([Diagnosis(40, "overfits", "overfits: do this")], width=200) == "warning: overfits: do this\n"


def test_numbers_stay_short() -> None:
    numbers = (0.0, 1.23456, 999.9, 1_234.5, 999_999, 1e9, 1e300, float("inf"), float("nan"))
    assert list(map(short, numbers)) == [
        *("0.000", "1.235", "999.900", "1,234", "999,999", "1.0e+09", "1.0e+300", "inf", "nan"),
    ]
    line = printed([STARTED, Validation(5, 700.0, 1e300)], width=80).splitlines()[-1]
    assert line == "step 5: validation perplexity 1.0e+300"


@pytest.mark.parametrize("width", [40, 60, 120])
def test_the_bar_fits_the_terminal(width: int) -> None:
    def events() -> Iterable[Event]:
        yield STARTED
        yield step(1_200, 12.5)
        with activity("validating"):
            yield step(1_201)
        yield step(1_202)

    text = printed(events(), width=width, force_terminal=True, color_system=None, legacy_windows=False)
    bars = [line for line in text.replace("\r", "\n").split("\n") if "/5000" in line]
    assert bars and all("1202/5000" in line or "/5000" in line for line in bars)
    assert max(len(line.split("\x1b[2K")[-1].rstrip()) for line in bars) <= width
    assert any("loss" in line for line in bars)


def test_a_dumb_terminal_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "FIRST_SECONDS", -1)
    text = printed([STARTED, step(1)], width=200, force_terminal=True, _environ={"TERM": "dumb"})
    assert "step 1/5,000" in text and "\x1b[2K" not in text


def test_outputs_that_reached_the_length_limit() -> None:
    plain = "step 4: validation perplexity 2.000, bleu 31.25"

    def shown(**counts: int) -> list[str]:
        return printed([Validation(4, 0.7, 2.0, {"bleu": 31.25}, **counts)], width=100).splitlines()  # type: ignore[arg-type]

    assert shown(outputs=200) == [plain]
    assert shown(outputs=200, ended_by_length=12) == [plain, "step 4: 12 of 200 outputs reached the length limit"]
    assert shown(outputs=1, ended_by_length=1)[1] == "step 4: 1 of 1 output reached the length limit"
