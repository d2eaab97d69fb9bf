"""Headers, and the roles of columns."""

from __future__ import annotations

import pytest

from weft.data.profiling.columns import find_columns, header_of, named_columns
from weft.data.profiling.inputs import PairInput
from weft.errors import DataError
from weft.recipe import make_recipe

TAGS = ["V;PRS;SG", "V;PST;PL", "N;ACC"]
INFLECTIONS = [[f"lemma{n}", TAGS[n % 3], f"form{n}"] for n in range(60)]


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


def test_a_second_reference_is_ignored() -> None:
    layout = find_columns([[f"a{n}", f"b{n}", f"c{n}"] for n in range(60)], "f")
    assert (layout.source, layout.target, layout.ignored) == ((0,), (1,), (2,))
    assert layout.corpus(PairInput("f.tsv")) == {"file": "f.tsv", "source": [1], "target": [2]}


def test_names_of_json() -> None:
    rows = [[f"b{n}", f"a{n}", f"c{n}"] for n in range(60)]
    layout = find_columns(rows, "f", ("answer", "question", "comment"))
    assert layout.corpus(PairInput("f.jsonl")) == {"file": "f.jsonl", "source": ["question"], "target": ["answer"]}
    with pytest.raises(DataError, match="several columns of text: p, q, r; name two with --source and --target"):
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
