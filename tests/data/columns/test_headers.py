"""Headers: by known names, and by what stands below them."""

from __future__ import annotations

import pytest

from weft.data.columns.headers import has_few_values, header_of, is_header_alone

SENTENCES = [[f"the word {n}", f"das Wort {n}"] for n in range(40)]


def test_headers() -> None:
    body = [["a", "b"], ["c", "d"]]
    assert header_of([["source", "Target"], *body]) == ("source", "Target")
    assert header_of([["en", "de"], *body]) == ("en", "de")
    assert header_of([["id", "source", "target"], ["1", "a", "b"]]) is not None
    assert header_of([["English words/sentences", "French words/sentences"], *body]) is not None
    assert header_of([["the French and the English sentence", "a German one, or a Dutch one"], *body]) is None
    assert header_of([["French bread", "pain"], *body]) is None
    assert header_of([["in", "dans"], *body]) is None
    assert header_of([["en", "en"], *body]) is None
    assert header_of([["source", "target"]]) is None


def test_known_names_are_cleaned() -> None:
    assert header_of([["source", " \ufeffTarget "], ["a", "b"]]) == ("source", "Target")


@pytest.mark.parametrize(
    ("names", "body"),
    [
        (["a", "b"], SENTENCES),
        (["english_text", "german_text"], SENTENCES),
        (["number", "square"], [[str(n), str(n * n)] for n in range(9)]),
        (["word", "frequency"], [[f"w{n}", f"{n}.5"] for n in range(9)]),
        (["review", "sentiment"], [[row[0], "good" if n % 2 else "bad"] for n, row in enumerate(SENTENCES)]),
        (["a", "b"], [*SENTENCES, ["x", "y"]]),
    ],
)
def test_a_header_of_other_words(names: list[str], body: list[list[str]]) -> None:
    assert header_of([names, *body]) == tuple(names)


@pytest.mark.parametrize(
    ("names", "body"),
    [
        (["a", "b"], SENTENCES[:4]),
        (["a", "a"], SENTENCES),
        (["Go.", "Va !"], SENTENCES),
        (["go now", "va"], SENTENCES),
        (["3rd", "b"], SENTENCES),
        (["", "b"], SENTENCES),
        (["hi", "salut"], [["go", "va"], *SENTENCES]),
        (["a", "b"], [*SENTENCES, ["a", "y z"]]),
        (["a", "b"], [*SENTENCES, *[["x", "y"]] * 3]),
        (["dog", "Hund"], [[f"w{n}", f"x{n}"] for n in range(40)]),
        (["ab", "ey"], [[f"w{n}", f"f {n}"] for n in range(40)]),
        (["a", "b"], [["x y"]] * 9),
    ],
)
def test_a_first_row_that_is_a_pair(names: list[str], body: list[list[str]]) -> None:
    assert header_of([names, *body]) is None


def test_how_many_rows_and_cells_tell() -> None:
    assert header_of([["a", "b"], *SENTENCES[:5]]) is not None, "five rows are enough"
    assert header_of([["a", "b"], *SENTENCES[:38], ["x", "y"], ["x", "y"]]) is not None, "95 % of 40 rows"
    assert header_of([["a", "b"], *([f"two {n}", f"zwei {n}"] for n in range(9))]) is not None, "two words are several"
    assert header_of([["source", "target", "p", "q"], ["a", "b", "c", "d"]]) is not None, "half of the names are known"
    assert header_of([["source", "target", "p", "q", "r"], ["a", "b", "c", "d", "e"]]) is None
    assert header_of([["source", "target"], ["a"]]) is not None, "whatever the next row is"
    assert header_of([["a nice French sentence", "en"], ["a", "b"]]) is None, "a name has at most three words"


def test_a_header_without_rows() -> None:
    assert is_header_alone([["Source", "target"]]) and is_header_alone([["en", "de", "id"]])
    assert not is_header_alone([["source", "target"], ["a", "b"]])
    assert not is_header_alone([["source", "hello"]])
    assert not is_header_alone([["source"]]) and not is_header_alone([["en", "en"]])


def test_few_values() -> None:
    assert has_few_values(["x", "y"] * 10) and not has_few_values(["x", "y", "z"] * 10)
    assert not has_few_values(["x"] * 19)
    assert has_few_values([str(n % 5) for n in range(100)]) and not has_few_values([str(n % 6) for n in range(100)])
