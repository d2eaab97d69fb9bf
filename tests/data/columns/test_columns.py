"""The roles of columns."""

from __future__ import annotations

import pytest

from weft.data.columns.columns import find_columns, named_columns
from weft.data.columns.rows import PairInput
from weft.errors import DataError
from weft.recipe import make_recipe

TAGS = ["V;PRS;SG", "V;PST;PL", "N;ACC"]
INFLECTIONS = [[f"lemma{n}", TAGS[n % 3], f"form{n}"] for n in range(60)]


def test_two_columns() -> None:
    assert find_columns([["a", "b"]], "f").corpus(PairInput("f.tsv")) == "f.tsv"
    layout = find_columns([["target", "source"], ["a", "b"], ["c", "d"]], "f")
    assert (layout.source, layout.target) == ((1,), (0,))
    assert layout.corpus(PairInput("f.csv")) == {"file": "f.csv", "source": ["source"], "target": ["target"]}


def test_features_in_the_middle_and_at_the_end() -> None:
    layout = find_columns(INFLECTIONS, "f")
    assert (layout.source, layout.target, layout.features, layout.tags) == ((0, 1), (2,), (1,), (1,))
    assert layout.corpus(PairInput("f.tsv")) == {"file": "f.tsv", "source": [1, 2], "target": [3], "tags": [2]}
    layout = find_columns([[lemma, form, tags] for lemma, tags, form in INFLECTIONS], "f")
    assert (layout.source, layout.target, layout.tags) == ((0, 2), (1,), (2,))


def test_numbers_constants_links_and_few_values() -> None:
    rows = [[str(n), f"a{n}", "x" if n % 2 else "y", f"b{n}", "de", "0-0"] for n in range(60)]
    layout = find_columns(rows, "f")
    assert (layout.source, layout.target, layout.features, layout.links) == ((1, 2), (3,), (2,), 5)
    assert (layout.tags, layout.ignored) == ((), (0, 4))


def test_ids_and_scores_beside_two_texts_are_ignored() -> None:
    """As in the sentence pairs of Tatoeba: id, sentence, id, translation; in any order, and repeated."""
    rows = [[str(7919 * n % 1013), f"a {n}", str(n // 2 * 31), f"b {n}", f"{n / 7:.3f}"] for n in range(60)]
    layout = find_columns(rows, "f")
    assert (layout.source, layout.target, layout.features, layout.ignored) == ((1,), (3,), (), (0, 2, 4))
    assert layout.describe() == ("source 2; target 4; not used 1, 3, 5", "by number")
    classes = [[str(n % 3), f"a{n}", f"b{n}"] for n in range(60)]
    assert find_columns(classes, "f").features == (0,), "a number of few values is a class"
    sums = [[f"{n}", f"{n * n % 17}", f"{n + n * n % 17}"] for n in range(7, 60, 3)]
    assert find_columns(sums, "f").source == (0,), "numbers are texts if there are no others"
    labelled = find_columns(
        [["source", "target", "comment"], *([f"{n * n}", f"a{n}", f"b{n}"] for n in range(60))], "f"
    )
    assert (labelled.source, labelled.target) == ((0,), (1,))


def test_a_column_is_useless_if_most_of_it_is_empty() -> None:
    """Half of it filled is enough, and white space does not fill a cell."""

    def source(filled: int) -> tuple[int, ...]:
        rows = [[f"note {n}" if n < filled else " ", f"a {n}", f"b {n}"] for n in range(40)]
        return find_columns(rows, "f").source

    assert source(20) == (0,) and source(19) == (1,)


def test_a_column_is_useless_if_it_is_constant_or_counts_rows() -> None:
    def is_used(cells: list[str]) -> bool:
        return find_columns([[cell, f"a {n}", f"b {n}"] for n, cell in enumerate(cells)], "f").source != (1,)

    assert not is_used(["x"] * 9) and is_used([*["x"] * 8, "y"])
    assert find_columns([["x", "a b", "c d"]], "f").source == (0,), "one row tells nothing"
    assert not is_used([str(n) for n in range(5, 9)])
    assert not is_used(["1", "2", "3"]) and is_used(["one", "2", "3", "4"])
    rows = [[number, f"{n}1", f"{n * n}2"] for n, number in enumerate(["1", "3", "5", "7"])]
    assert find_columns(rows, "f").source == (0,), "numbers that do not follow each other, beside numbers"
    counted = [["5", "11", "12"], ["6", "7", "2"], ["7", "5", "9"]]
    assert find_columns(counted, "f").source == (1,), "numbers that do"
    assert find_columns(counted[:2], "f").source == (0,), "two rows tell nothing"
    assert find_columns([["x", "a b", "c d"], ["x", "e f", "g h"]], "f").source == (1,), "a constant of two rows"


def test_a_second_reference_is_ignored() -> None:
    layout = find_columns([[f"a{n}", f"b{n}", f"c{n}"] for n in range(60)], "f")
    assert (layout.source, layout.target, layout.ignored) == ((0,), (1,), (2,))
    assert layout.corpus(PairInput("f.tsv")) == {"file": "f.tsv", "source": [1], "target": [2]}


def test_names_of_json() -> None:
    rows = [[f"b{n}", f"a{n}", f"c{n}"] for n in range(60)]
    layout = find_columns(rows, "f", ("answer", "question", "comment"))
    assert layout.corpus(PairInput("f.jsonl")) == {"file": "f.jsonl", "source": ["question"], "target": ["answer"]}
    with pytest.raises(DataError, match="several columns of text: p, q, r; name two with columns"):
        find_columns(rows, "f", ("p", "q", "r"))


def test_instructions() -> None:
    """Both the instruction and its input, which may be empty, are the source."""
    rows = [["add", "1 2", "3", "x"], ["name a color", "", "red", "y"]]
    layout = find_columns(rows, "f", ("instruction", "input", "output", "topic"))
    assert (layout.source, layout.target, layout.ignored, layout.instructions) == ((0, 1), (2,), (3,), True)
    corpus = layout.corpus(PairInput("f.jsonl"))
    assert corpus == {"instructions": "f.jsonl"} and make_recipe({"data": {"train": corpus}})


def test_one_column() -> None:
    with pytest.raises(DataError, match="f: 1 column; expected a source, a tab and a target in each line"):
        find_columns([["a"], ["b"]], "f")


def test_columns_that_are_given() -> None:
    rows = [["p", "q", "r"], ["1", "2", "3"]]
    layout = named_columns(rows, "f", None, "r", "p")
    assert (layout.source, layout.target, layout.header) == ((2,), (0,), ("p", "q", "r"))
    assert layout.corpus(PairInput("f.tsv")) == {"file": "f.tsv", "source": ["r"], "target": ["p"]}
    layout = named_columns(rows, "f", None, "3", "1")
    assert (layout.source, layout.target, layout.header) == ((2,), (0,), None)
    with pytest.raises(DataError, match="f: no column 'x'; it has p, q, r"):
        named_columns(rows, "f", None, "x", "p")
    with pytest.raises(DataError, match="f: no column '4'; it has 3 columns, by number from 1"):
        named_columns(rows, "f", None, "4", "1")


def test_rows_of_different_widths() -> None:
    with pytest.raises(DataError, match="f: rows of 2 to 9 columns; expected two, or the same number in each"):
        find_columns([["a"] * (2 + n % 8) for n in range(40)], "f")


def test_the_columns_in_another_table() -> None:
    rows = [[str(n), f"a{n}", "x" if n % 2 else "y", f"b{n}", "0-0"] for n in range(60)]
    layout = find_columns(rows, "f", ("id", "source", "kind", "target", "links"))
    other = layout.in_table(("target", "links", "kind", "more", "source"), "g")
    assert (other.source, other.target, other.features, other.links, other.ignored) == ((4, 2), (0,), (2,), 1, ())
    assert (other.label(4), other.label(0)) == ("source", "target")
    with pytest.raises(DataError, match="g: no column 'kind'; choose one of source, target"):
        layout.in_table(("source", "target"), "g")
    numbered = find_columns(rows, "f")
    assert numbered.in_table(None, "g") == numbered


def test_the_widest_row_says_which_numbers_there_are() -> None:
    rows = [["1", "2"], ["3", "4", "5"], ["6", "7"]]
    layout = named_columns(rows, "f", None, "1", "3")
    assert (layout.source, layout.target, layout.ignored) == ((0,), (2,), (1,))
    for column in ("0", "4"):
        with pytest.raises(DataError, match=f"f: no column '{column}'; it has 3 columns, by number from 1"):
            named_columns(rows, "f", None, "1", column)


@pytest.mark.parametrize(("letters", "source"), [(54, (0,)), (55, (1,))])
def test_ids_are_ignored_beside_columns_of_which_nine_tenths_have_letters(
    letters: int, source: tuple[int, ...]
) -> None:
    rows = [[f"{n * n}", f"a {n}" if n < letters else f"{n} {n}", f"b {n}"] for n in range(60)]
    assert find_columns(rows, "f").source == source


@pytest.mark.parametrize(("tagged", "tags"), [(48, (1,)), (47, ())])
def test_tags_are_lists_of_features_in_four_fifths_of_the_rows(tagged: int, tags: tuple[int, ...]) -> None:
    rows = [[f"lemma{n}", TAGS[n % 3] if n < tagged else f"note {n}", f"form{n}"] for n in range(60)]
    assert find_columns(rows, "f").tags == tags


def test_links_are_in_no_column_of_a_side() -> None:
    rows = [[f"a {n}", f"b {n}", "0-0 1-1" if n % 2 else ""] for n in range(9)]
    assert find_columns(rows, "f").links == 2
    assert find_columns([["0-0", *row[:2]] for row in rows], "f").links is None
    assert find_columns([[*row[:2], ""] for row in rows], "f").links is None, "all are empty"
    assert find_columns([*rows, ["a", "b", "one-two"]], "f").links is None


@pytest.mark.parametrize(
    ("separator", "count", "advice"),
    [
        (" ||| ", 10, "; if '|||' separates them, replace it by a tab"),
        (";", 10, "; if ';' separates them, name it .csv"),
        (",", 10, "; if ',' separates them, name it .csv"),
        (",", 9, "; or give a tuple of two files"),
    ],
)
def test_what_separates_the_sides_in_place_of_a_tab(separator: str, count: int, advice: str) -> None:
    rows = [[f"a{separator if n < count else ' '}b"] for n in range(10)]
    with pytest.raises(DataError) as caught:
        find_columns(rows, "f")
    assert str(caught.value) == f"f: 1 column; expected a source, a tab and a target in each line{advice}"


def test_rows_of_different_widths_are_refused_if_none_is_usual() -> None:
    rows = [["a", "b"]] * 10 + [["a"] * n for n in range(3, 13)]
    assert find_columns(rows, "f").target == (1,), "half of them"
    assert find_columns([*rows[1:10], *rows[10:]], "f").target == (1,), "of fewer than twenty rows"
    with pytest.raises(DataError, match="f: rows of 2 to 13 columns"):
        find_columns([*rows[1:], ["a"] * 13], "f")


@pytest.mark.parametrize(
    ("names", "source"),
    [(("target", "source"), 1), (("target", "en"), 0), (("en", "source"), 0), (("source", "target"), 0)],
)
def test_the_source_is_first_unless_both_names_say_otherwise(names: tuple[str, str], source: int) -> None:
    for layout in (
        find_columns([["a b", "c d"]] * 3, "f", names),
        find_columns([[*names], ["a b", "c d"], ["e f", "g h"]], "f"),
    ):
        assert (layout.source, layout.target) == ((source,), (1 - source,))
