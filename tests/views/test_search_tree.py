from __future__ import annotations

import itertools
import math
import random
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.cells import cell_len

from weft.errors import DataError
from weft.search.trace import BeamTrace, Branch
from weft.views import search_tree
from weft.views.search_tree import Mark, Node, draw_tree, grow, number, place, terminal_tree, tree_svg

SVG = "{http://www.w3.org/2000/svg}"
WORDS = ["<unk>", "<s>", "</s>", "il", "elle", "m'", "me", "a", "entarté", "frappé"]
IL, ELLE, M, ME, A, ENTARTE, FRAPPE, END = 3, 4, 5, 6, 7, 8, 9, 2


def word(token: int) -> str:
    return WORDS[token]


def branch(token: int, parent: int, total: float, fate: str, slot: int = -1, length: int = 1) -> Branch:
    return Branch(token, parent, -0.5, total, total / length, fate, slot)


SMALL = BeamTrace(
    [
        [branch(IL, 0, -0.25, "kept", 0), branch(ELLE, 0, -1.5, "kept", 1), branch(ME, 0, -4.0, "cut")],
        [
            branch(M, 0, -0.5, "kept", 0, 2),
            branch(A, 0, -2.0, "kept", 1, 2),
            branch(M, 1, -2.25, "cut", length=2),
            branch(A, 1, -3.0, "cut", length=2),
        ],
        [
            branch(A, 0, -0.75, "kept", 0, 3),
            branch(ENTARTE, 1, -2.5, "kept", 1, 3),
            branch(ENTARTE, 0, -3.5, "cut", length=3),
        ],
        [
            branch(ENTARTE, 0, -1.0, "kept", 0, 4),
            branch(FRAPPE, 0, -2.0, "kept", 1, 4),
            branch(END, 1, -2.75, "finished", length=4),
        ],
        [
            branch(END, 0, -1.25, "finished", length=5),
            branch(END, 1, -4.5, "cut", length=5),
            branch(ME, 1, -5.0, "kept", 0, 5),
        ],
    ],
    [0, 0, 0, 0, 0],
)
GOLDEN = """\
 step    log p
               <s>
    1    −1.50 ┠─○ elle
               ┃ └─× m' −2.25, a −3.00
               ┠─× me −4.00
    1    −0.25 ● il
    2    −2.00 ┠─○ a
    3    −2.50 ┃ ○ entarté
    4    −2.75 ┃ ■ </s>  score −0.69
    2    −0.50 ● m'
               ┠─× entarté −3.50
    3    −0.75 ● a
    4    −2.00 ┠─○ frappé
               ┃ ├─× </s> −4.50
    5    −5.00 ┃ ○ me
    4    −1.00 ● entarté
    5    −1.25 ■ </s>  score −0.25  ◀ winner

● the winner's path   ○ kept   × cut   ■ finished   score: what ranks it
Straight down is the next token; ├─ is another way to go on from the token
above. log p: of all tokens so far.
"""


def chance(seed: int, steps: int = 9, size: int = 4, looked: int = 11) -> BeamTrace:
    """A tree grown by chance in which every token occurs once, so that it can be found again in a picture."""
    chosen = random.Random(seed)
    names = itertools.count(100)
    going, found, ends, back = 1, [], [], []
    for step in range(steps):
        totals = sorted((-chosen.random() * (step + 1) for _ in range(looked)), reverse=True)
        slots = iter(range(size))
        branches = []
        for total in totals:
            fate = chosen.choices(["kept", "finished", "cut"], [5, 1, 5])[0]
            slot = next(slots, -1) if fate == "kept" or total == totals[0] else -1
            fate = "kept" if slot >= 0 else "finished" if fate == "finished" else "cut"
            parent = min(int(chosen.expovariate(0.8)), going - 1)
            branches.append(Branch(next(names), parent, -0.1, total, total / (step + 1), fate, slot))
        ends += [(one.score, step, at) for at, one in enumerate(branches) if one.fate == "finished"]
        found.append(branches)
        going = sum(one.slot >= 0 for one in branches)
    _, step, at = max(ends, default=(0.0, steps - 1, 0))
    while step >= 0:
        back.append(at)
        parent, step = found[step][at].parent, step - 1
        at = next((place for place, one in enumerate(found[step]) if one.slot == parent), 0)
    return BeamTrace(found, back[::-1])


def name(token: int) -> str:
    return f"w{token}w"


def tokens(trace: BeamTrace, *fates: str) -> list[int]:
    return [one.token for step in trace.steps for one in step if one.fate in fates]


def descendants(node: Node) -> int:
    return 1 + sum(descendants(child) for child in node.live)


class TestGrowing:
    @pytest.mark.parametrize("seed", range(20))
    def test_against_the_definition(self, seed: int) -> None:
        trace = chance(seed)
        tree = grow(trace)
        assert [[node.branch for node in nodes] for nodes in tree[1:]] == trace.steps
        for step, nodes in enumerate(tree[:-1]):
            for node in nodes:
                after = [one for one in tree[step + 1] if one.branch.parent == node.branch.slot >= 0]
                assert [child for child in after if child.branch.fate == "cut"] == node.cut
                assert [child for child in after if child.branch.fate != "cut"] == node.live
                assert node.size == descendants(node)
                if node.heir is not None and not node.heir.wins:
                    assert node.heir.size == max(child.size for child in node.live)
        path = [node for nodes in tree for node in nodes if node.wins]
        assert [node.place for node in path[1:]] == trace.winner
        assert all(before.heir is after for before, after in itertools.pairwise(path))
        assert [node for nodes in tree for node in nodes if node.last] == path[-1:]

    def test_groups_all_begin_at_the_root(self) -> None:
        first = [branch(IL, 0, -0.25, "kept", 0), branch(ELLE, 2, -1.5, "kept", 2)]
        tree = grow(BeamTrace([first, [branch(M, 0, -0.5, "kept", 0), branch(M, 2, -2.0, "kept", 2)]], [1, 1]))
        assert tree[0][0].live == tree[1] and [node.live for node in tree[1]] == [[tree[2][0]], [tree[2][1]]]

    def test_a_parent_that_did_not_go_on_is_refused(self) -> None:
        trace = BeamTrace([SMALL.steps[0], [branch(M, 7, -1.0, "kept", 0)]], [0, 0])
        with pytest.raises(DataError, match="step 2: a branch extends slot 7, but the slots that went on are 0, 1"):
            grow(trace)


def outline(mark: Mark, depth: int = 0) -> dict[int, tuple[float, float]]:
    """Top and bottom of a subtree at each depth, read off the places of its marks."""
    found = {depth: (mark.y - mark.high / 2, mark.y + mark.high / 2)}
    for child in mark.children:
        for below, (top, bottom) in outline(child, depth + 1).items():
            upper, lower = found.get(below, (top, bottom))
            found[below] = min(top, upper), max(bottom, lower)
    return found


def room(one: Mark, other: Mark) -> float:
    """How much nearer two subtrees could stand."""
    ours, theirs = outline(one), outline(other)
    return min(
        max(theirs[depth][0] - ours[depth][1], ours[depth][0] - theirs[depth][1])
        - (search_tree.FAR if depth else search_tree.NEAR)
        for depth in ours.keys() & theirs.keys()
    )


class TestPlaces:
    @pytest.mark.parametrize("trace", [SMALL, *(chance(seed) for seed in range(12)), chance(3, 30, 10, 40)])
    def test_no_marks_touch_and_no_lines_cross(self, trace: BeamTrace) -> None:
        columns = place(trace, name if trace is not SMALL else word)
        for column in columns:
            for upper, lower in itertools.pairwise(column):
                assert lower.y - lower.high / 2 - upper.y - upper.high / 2 >= search_tree.NEAR - 1e-9
        for column, after in itertools.pairwise(columns):
            assert [id(mark) for mark in after] == [id(child) for mark in column for child in mark.children]

    @pytest.mark.parametrize("seed", range(12))
    def test_heirs_are_level_and_others_as_near_as_they_go(self, seed: int) -> None:
        for mark in itertools.chain(*place(chance(seed), name)):
            if mark.heir is not None:
                assert mark.heir.y == mark.y
                for child in mark.children:
                    rooms = [room(child, other) for other in mark.children if other is not child]
                    assert child is mark.heir or abs(min(rooms)) < 1e-9

    def test_the_winner_goes_straight(self) -> None:
        assert {mark.y for mark in itertools.chain(*place(SMALL, word)) if mark.node.wins} == {0.0}

    def test_cut_branches_beyond_the_best_are_counted(self) -> None:
        many = [branch(IL, 0, -0.1, "kept", 0), *(branch(10 + at, 0, -1.0 - at, "cut") for at in range(7))]
        _, column = place(BeamTrace([many], [0]), str, cut=2)
        assert [mark.words for mark in column] == ["3", "10", "11", "+5 cut"]
        assert [mark.small for mark in column] == ["−0.10", "−1.00", "−2.00", ""]

    def test_in_a_large_tree_off_the_winners_path_they_are_only_counted(self) -> None:
        trace = chance(5, 30, 10, 40)
        for mark in itertools.chain(*place(trace, name)):
            cut = [child for child in mark.children if child.kind == "cut"]
            if mark.kind != "cut" and not mark.node.wins:
                assert not cut and mark.small.endswith(f"(+{len(mark.node.cut)})" if mark.node.cut else mark.small)
            assert len(cut) <= search_tree.MOST_CUT + 1


def groups(text: str) -> dict[str, ElementTree.Element]:
    return {one.get("id", ""): one for one in ElementTree.fromstring(text).iter(f"{SVG}g")}


def texts(text: str) -> list[str]:
    return [one.text or "" for one in ElementTree.fromstring(text).iter(f"{SVG}text")]


class TestPicture:
    def test_every_node_and_the_winners_path(self) -> None:
        found = groups(tree_svg(SMALL, word, title="he hit me"))
        for step, branches in enumerate(SMALL.steps, 1):
            for at, one in enumerate(branches):
                wins = SMALL.winner[step - 1] == at
                assert f"{'winner' if wins else one.fate}-{step}-{at}" in found
                assert f"{'winner-edge' if wins else 'edge'}-{step}-{at}" in found
        assert sum(key.startswith("winner-edge-") for key in found) == len(SMALL.winner)

    def test_words_and_numbers(self) -> None:
        found = texts(tree_svg(SMALL, word, title="he hit me"))
        assert found.count("entarté") == 2 and found.count("me −4.00") == 1 and found.count("frappé") == 1
        assert [words for words in found if words.startswith("score")] == ["score −0.69", "score −0.25"]
        assert "he hit me" in found and [words for words in found if words.isdigit()] == list("12345")

    def test_labels_are_text_and_nothing_else(self) -> None:
        odd = {IL: "<&>\"'", ELLE: "$x$", M: "\x1b[31m", ME: "שלום", A: "日本語" * 9, ENTARTE: "\u0301", FRAPPE: "\n"}
        text = tree_svg(SMALL, lambda token: odd.get(token, "</s>"), title="a <b> & $c$")
        found = texts(text)
        assert {"<&>\"'", "$x$", "⟨1B⟩[31m", "◌\u0301", "⏎", "a <b> & $c$"} <= set(found)
        assert "שלום\u200e −4.00" in found  # the mark keeps the number on the right of the Hebrew word
        assert any(words.endswith("…") and cell_len(words) <= search_tree.LONGEST_LABEL for words in found)

    @pytest.mark.parametrize("suffix", ["svg", "png", "pdf"])
    def test_formats_and_the_same_bytes_twice(self, suffix: str, tmp_path: Path) -> None:
        path = draw_tree(SMALL, word, tmp_path / f"tree.{suffix}")
        before = path.read_bytes()
        assert len(before) > 1000 and draw_tree(SMALL, word, path).read_bytes() == before

    def test_a_large_tree_keeps_every_live_node(self) -> None:
        trace = chance(5, 14, 6, 15)
        found = texts(tree_svg(trace, name))
        assert {name(token) for token in tokens(trace, "kept", "finished")} <= set(found)

    def test_one_step_stopped_by_the_limit(self) -> None:
        trace = BeamTrace([[branch(IL, 0, -0.25, "kept", 0), branch(ELLE, 0, -math.inf, "cut")]], [0])
        assert {"winner-0-0", "winner-1-0", "cut-1-1"} <= set(groups(tree_svg(trace, word)))
        assert {"score −0.25", "elle −∞"} <= set(texts(tree_svg(trace, word)))

    def test_what_cannot_be_drawn(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="the search made no step; expected a trace of at least 1"):
            draw_tree(BeamTrace([], []), word, tmp_path / "tree.svg")
        with pytest.raises(DataError, match="svg, png, pdf"):
            draw_tree(SMALL, word, tmp_path / "tree.gif")
        assert not list(tmp_path.iterdir())


def bare(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


class TestTerminal:
    def test_golden(self) -> None:
        assert terminal_tree(SMALL, word, width=80, color=False) == GOLDEN

    def test_color_adds_codes_only(self) -> None:
        colored = terminal_tree(SMALL, word, width=80, color=True)
        assert bare(colored) == GOLDEN
        lines = dict(zip(GOLDEN.splitlines(), colored.splitlines(), strict=True))
        for line, shown in lines.items():
            assert ("\x1b[1;36m●" in shown) == ("●" in line and "path" not in line)  # bold
            assert ("\x1b[2m×" in shown) == ("×" in line and "path" not in line)  # dim
        assert "\x1b[32m■ </s>" in colored and "\x1b[1;36m■ </s>" in colored

    @pytest.mark.parametrize("width", [20, 40, 61])
    def test_narrow(self, width: int) -> None:
        text = terminal_tree(chance(7, 20, 8, 30), name, width=width, color=False)
        assert all(cell_len(line) <= width for line in text.splitlines())

    @pytest.mark.parametrize("width", [80, 120])
    @pytest.mark.parametrize("size", [(9, 4, 11), (30, 10, 40)])
    def test_it_fits_and_tells_of_every_branch(self, width: int, size: tuple[int, int, int]) -> None:
        trace = chance(7, *size)
        text = terminal_tree(trace, name, width=width, color=False)
        assert all(cell_len(line) <= width for line in text.splitlines())
        for token in tokens(trace, "kept", "finished"):
            assert len(re.findall(rf"[○●■ ] ?{name(token)}(?!\w)", text)) == 1
        shown = sum(f"{name(token)} −" in text for token in tokens(trace, "cut"))
        counted = sum(map(int, re.findall(r"[+×] ?(\d+) cut", text)))
        assert shown + counted == len(tokens(trace, "cut"))
        assert len(text.splitlines()) < 8 + 1.5 * len(tokens(trace, "kept", "finished"))

    def test_marks_are_the_fates(self) -> None:
        trace = chance(8)
        text = terminal_tree(trace, name, width=100, color=False)
        path = [trace.steps[step][at].token for step, at in enumerate(trace.winner)]
        for step in trace.steps:
            for one in step:
                if one.fate == "finished":
                    assert f"■ {name(one.token)}  score {number(one.score)}" in text
                elif one.fate == "kept":
                    assert f"{'●' if one.token in path else '○'} {name(one.token)}" in text
        assert f"■ {name(path[-1])}  score {number(trace.steps[len(path) - 1][trace.winner[-1]].score)}  ◀ win" in text

    def test_no_step(self) -> None:
        assert terminal_tree(BeamTrace([], []), word, width=80, color=False).count("\n") == 1

    def test_one_step_stopped_by_the_limit(self) -> None:
        trace = BeamTrace([[branch(IL, 0, -0.25, "kept", 0), branch(ELLE, 0, -0.5, "kept", 1)]], [0])
        lines = terminal_tree(trace, word, width=80, color=False).splitlines()
        assert lines[2] == "    1    −0.50 ┠─○ elle"
        assert lines[3] == "    1    −0.25 ● il  score −0.25  ◀ winner, stopped by the length limit"

    def test_control_characters_are_shown_not_obeyed(self) -> None:
        text = terminal_tree(SMALL, lambda token: f"\x1b[2J{token}\n", width=80, color=False)
        assert "\x1b" not in text and "⟨1B⟩[2J8⏎" in text

    def test_ascii(self) -> None:
        text = terminal_tree(SMALL, word, width=80, color=False, ascii_only=True)
        assert text.isascii() and "?" not in text
        assert "    3    -2.50 | o entart\\xe9\n" in text and "* il\n" in text and "x m' -2.25, a -3.00" in text

    def test_no_cut_branch_is_named(self) -> None:
        text = terminal_tree(SMALL, word, width=80, color=False, cut=0)
        assert "└─× 2 cut" in text and "┠─× 1 cut" in text


@pytest.mark.parametrize(
    ("value", "shown"), [(-1.234, "−1.23"), (2.5, "2.50"), (-0.001, "0.00"), (0.0, "0.00"), (-math.inf, "−∞")]
)
def test_numbers(value: float, shown: str) -> None:
    assert number(value) == shown
