"""Translated units as they are written."""

from __future__ import annotations

import pytest

from weft.apps.texts.formats.markdown import inline_pieces as markdown_pieces
from weft.apps.texts.formats.markdown import units
from weft.apps.texts.formats.markup import HTML, inline_pieces
from weft.apps.texts.pieces import Dialect, Unit
from weft.apps.texts.rendering import SentenceOutput, render
from weft.apps.texts.sentences import Part
from weft.apps.texts.trees import make_tree
from weft.text.words import words


def rendered(source: str, output: str, links: list[tuple[int, int]], *, keep: bool = True) -> str:
    unit = Unit(inline_pieces(source), HTML)
    tree = make_tree(unit, lambda line: [Part(line, True)], keep_placeholders=keep)
    return render(tree, [SentenceOutput(output, words(tree.text), words(output), links)], unit.dialect)


@pytest.mark.parametrize(
    ("source", "output", "links", "expected"),
    [
        ("we <b>drank</b> the milk", "nous avons bu le lait", [(0, 0), (1, 1), (1, 2), (2, 3), (3, 4)],
         "nous <b>avons bu</b> le lait"),
        ("the <i>white</i> horse", "le cheval blanc", [(0, 0), (1, 2), (2, 1)], "le cheval <i>blanc</i>"),
        ("<b>the</b> <i>white</i> horse", "le cheval blanc", [(0, 0), (1, 2), (2, 1)],
         "<b>le</b> cheval <i>blanc</i>"),
        ("a &amp; <b>b</b>", "A & <B", [(0, 0), (1, 1), (2, 3)], "A &amp; &lt;<b>B</b>"),
        ("see <img> here", "voir ici", [(0, 0), (1, 1)], "voir <img> ici"),
        ("see<img> here", "voir ici", [(0, 0), (1, 1)], "voir<img> ici"),
        ("see <img>here", "voir ici", [(0, 0), (1, 1)], "voir <img>ici"),
        ("<img> here", "ici", [(0, 0)], "<img> ici"),
    ],
)  # fmt: skip
def test_tags_at_their_words(source: str, output: str, links: list[tuple[int, int]], expected: str) -> None:
    assert rendered(source, output, links) == expected


def test_placeholders_that_were_taken_out() -> None:
    links = [(0, 0), (1, 1), (2, 2)]
    assert rendered("hello {name}, you", "bonjour, vous", links, keep=False) == "bonjour {name}, vous"
    assert rendered("hello {a} you", "bonjour vous", links, keep=False) == "bonjour {a} vous"
    assert rendered("({a}) you", "( ) vous", [(0, 0), (1, 1), (2, 2)], keep=False) == "({a} ) vous"


def test_placeholders_as_they_stand_in_the_file() -> None:
    assert rendered("go to http://a.b/c?d&amp;e now", "va sur http://a.b/c?d&e", []) == "va sur http://a.b/c?d&amp;e"


def test_line_breaks_near_their_places() -> None:
    [unit] = units("aaaa bbbb\ncccc dddd\neeee", ["\n> ", "\n"])
    assert isinstance(unit, Unit)
    tree = make_tree(unit, lambda line: [Part(line, True)], keep_placeholders=True)
    assert render(tree, [SentenceOutput("A A A A B B B B C C")], unit.dialect) == "A A A A\n> B B B B\nC C"
    assert render(tree, [SentenceOutput("A B")], unit.dialect) == "A\n> B", "no more places"
    careful = Dialect(str, markdown_pieces, unit.dialect.cannot_begin)
    assert render(tree, [SentenceOutput("A A # # - B B B")], careful) == "A A # # -\n> B\nB B"
