from __future__ import annotations

import itertools
import math
import re

import pytest
from rich.cells import cell_len

from fixtures.beam_traces import ELLE, IL, SMALL, M, branch, name, random_trace, tokens, word
from weft.errors import DataError
from weft.pictures.search_tree import Node, build_tree, number, terminal_tree
from weft.search.trace import BeamTrace

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
    5    −1.25 ■ </s>  score −0.25  ◀ best

● best hypothesis   ○ kept   × pruned   ■ finished   score: the ranking score
The next token is straight below; ├─ is an alternative to it. log p: of all
tokens so far.
"""


def descendants(node: Node) -> int:
    return 1 + sum(descendants(child) for child in node.children)


class TestTree:
    @pytest.mark.parametrize("seed", range(20))
    def test_against_the_definition(self, seed: int) -> None:
        trace = random_trace(seed)
        tree = build_tree(trace)
        assert [[node.branch for node in nodes] for nodes in tree[1:]] == trace.steps
        for step, nodes in enumerate(tree[:-1]):
            for node in nodes:
                after = [later for later in tree[step + 1] if later.branch.parent == node.branch.slot >= 0]
                assert [child for child in after if child.branch.outcome == "pruned"] == node.pruned
                assert [child for child in after if child.branch.outcome != "pruned"] == node.children
                assert node.size == descendants(node)
                if node.main_child is not None and not node.main_child.is_best:
                    assert node.main_child.size == max(child.size for child in node.children)
        path = [node for nodes in tree for node in nodes if node.is_best]
        assert [node.index for node in path[1:]] == trace.winner
        assert all(before.main_child is after for before, after in itertools.pairwise(path))
        assert [node for nodes in tree for node in nodes if node.is_last] == path[-1:]

    def test_all_groups_start_at_the_root(self) -> None:
        first = [branch(IL, 0, -0.25, "kept", 0), branch(ELLE, 2, -1.5, "kept", 2)]
        tree = build_tree(BeamTrace([first, [branch(M, 0, -0.5, "kept", 0), branch(M, 2, -2.0, "kept", 2)]], [1, 1]))
        assert tree[0][0].children == tree[1] and [node.children for node in tree[1]] == [[tree[2][0]], [tree[2][1]]]

    def test_a_parent_that_was_not_kept_is_refused(self) -> None:
        trace = BeamTrace([SMALL.steps[0], [branch(M, 7, -1.0, "kept", 0)]], [0, 0])
        with pytest.raises(DataError, match="step 2: a branch extends slot 7, but the slots of step 1 are 0, 1"):
            build_tree(trace)


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
            assert ("\x1b[1;36m●" in shown) == ("●" in line and "best hypothesis" not in line)  # bold
            assert ("\x1b[2m×" in shown) == ("×" in line and "best hypothesis" not in line)  # dim
        assert "\x1b[32m■ </s>" in colored and "\x1b[1;36m■ </s>" in colored

    @pytest.mark.parametrize("width", [20, 40, 61])
    def test_narrow(self, width: int) -> None:
        text = terminal_tree(random_trace(7, 20, 8, 30), name, width=width, color=False)
        assert all(cell_len(line) <= width for line in text.splitlines())

    @pytest.mark.parametrize("width", [80, 120])
    @pytest.mark.parametrize("size", [(9, 4, 11), (30, 10, 40)])
    def test_it_fits_and_lists_or_counts_every_extension(self, width: int, size: tuple[int, int, int]) -> None:
        trace = random_trace(7, *size)
        text = terminal_tree(trace, name, width=width, color=False)
        assert all(cell_len(line) <= width for line in text.splitlines())
        for token in tokens(trace, "kept", "finished"):
            assert len(re.findall(rf"[○●■ ] ?{name(token)}(?!\w)", text)) == 1
        shown = sum(f"{name(token)} −" in text for token in tokens(trace, "pruned"))
        counted = sum(map(int, re.findall(r"[+×] ?(\d+) pruned", text)))
        assert shown + counted == len(tokens(trace, "pruned"))
        assert len(text.splitlines()) < 8 + 1.5 * len(tokens(trace, "kept", "finished"))

    def test_symbols_are_the_outcomes(self) -> None:
        trace = random_trace(8)
        text = terminal_tree(trace, name, width=100, color=False)
        path = [trace.steps[step][at].token for step, at in enumerate(trace.winner)]
        for step in trace.steps:
            for one in step:
                if one.outcome == "finished":
                    assert f"■ {name(one.token)}  score {number(one.score)}" in text
                elif one.outcome == "kept":
                    assert f"{'●' if one.token in path else '○'} {name(one.token)}" in text
        assert f"■ {name(path[-1])}  score {number(trace.steps[len(path) - 1][trace.winner[-1]].score)}  ◀ best" in text

    def test_no_step(self) -> None:
        assert terminal_tree(BeamTrace([], []), word, width=80, color=False).count("\n") == 1

    def test_one_step_stopped_by_the_limit(self) -> None:
        trace = BeamTrace([[branch(IL, 0, -0.25, "kept", 0), branch(ELLE, 0, -0.5, "kept", 1)]], [0])
        lines = terminal_tree(trace, word, width=80, color=False).splitlines()
        assert lines[2] == "    1    −0.50 ┠─○ elle"
        assert lines[3] == "    1    −0.25 ● il  score −0.25  ◀ best, stopped by the length limit"

    def test_control_characters_are_shown_not_obeyed(self) -> None:
        text = terminal_tree(SMALL, lambda token: f"\x1b[2J{token}\n", width=80, color=False)
        assert "\x1b" not in text and "⟨1B⟩[2J8⏎" in text

    def test_ascii(self) -> None:
        text = terminal_tree(SMALL, word, width=80, color=False, ascii_only=True)
        assert text.isascii() and "?" not in text
        assert "    3    -2.50 | o entart\\xe9\n" in text and "* il\n" in text and "x m' -2.25, a -3.00" in text

    def test_pruned_children_are_only_counted(self) -> None:
        text = terminal_tree(SMALL, word, width=80, color=False, max_pruned=0)
        assert "└─× 2 pruned" in text and "┠─× 1 pruned" in text


@pytest.mark.parametrize(
    ("value", "shown"), [(-1.234, "−1.23"), (2.5, "2.50"), (-0.001, "0.00"), (0.0, "0.00"), (-math.inf, "−∞")]
)
def test_numbers(value: float, shown: str) -> None:
    assert number(value) == shown
