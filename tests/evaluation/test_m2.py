"""M2 files: sentences, annotators, corrected texts, and messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.errors import DataError
from weft.evaluation.m2 import is_m2, read_m2
from weft.evaluation.max_match import Edit, EditCounts, score_edits

FILE = """S The cat sat at mat .
A 3 4|||Prep|||on|||REQUIRED|||-NONE-|||0
A 4 4|||ArtOrDet|||the||a|||REQUIRED|||-NONE-|||0
A 5 6|||Punct||||||REQUIRED|||-NONE-|||2

S  The   dog .
A -1 -1|||noop|||-NONE-|||REQUIRED|||-NONE-|||0
A 1 2|||NN|||-NONE-|||REQUIRED|||-NONE-|||1


S Nothing
"""


def test_sentences_and_annotators(tmp_path: Path) -> None:
    (tmp_path / "gold.m2").write_text(FILE, "utf-8")
    first, second, third = read_m2(tmp_path / "gold.m2")
    assert first.source == "The cat sat at mat ."
    assert first.annotators == {
        0: [Edit(3, 4, (("on",),)), Edit(4, 4, (("the",), ("a",)))],
        2: [Edit(5, 6, ((),))],
    }
    assert first.references == ["The cat sat on the mat .", "The cat sat at mat"]
    assert (second.source, second.annotators) == ("The dog .", {0: [], 1: [Edit(1, 2, ((),))]})
    assert second.references == ["The dog .", "The ."]
    assert third.annotators == {0: []} and third.references == ["Nothing"]


def test_insertions_at_one_place_keep_their_order(tmp_path: Path) -> None:
    edits = ("3 3|||X|||on", "3 3|||X|||mats", "3 4|||X|||!")
    lines = ["S The cat sat .", *(f"A {edit}|||REQUIRED|||-NONE-|||0" for edit in edits)]
    (tmp_path / "gold.m2").write_text("\n".join(lines), "utf-8")
    [sentence] = read_m2(tmp_path / "gold.m2")
    assert sentence.references == ["The cat sat on mats !"]
    counts = score_edits([sentence.source], sentence.references, [list(sentence.annotators.values())])
    assert counts == EditCounts(3, 3, 3)


def test_a_sentence_without_words(tmp_path: Path) -> None:
    (tmp_path / "gold.m2").write_text("S\n\nS \nA 0 0|||X|||a|||REQUIRED|||-NONE-|||0\n", "utf-8")
    first, second = read_m2(tmp_path / "gold.m2")
    assert (first.source, first.references) == ("", [""]) and (second.source, second.references) == ("", ["a"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "gold.m2: no sentences; expected lines that begin with S"),
        ("A 0 1|||X|||b|||||||||0\n", "gold.m2:1: an edit before the first sentence; expected a line that begins"),
        ("S a\nA 0 2|||X|||b|||R|||N|||0\n", "gold.m2:2: an edit of the words 0 to 2; the sentence has 1 words"),
        ("S a\nA 1 0|||X|||b|||R|||N|||0\n", "gold.m2:2: an edit of the words 1 to 0; the sentence has 1 words"),
        ("S a\nA 0 1|||X|||b\n", "gold.m2:2: not an edit; expected A START END|||TYPE|||CORRECTION|||REQUIRED|||COMM"),
        ("S a\nA x|||X|||b|||R|||N|||0\n", "gold.m2:2: not an edit; expected A START END"),
        ("a\tb\n", r"gold.m2:1: 'a\tb' does not begin a line of an M2 file; expected 'S ' or 'A '"),
    ],
)
def test_what_is_no_m2_file(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "gold.m2").write_text(text, "utf-8")
    with pytest.raises(DataError) as error:
        read_m2(tmp_path / "gold.m2")
    assert str(error.value).startswith(str(tmp_path / message))


def test_the_name_of_an_m2_file() -> None:
    assert is_m2("a/b.m2") and is_m2(Path("x.m2")) and not is_m2("m2") and not is_m2([]) and not is_m2("a.m2.tsv")
