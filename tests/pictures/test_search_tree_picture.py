from __future__ import annotations

import itertools
import math
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.cells import cell_len

from fixtures.beam_traces import ELLE, ENTARTE, FRAPPE, IL, ME, SMALL, A, M, branch, name, random_trace, tokens, word
from weft.errors import DataError
from weft.pictures.search_tree import LONGEST_LABEL, MAX_PRUNED
from weft.pictures.search_tree_picture import COLUMN_GAP, SIBLING_GAP, PlacedNode, draw_tree, layout_tree
from weft.pictures.terminal import Label
from weft.search.trace import BeamTrace

SVG = "{http://www.w3.org/2000/svg}"


def contour(placed: PlacedNode, depth: int = 0) -> dict[int, tuple[float, float]]:
    """Top and bottom of a subtree at each depth, computed from the positions of its nodes."""
    intervals = {depth: (placed.y - placed.height / 2, placed.y + placed.height / 2)}
    for child in placed.children:
        for below, (top, bottom) in contour(child, depth + 1).items():
            upper, lower = intervals.get(below, (top, bottom))
            intervals[below] = min(top, upper), max(bottom, lower)
    return intervals


def free_space(first: PlacedNode, second: PlacedNode) -> float:
    """How much closer two subtrees could be."""
    a, b = contour(first), contour(second)
    return min(
        max(b[depth][0] - a[depth][1], a[depth][0] - b[depth][1]) - (COLUMN_GAP if depth else SIBLING_GAP)
        for depth in a.keys() & b.keys()
    )


class TestLayout:
    @pytest.mark.parametrize("trace", [SMALL, *(random_trace(seed) for seed in range(12)), random_trace(3, 30, 10, 40)])
    def test_no_nodes_touch_and_no_edges_cross(self, trace: BeamTrace) -> None:
        columns = layout_tree(trace, name if trace is not SMALL else word)
        for column in columns:
            for upper, lower in itertools.pairwise(column):
                assert lower.y - lower.height / 2 - upper.y - upper.height / 2 >= SIBLING_GAP - 1e-9
        for column, after in itertools.pairwise(columns):
            assert [id(placed) for placed in after] == [id(child) for placed in column for child in placed.children]

    @pytest.mark.parametrize("seed", range(12))
    def test_main_children_are_level_and_the_others_as_close_as_possible(self, seed: int) -> None:
        for placed in itertools.chain(*layout_tree(random_trace(seed), name)):
            if placed.main_child is not None:
                assert placed.main_child.y == placed.y
                for child in placed.children:
                    spaces = [free_space(child, sibling) for sibling in placed.children if sibling is not child]
                    assert child is placed.main_child or abs(min(spaces)) < 1e-9

    def test_the_best_path_is_straight(self) -> None:
        assert {placed.y for placed in itertools.chain(*layout_tree(SMALL, word)) if placed.node.is_best} == {0.0}

    def test_pruned_children_beyond_the_best_are_counted(self) -> None:
        many = [branch(IL, 0, -0.1, "kept", 0), *(branch(10 + at, 0, -1.0 - at, "pruned") for at in range(7))]
        _, column = layout_tree(BeamTrace([many], [0]), str, max_pruned=2)
        assert [placed.text for placed in column] == ["3", "10", "11", "+5 pruned"]
        assert [placed.total for placed in column] == ["−0.10", "−1.00", "−2.00", ""]

    def test_in_a_large_tree_off_the_best_path_they_are_only_counted(self) -> None:
        trace = random_trace(5, 30, 10, 40)
        for placed in itertools.chain(*layout_tree(trace, name)):
            shown = [child for child in placed.children if child.kind == "pruned"]
            if placed.kind != "pruned" and not placed.node.is_best:
                count = len(placed.node.pruned)
                assert not shown and placed.total.endswith(f"(+{count})" if count else placed.total)
            assert len(shown) <= MAX_PRUNED + 1


def svg(trace: BeamTrace, folder: Path, label: Label = word, **options: str) -> str:
    return draw_tree(trace, label, folder / "tree.svg", **options).read_text("utf-8")


def groups(text: str) -> dict[str, ElementTree.Element]:
    return {group.get("id", ""): group for group in ElementTree.fromstring(text).iter(f"{SVG}g")}


def texts(text: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(text).iter(f"{SVG}text")]


class TestPicture:
    def test_every_node_and_the_best_path(self, tmp_path: Path) -> None:
        names = groups(svg(SMALL, tmp_path, title="he hit me"))
        for step, branches in enumerate(SMALL.steps, 1):
            for index, extension in enumerate(branches):
                best = SMALL.winner[step - 1] == index
                assert f"{'best' if best else extension.outcome}-{step}-{index}" in names
                assert f"{'best-edge' if best else 'edge'}-{step}-{index}" in names
        assert sum(key.startswith("best-edge-") for key in names) == len(SMALL.winner)

    def test_edges_bend_halfway_between_their_nodes(self, tmp_path: Path) -> None:
        for key, group in groups(svg(SMALL, tmp_path)).items():
            if key.startswith(("edge-", "best-edge-")):
                path = next(iter(group.iter(f"{SVG}path"))).get("d", "")
                x = [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", path)][::2]
                assert x[1] == pytest.approx((x[0] + x[3]) / 2, abs=0.01) and x[1] == pytest.approx(x[2])

    def test_words_and_numbers(self, tmp_path: Path) -> None:
        found = texts(svg(SMALL, tmp_path, title="he hit me"))
        assert found.count("entarté") == 2 and found.count("me −4.00") == 1 and found.count("frappé") == 1
        assert [words for words in found if words.startswith("score")] == ["score −0.69", "score −0.25"]
        assert "he hit me" in found and [words for words in found if words.isdigit()] == list("12345")

    def test_labels_are_text_and_nothing_else(self, tmp_path: Path) -> None:
        odd = {IL: "<&>\"'", ELLE: "$x$", M: "\x1b[31m", ME: "שלום", A: "日本語" * 9, ENTARTE: "\u0301", FRAPPE: "\n"}
        found = texts(svg(SMALL, tmp_path, lambda token: odd.get(token, "</s>"), title="a <b> & $c$"))
        assert {"<&>\"'", "$x$", "⟨1B⟩[31m", "◌\u0301", "⏎", "a <b> & $c$"} <= set(found)
        assert "שלום\u200e −4.00" in found  # the mark keeps the number on the right of the Hebrew word
        assert any(words.endswith("…") and cell_len(words) <= LONGEST_LABEL for words in found)

    def test_a_large_tree_shows_every_kept_node(self, tmp_path: Path) -> None:
        trace = random_trace(5, 14, 6, 15)
        found = texts(svg(trace, tmp_path, name))
        assert {name(token) for token in tokens(trace, "kept", "finished")} <= set(found)

    def test_one_step_stopped_by_the_limit(self, tmp_path: Path) -> None:
        trace = BeamTrace([[branch(IL, 0, -0.25, "kept", 0), branch(ELLE, 0, -math.inf, "pruned")]], [0])
        text = svg(trace, tmp_path)
        assert {"best-0-0", "best-1-0", "pruned-1-1"} <= set(groups(text))
        assert {"score −0.25", "elle −∞"} <= set(texts(text))

    def test_what_cannot_be_drawn(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="the search made no step; expected a trace of at least 1"):
            draw_tree(BeamTrace([], []), word, tmp_path / "tree.svg")
        assert not list(tmp_path.iterdir())
