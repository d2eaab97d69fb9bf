from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from rich.cells import cell_len

from weft.errors import DataError
from weft.pictures import search_path
from weft.pictures.search_path import Panel, candidates, cutoff, draw_path, terminal_path
from weft.search.trace import Draw, PathTrace

SVG = "{http://www.w3.org/2000/svg}"
WORDS = {3: "il", 4: "elle", 5: "on", 6: "je", 7: "m'", 8: "entarté", 2: "</s>"}
SAMPLED = PathTrace(
    [
        Draw([3, 4, 5, 6], [0.5, 0.25, 0.125, 0.0625], [True, True, False, False], 1, 0.75, 2),
        Draw([7, 8, 2], [0.75, 0.2499, 0.0001], [True, True, True], 0, 1.0, 12),
        Draw([2, 7, 3], [0.875, 0.1, 0.02], [True, False, False], 0, 0.875, 1),
    ]
)
GOLDEN = """\
step 1   2 tokens kept, p 0.75
  il      0.500 ████████
▶ elle    0.250 ████
  ──────── cutoff ───────────────
  on      0.125 ░░
  je      0.062 ░

step 2   12 tokens kept, p 1.00
▶ m'      0.750 ████████████
  entarté 0.250 ████

step 3   1 token kept, p 0.88
▶ </s>    0.875 ██████████████
  ──────── cutoff ───────────────
  m'      0.100 ░░
  il      0.020 ·

▶ chosen   █ kept   ░ removed by a
filter   p: probability of the
token (all bars: 0 to 1)
"""


def word(token: int) -> str:
    return WORDS[token]


def draw(kept: str, drawn: int = 0, probabilities: list[float] | None = None) -> Draw:
    count = len(kept)
    probabilities = probabilities or [2.0 ** -(index + 1) for index in range(count)]
    return Draw(list(range(count)), probabilities, [sign == "k" for sign in kept], drawn, 0.5, kept.count("k"))


@pytest.mark.parametrize(
    ("kept", "line"),
    [
        ("kkcc", 2),
        ("kccc", 1),
        ("kkkc", 3),
        ("kkkk", None),
        ("ckkc", None),
        ("kckc", None),
        ("cccc", None),
        ("k", None),
    ],
)
def test_where_the_cutoff_falls(kept: str, line: int | None) -> None:
    assert cutoff(draw(kept)) == line


class TestCandidates:
    def test_the_most_probable(self) -> None:
        assert candidates(draw("kkkkkk"), 4) == [0, 1, 2, 3]

    def test_always_the_chosen_one(self) -> None:
        assert candidates(draw("kkkkkk", 5), 4) == [0, 1, 2, 5]

    def test_beyond_two_none_near_zero(self) -> None:
        small = [0.9997, 0.0001, 0.0001, 0.0001]
        assert candidates(draw("kkkk", 0, small), 8) == [0, 1]
        assert candidates(draw("kkkk", 3, small), 8) == [0, 1, 3]


def bare(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


class TestTerminal:
    def test_golden(self) -> None:
        assert terminal_path(SAMPLED, word, width=34, color=False) == GOLDEN

    def test_color_adds_codes_only(self) -> None:
        colored = terminal_path(SAMPLED, word, width=34, color=True)
        assert bare(colored) == GOLDEN
        assert "\x1b[1;36m▶ elle" in colored and "\x1b[2m  on" in colored and "\n  il      0.500 █" in colored

    @pytest.mark.parametrize("width", [30, 80, 120])
    def test_it_fits(self, width: int) -> None:
        odd = {3: "日本語" * 20, 4: "שלום", 5: "\x1b[2J", 6: "\n", 7: "e\u0301", 8: "👩\u200d👧", 2: ""}
        text = terminal_path(SAMPLED, odd.__getitem__, width=width, color=False)
        assert "\x1b" not in text and all(cell_len(line) <= width for line in text.splitlines())

    def test_a_gap_before_the_chosen_one(self) -> None:
        lines = terminal_path(PathTrace([draw("k" * 9, 8)]), str, width=80, color=False, most=3).splitlines()
        assert [line[:3] for line in lines[1:5]] == ["  0", "  1", "  …", "▶ 8"]

    def test_no_step(self) -> None:
        assert terminal_path(PathTrace([]), word, width=80, color=False).count("\n") == 1

    def test_ascii(self) -> None:
        text = terminal_path(SAMPLED, word, width=80, color=False, ascii_only=True)
        assert text.isascii() and "> elle" in text and "entart\\xe9" in text and "?" not in text


def tree(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text)


def svg(trace: PathTrace, label: Callable[[int], str], folder: Path, **options: str) -> str:
    return draw_path(trace, label, folder / "path.svg", **options).read_text("utf-8")


def texts(text: str) -> list[str]:
    return [element.text or "" for element in tree(text).iter(f"{SVG}text")]


def bars(figure: Figure) -> dict[str, Rectangle]:
    """The bars of the candidates, by their names."""
    patches = figure.axes[0].patches
    return {name: bar for bar in patches if isinstance(bar, Rectangle) and (name := bar.get_gid())}


class TestPicture:
    def test_a_bar_for_each_candidate_named_by_its_kind(self, tmp_path: Path) -> None:
        ids = [group.get("id", "") for group in tree(svg(SAMPLED, word, tmp_path)).iter(f"{SVG}g")]
        names = [key for key in ids if re.fullmatch(r"(chosen|kept|removed)-\d+-\d+", key)]
        assert names == [
            *("kept-1-0", "chosen-1-1", "removed-1-2", "removed-1-3"),
            *("chosen-2-0", "kept-2-1"),
            *("chosen-3-0", "removed-3-1", "removed-3-2"),
        ]

    def test_bars_are_as_long_as_the_probability(self) -> None:
        panels = [
            Panel(number, step, [(index, "x") for index in range(len(step.tokens))])
            for number, step in enumerate(SAMPLED.steps, 1)
        ]
        figure = search_path._figure(panels, "", ["DejaVu Sans"])
        widths = {name: bar.get_width() for name, bar in bars(figure).items()}
        for number, step in enumerate(SAMPLED.steps, 1):
            for index, p in enumerate(step.probabilities):
                kind = "chosen" if index == step.chosen else "kept" if step.kept[index] else "removed"
                assert widths[f"{kind}-{number}-{index}"] == pytest.approx(max(p * search_path.BAR, 0.01))

    def test_words_and_numbers(self, tmp_path: Path) -> None:
        written = texts(svg(SAMPLED, word, tmp_path, title="he hit me"))
        assert {"he hit me", "2 tokens kept, p 0.75", "1 token kept, p 0.88", "entarté", "0.125"} <= set(written)
        assert written.count("▶") == 3

    def test_labels_are_text_and_nothing_else(self, tmp_path: Path) -> None:
        def label(token: int) -> str:
            return "<&>$x$\x1b" if token == 3 else "\u0301"

        written = texts(svg(SAMPLED, label, tmp_path, title="a <b> & c"))
        assert {"<&>$x$⟨1B⟩", "◌\u0301", "a <b> & c"} <= set(written)

    def test_many_steps_stand_in_rows(self) -> None:
        trace = PathTrace([draw("kkkcc", step % 3) for step in range(31)])
        panels = [Panel(number, step, [(0, "w"), (1, "w")]) for number, step in enumerate(trace.steps, 1)]
        figure = search_path._figure(panels, "", ["DejaVu Sans"])
        named = bars(figure).items()
        corners = [next(bar.get_xy() for name, bar in named if name.endswith(f"-{step}-0")) for step in range(1, 32)]
        assert len({round(x, 3) for x, _ in corners}) > 3 and len({round(y, 3) for _, y in corners}) > 3
        for (x, y), (after, below) in pairwise(corners):
            assert (after > x + search_path.BAR and y == pytest.approx(below)) or (below > y + 0.5 and after < x)
        assert figure.get_size_inches()[0] < search_path.PAGE + 1

    @pytest.mark.parametrize("steps", [1, 5, 31])
    def test_every_bar_is_inside_the_picture(self, steps: int) -> None:
        panels = [Panel(step, draw("kkkcc", step % 3), [(0, "w"), (1, "w")]) for step in range(1, steps + 1)]
        figure = search_path._figure(panels, "", ["DejaVu Sans"])
        width, height = figure.get_size_inches()
        for bar in bars(figure).values():
            x, y = bar.get_xy()
            assert x > 0 and x + search_path.BAR < width and 0 < y < height

    def test_what_cannot_be_drawn(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="the search made no step; expected a trace of at least 1"):
            draw_path(PathTrace([]), word, tmp_path / "path.svg")
        assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("count", "words"), [(1, "1 token kept, p 0.50"), (32_000, "32,000 tokens kept, p 0.50")])
def test_summary_of_what_was_kept(count: int, words: str) -> None:
    assert search_path.kept_summary(draw("k")._replace(kept_count=count)) == words
