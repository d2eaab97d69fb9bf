"""docs/course/coverage.md: every chapter, lab, command, exercise and page that it names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from weft.apps.cli import COMMANDS
from weft.apps.course import EXERCISES
from weft.apps.labs import LABS

COURSE = Path(__file__).parents[2] / "docs/course"
PAGE = (COURSE / "coverage.md").read_text("utf-8")
COMMAND_REFERENCE = (COURSE.parent / "commands.md").read_text("utf-8")
SETTINGS = (COURSE.parent / "settings.md").read_text("utf-8")
LECTURES = dict(re.findall(r"^## (\d{3}): [^\n]*\n(.*?)(?=^## |\Z)", PAGE, flags=re.M | re.S))
ROWS = [
    (lecture, *row)
    for lecture, text in LECTURES.items()
    for row in re.findall(r"^\| (\d+(?:–\d+)?) \| (.*?) \| (.*) \|$", text, flags=re.M)
]


def test_five_lectures_with_all_their_rows() -> None:
    assert list(LECTURES) == ["000", "001", "002", "003", "004"] and len(ROWS) >= 100
    assert len(ROWS) == len(re.findall(r"^\| \d", PAGE, flags=re.M)), "a row that cannot be read"


@pytest.mark.parametrize("lecture", LECTURES)
def test_lines_are_in_order(lecture: str) -> None:
    starts = [int(lines.split("–")[0]) for name, lines, *_ in ROWS if name == lecture]
    assert starts == sorted(starts)


@pytest.mark.parametrize(("lecture", "lines", "topic", "where"), ROWS)
def test_the_targets_of_a_row_exist(lecture: str, lines: str, topic: str, where: str) -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", where)
    commands = re.findall(r"`weft ([\w-]+)(?: ([\w-]+))?", where)
    options = re.findall(r"`weft ([\w-]+)` with (--[\w-]+)", where)
    assert links or commands or "settings" in where, "names nothing"
    for link in links:
        assert (COURSE / link).is_file(), link
    for name, argument in commands:
        assert name in COMMANDS, name
        if name == "lab":
            assert argument in LABS
        if name == "probe":
            assert f"\n## weft probe {argument}\n" in COMMAND_REFERENCE
        if name == "course":
            assert int(re.findall(r"weft course start (\d+)", where)[0]) in {e.chapter for e in EXERCISES.values()}
    for name, option in options:
        section = COMMAND_REFERENCE.partition(f"\n## weft {name}\n")[2].partition("\n## ")[0]
        assert f"  {option}" in section, f"{name} {option}"
    for setting in re.findall(r"`(model\.[\w.]+)`", where):
        assert f"`{setting}`" in SETTINGS or f"`[{setting}]`" in SETTINGS, setting
    for page, number in re.findall(r"\]\((\d\d-[\w-]+\.md)\), exercise (\d)", where):
        assert f"\n**{number}** ★" in (COURSE / page).read_text("utf-8"), f"{page}: exercise {number}"
    if "diagram" in where:
        pages = [link for link in links if link[0].isdigit()]
        assert any("images/diagrams/" in (COURSE / page).read_text("utf-8") for page in pages)


def test_what_is_open_is_named() -> None:
    assert "preferences" in PAGE and PAGE.count(": open") == 1
