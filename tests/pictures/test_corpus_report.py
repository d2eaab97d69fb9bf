"""The texts of `weft data show` and `check`: what they say, that columns stand, and that no text can break them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from weft.data.filtering.statistics import CorpusStatistics, Sample
from weft.data.pairs import Pair
from weft.pictures.corpus_report import StepCount, check, describe, line_of, percent

ODD = [
    Pair("שלום עולם", "Hello world"),
    Pair("我爱北京" * 30, "I love Beijing"),
    Pair("", "x"),
    Pair("a\tb \x1b[31m red", "same"),
    Pair("same", "same"),
    Pair("same", "same"),
]


def report_of(pairs, **options):
    statistics = CorpusStatistics(samples=9)
    statistics.add(pairs, name="odd.tsv", lines=range(1, len(pairs) + 1))
    return describe(statistics, **options)


def test_a_report_tells_what_is_in_a_corpus():
    text = report_of(ODD, title="odd.tsv", width=60)
    assert text.startswith(
        "odd.tsv\n"
        "pairs            6\n"
        "blank sides      source 1, target 0\n"
        "identical sides  2 (33.33%)\n"
        "duplicates       pair 1 (16.67%), source 1 (16.67%)\n\n"
        "                   mean   50%   90%   99%  longest\n"
        "source words        1.5     1     4     4        4\n"
    )
    assert "source letters   Han 84.51%, Latin 9.86%, Hebrew 5.63%\n" in text
    assert "target letters   Latin 100.00%\n" in text
    assert "\nsource characters\n" in text and "\ntarget words\n" in text  # Han is not written with spaces
    assert "  odd.tsv:3\n    source  ∅\n    target  x" in text
    assert "    source  a⇥b ⟨1B⟩[31m red\n" in text
    assert all(cell_len(line) <= 60 for line in text.split("\n"))


def test_a_report_can_do_without_unicode():
    assert report_of(ODD, ascii_only=True).isascii()


def test_a_report_says_how_far_duplicates_were_counted():
    statistics = CorpusStatistics(max_compared=2)
    statistics.add(ODD)
    assert "source 0 (0.00%) among the first 2\n" in describe(statistics)


def test_an_empty_corpus_is_reported():
    assert describe(CorpusStatistics()) == "pairs            0"


def test_letters_written_from_right_to_left_leave_the_numbers_in_their_places():
    text = report_of([Pair("abcd ש", "x")])
    assert "\n  of others      \u200eש\u200e 1\n" in text


def test_a_check_counts_step_by_step():
    steps = [
        StepCount("length: 1 to 9 words on both sides", 2, [Sample("a.tsv:3", ODD[0]), Sample("", ODD[2])]),
        StepCount("lowercase: both sides", 0),
        StepCount("identical: source and target differ", 12_345),
    ]
    assert check(steps, pairs=29_000) == (
        "                                        pairs in   dropped    share\n"
        "1. length: 1 to 9 words on both sides     29,000         2   <0.01%\n"
        "2. lowercase: both sides                  28,998         0    0.00%\n"
        "3. identical: source and target differ    28,998    12,345   42.57%\n"
        "kept                                      16,653             57.42%\n"
        "\n"
        "1. length: 1 to 9 words on both sides drops\n"
        "  a.tsv:3\n"
        "    source  שלום עולם\n"
        "    target  Hello world\n"
        "  source  ∅\n"
        "  target  x"
    )


def test_a_check_of_no_steps_or_no_pairs():
    assert check([], pairs=3) == "      pairs in   dropped    share\nkept         3            100.00%"
    assert check([StepCount("x: y", 0)], pairs=0).split("\n")[1:] == [
        "1. x: y         0         0        -",
        "kept            0                  -",
    ]


@given(st.text(max_size=60), st.integers(0, 10**9), st.integers(60, 100), st.text(st.characters(), max_size=200))
def test_no_text_is_wider_than_it_may_be_or_breaks_a_line(description, dropped, width, text):
    line = line_of(text, width)
    assert cell_len(line) <= width and line.isprintable()
    name = f"pattern: {description}"
    lines = check([StepCount(name, dropped, [Sample("f:1", Pair(text, text))])], pairs=10**9, width=width).split("\n")
    assert len(lines) == 8 and all(cell_len(one) <= width for one in lines)


@pytest.mark.parametrize(
    ("count", "total", "shown"),
    [(0, 9, "0.00%"), (9, 9, "100.00%"), (1, 10**6, "<0.01%"), (10**6 - 1, 10**6, ">99.99%"), (0, 0, "-")],
)
def test_a_share_is_never_rounded_to_nothing_or_all(count, total, shown):
    assert percent(count, total) == shown


def test_tables_fit_forty_columns():
    text = report_of(ODD, width=40)
    assert "                   mean   99%  longest\n" in text
    table = check([StepCount("a step with a long description", 3)], pairs=1_000, width=40)
    assert max(map(cell_len, table.splitlines())) <= 40 and "1. a" in table
