"""Units as trees."""

from __future__ import annotations

from weft.apps.texts.formats.markup import inline_pieces
from weft.apps.texts.pieces import Unit
from weft.apps.texts.sentences import split_line
from weft.apps.texts.trees import UnitTree, make_tree, matched, merged_words, signature


def tree_of(source: str, *, keep: bool = True) -> UnitTree:
    return make_tree(Unit(inline_pieces(source)), split_line, keep_placeholders=keep)


def test_spans_and_points() -> None:
    tree = tree_of("we <b>drank <i>the</i></b> milk<br> now")
    assert tree.text == "we drank the milk now"
    assert [(node.parent, node.first, node.last, node.is_point) for node in tree.nodes] == [
        (-1, 0, 5, False),
        (0, 1, 3, False),
        (1, 2, 3, False),
        (0, 4, 4, True),
    ]
    assert [tag.opening for tag in tree.tags] == ["", "<b>", "<i>", "<br>"]
    assert (tree.nodes[3].left, tree.nodes[3].right) == ("k", " ")
    assert tree.has_tags_within(0, 5) and not tree.has_tags_within(4, 5)


def test_parts_of_words() -> None:
    tree = tree_of("un<b>believ</b>able it<x/>is")
    assert [(node.first, node.last) for node in tree.nodes] == [(0, 2), (0, 1), (2, 2)]


def test_placeholders() -> None:
    kept, out = tree_of("hi {name}, a"), tree_of("hi {name}, a", keep=False)
    assert (kept.text, kept.placeholders) == ("hi {name}, a", {"{name}": ["{name}"]})
    assert (out.text, out.placeholders, out.tags[1].opening) == ("hi , a", {}, "{name}")
    assert (out.nodes[1].left, out.nodes[1].right) == (" ", ",")


def test_tags_that_cross_have_no_partner() -> None:
    pieces = inline_pieces("<b><i></b></i></p><b>")
    assert matched(pieces) == {0: 2, 2: 0}
    tree = tree_of("a <b><i>b</b> c</i>")
    assert [node.is_point for node in tree.nodes] == [False, False, True, True]


def test_words_of_a_placeholder_are_one() -> None:
    assert merged_words("a {b.c}d e", [(2, 7)]) == [(0, 1), (2, 7), (7, 8), (9, 10)]


def test_the_signature_has_everything_but_text() -> None:
    assert signature(inline_pieces("a <b>b</b> {c}")) == signature(inline_pieces("{c} x <b>y z</b>"))
    assert signature(inline_pieces("<b>a</b>")) != signature(inline_pieces("</b>a<b>"))
