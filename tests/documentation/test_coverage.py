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


CORRECTIONS = {
    "003:337": "That holds for left-to-right models only",
    "003:143": "It is the decoder that looks",
    "003:193": "softmax over the source positions",
    "003:263": "this recurrence without $s_{t-1}$",
    "004:160": "have two rows exchanged",
    "002:1518": "It costs what the dot\nproduct costs",
    "004:241": "root of the *size* of $k$, not of its norm",
    "003:205": "assumes *without loss*",
    "002:1077": "Six pairs are tied",
    "002:1397": "and so does GPT-2",
    "002:1405": "$\\sin(pos/600)$",
    "002:1411": "2.0000 1.5403 0.5837 0.0096 0.3456",
    "002:1413": "fails in the very example",
    "003:379": "$D_X \\times m$",
    "002:1609": "*added to the scores*",
    "002:1504": "*element of the vector*",
    "001:84": "that holds for *decoders*",
}
"""Slips of the lectures, by their lines, and what the chapter that corrects them says."""


def test_every_correction_is_in_its_chapter() -> None:
    rows = re.findall(r"^\| .* \((\d{3}:[\d–]+)[^|]*\) \| .* \| \[\d+\]\((.*?)\).*\|$", PAGE, flags=re.M)
    assert [lines for lines, _ in rows] == list(CORRECTIONS)
    for lines, page in rows:
        assert CORRECTIONS[lines] in (COURSE / page).read_text("utf-8"), lines
