"""``weft runs``: a table that fits, plain text in a pipe, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.cells import cell_len

from weft.apps.cli.commands.runs import age, short_number, table
from weft.runs.status import RunStatus

Command = Callable[..., tuple[str, str]]
STATUSES = [
    RunStatus(Path("runs/mine"), "finished", "multi30k-transformer", 36_000_000, 9, 9, "bleu", 38.1234, 1000.0),
    RunStatus(
        Path("runs/a-run-whose-name-is-much-too-long-for-a-narrow-terminal"),
        *("training", "grammar", 3608, 120, 1000, "perplexity", 1.0321, 4000.0, "12 on node7"),
    ),
    RunStatus(Path("runs/長い名前\x1b[31m"), "stopped", "addition", 950, 300, 4000, None, None, 4900.0),
    RunStatus(Path("runs/broken"), "damaged", modified=0.0, problem="recipe.toml: missing"),
]


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
def test_it_fits(columns: int) -> None:
    lines = table(STATUSES, columns, now=5000.0)
    assert len(lines) == 5 and max(map(cell_len, lines)) <= columns
    text = "\n".join(lines)
    assert "finished" in text and "training" in text and "damaged" in text and "\x1b" not in text
    assert ("stopped at step 300" if columns >= 80 else "stopped at 300") in text
    assert "38.12" in text and "  1 h" in text


def test_plain_text_is_not_shortened() -> None:
    lines = table(STATUSES, None, now=5000.0)
    assert lines[0].split() == ["run", "recipe", "size", "score", "state", "age"]
    assert lines[1].split() == ["mine", "multi30k-transformer", "36M", "38.12", "bleu", "finished", "1", "h"]
    assert STATUSES[1].path.name in lines[2] and "training, step 120 of 1000" in lines[2]
    assert "stopped at step 300" in lines[3] and "2 min" in lines[3]


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0"), (950, "950"), (3608, "3.6k"), (36_000_000, "36M"), (999_600, "1M"), (123_456_789, "123M"), (7e9, "7G")],
)
def test_short_numbers(count: int, text: str) -> None:
    assert short_number(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-3, "0 s"), (5, "5 s"), (720, "12 min"), (10_800, "3 h"), (90_000, "1 day"), (800_000, "9 days")],
)
def test_ages(seconds: float, text: str) -> None:
    assert age(seconds) == text


def test_the_command(command: Command, runs: Callable[[str], Path], tmp_path: Path) -> None:
    (tmp_path / "run").symlink_to(runs("lstm"))
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "recipe.toml").write_text("name =", "utf-8")
    text, noise = command("runs", tmp_path)
    assert {line.split()[0] for line in text.splitlines()} == {"run", "broken"} and len(text.splitlines()) == 3
    assert noise.startswith(f"{tmp_path / 'broken'}: ")
    records = [json.loads(line) for line in command("runs", tmp_path, "--json")[0].splitlines()]
    assert {record["state"] for record in records} == {"finished", "damaged"}


def test_no_runs(command: Command, refusal: Callable[..., str], tmp_path: Path) -> None:
    assert command("runs", tmp_path) == ("", f"{tmp_path}: no runs in it\n")
    assert refusal("runs", tmp_path / "none").startswith(f"{tmp_path / 'none'}: no such folder; ")
