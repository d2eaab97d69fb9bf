"""Trees of bracketed texts: lines in a terminal, positions on a page, pictures."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import pytest

from weft.errors import DataError
from weft.evaluation.brackets import Constituent
from weft.pictures.parse_tree import (
    GAP,
    PlacedNode,
    depth,
    draw_parse_tree,
    needed_width,
    place_nodes,
    read_tree,
    terminal_parse_tree,
)
from weft.tasks import generate

SENTENCE = "(TOP (S (NP he ) (VP wanted to drink (NP good milk ) ) ) because (S (NP he ) (VP was (ADJP thirsty ) ) ) )"
TREES = [SENTENCE, "(A b)", "(S (VERYLONGLABEL (X a)) b)", "(A (B (C (D e))) f (G h i (J k)))"]
TREES += [pair.target for pair in generate("trees", "test", 20)]


def width_of(text: str, is_word: bool) -> float:
    return 0.1 * len(text) + 0.02 * is_word


def spoken(node: Constituent | str) -> list[str]:
    return [node] if isinstance(node, str) else [word for child in node.children for word in spoken(child)]


def interval(node: PlacedNode) -> tuple[float, float]:
    half = width_of(node.text, node.is_word) / 2
    return node.x - half, node.x + half


class TestTerminal:
    def test_constituents_are_indented_lines(self) -> None:
        assert terminal_parse_tree(read_tree(SENTENCE)).splitlines() == [
            "TOP",
            "├─ S",
            "│  ├─ NP he",
            "│  └─ VP",
            "│     ├─ wanted to drink",
            "│     └─ NP good milk",
            "├─ because",
            "└─ S",
            "   ├─ NP he",
            "   └─ VP",
            "      ├─ was",
            "      └─ ADJP thirsty",
        ]

    def test_ascii_and_color(self) -> None:
        tree = read_tree("(S (NP he) (VP sleeps))")
        assert terminal_parse_tree(tree, ascii_only=True).splitlines() == ["S", "|- NP he", "`- VP sleeps"]
        assert "\x1b" in terminal_parse_tree(tree, color=True)


class TestPositions:
    @pytest.mark.parametrize("text", TREES)
    def test_no_texts_touch_and_words_are_in_order_at_the_bottom(self, text: str) -> None:
        tree = read_tree(text)
        nodes = place_nodes(tree, width_of)
        for first, second in combinations(nodes, 2):
            if first.row == second.row:
                (_, end), (start, _) = sorted((interval(first), interval(second)))
                assert start - end >= GAP - 1e-9
        words = [node for node in nodes if node.is_word]
        assert [node.text for node in sorted(words, key=lambda node: node.x)] == spoken(tree)
        assert {node.row for node in words} == {depth(tree)}
        assert min(interval(node)[0] for node in nodes) >= -1e-9
        assert max(interval(node)[1] for node in nodes) <= needed_width(tree, width_of) + 1e-9

    @pytest.mark.parametrize("text", TREES)
    def test_lines_cross_neither_texts_nor_lines(self, text: str) -> None:
        """The vertical part of a line stays in the strip of its node, which no other node enters."""
        nodes = place_nodes(read_tree(text), width_of)
        for node in nodes:
            for other in nodes:
                is_between = nodes[node.parent].row < other.row < node.row
                if is_between and other is not nodes[node.parent]:
                    low, high = interval(other)
                    assert not low < node.x < high, (node, other)

    def test_a_label_is_over_the_middle_of_its_parts(self) -> None:
        nodes = place_nodes(read_tree("(S (NP he) (VP sleeps))"), width_of)
        by_text = {node.text: node for node in nodes}
        assert by_text["NP"].x == by_text["he"].x and by_text["VP"].x == by_text["sleeps"].x
        assert by_text["NP"].x < by_text["S"].x < by_text["VP"].x and [by_text[t].row for t in ("S", "NP", "he")] == [
            0,
            1,
            2,
        ]


class TestPictures:
    def test_svg_has_every_label_and_word_and_is_the_same_twice(self, tmp_path: Path) -> None:
        first, second = (draw_parse_tree(read_tree(SENTENCE), tmp_path / f"{n}.svg", title="he …") for n in (1, 2))
        assert first.read_bytes() == second.read_bytes()
        texts = [text for text in ElementTree.parse(first).getroot().itertext() if text.strip()]
        for expected in ("he …", "TOP", "ADJP", "because", "thirsty"):
            assert expected in [text.strip() for text in texts]

    @pytest.mark.parametrize("suffix", ["png", "pdf"])
    def test_other_formats(self, tmp_path: Path, suffix: str) -> None:
        assert draw_parse_tree(read_tree("(A b)"), tmp_path / f"tree.{suffix}").stat().st_size > 1000


@pytest.mark.parametrize("text", ["", "he sleeps", "(S (NP he)", "(S he) (S she)", "(S ())"])
def test_what_is_no_tree_is_refused(text: str) -> None:
    with pytest.raises(DataError, match=rf"^not a tree: {re.escape(repr(text))}; expected brackets with labels"):
        read_tree(text)
