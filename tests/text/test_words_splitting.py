import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.text.words import split, words


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("il m'a entarté.", ["il", "m'", "a", "entarté", "."]),
        ("vingt-deux arcs-en-ciel", ["vingt-deux", "arcs-en-ciel"]),
        ("3.14, 1,000!", ["3.14", ",", "1,000", "!"]),
        ("« l’ami »", ["«", "l’", "ami", "»"]),
        ("e\u0301te\u0301", ["e\u0301te\u0301"]),
        ("", []),
        (" \t ", []),
        ("...", [".", ".", "."]),
        ("'quoted'", ["'", "quoted", "'"]),
    ],
)
def test_known_answers(line, expected):
    assert words(line) == expected


@given(st.text())
def test_words_stand_where_they_say_and_leave_only_white_space(line):
    found = split(line)
    assert [word.text for word in found] == words(line)
    assert all(line[word.start : word.end] == word.text for word in found)
    assert "".join(word.text for word in found) == "".join(line.split())
