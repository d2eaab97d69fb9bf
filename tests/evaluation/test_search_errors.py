"""Search errors and model errors: what each constellation of scores shows, against the definitions written out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import DataError
from weft.evaluation.search_errors import ScoredOutput, SearchErrors, SearchSpace, SentenceErrors, classify
from weft.search.ranking import Ranking

PLAIN = Ranking("none")


def output(text: str, log_probability: float, *, tokens: int = 3, ended: bool = True) -> ScoredOutput:
    return ScoredOutput(text, tuple(ord(letter) for letter in text.ljust(tokens, "."))[:tokens], log_probability, ended)


def errors_of(
    found: ScoredOutput, best: ScoredOutput | None, reference: ScoredOutput, *, proven: bool = True, limit: int = 9
) -> SentenceErrors:
    return classify("source", found, best, reference, proven=proven, space=SearchSpace(PLAIN, limit))


GOOD, FAIR, BAD = output("good", -1.0), output("fair", -2.0), output("bad", -3.0)


@pytest.mark.parametrize(
    ("found", "best", "reference", "proven", "search", "model"),
    [
        (GOOD, GOOD, GOOD, True, "best", "reference"),
        (GOOD, GOOD, BAD, True, "best", "error"),
        (FAIR, GOOD, BAD, True, "error", "error"),
        (FAIR, GOOD, GOOD, True, "error", "reference"),
        (GOOD, GOOD, BAD, False, "unknown", "error"),
        (GOOD, GOOD, GOOD, False, "unknown", "unknown"),
        (FAIR, GOOD, BAD, False, "error", "error"),
        (BAD, FAIR, GOOD, False, "error", "unknown"),
        (GOOD, None, BAD, False, "unknown", "error"),
        (BAD, None, GOOD, False, "error", "unknown"),
    ],
)
def test_what_is_known(
    found: ScoredOutput, best: ScoredOutput | None, reference: ScoredOutput, proven: bool, search: str, model: str
) -> None:
    one = errors_of(found, best, reference, proven=proven)
    assert (one.search, one.model) == (search, model)
    known = max(side.log_probability for side in (found, best or found, reference))
    assert one.gap == (pytest.approx(known - found.log_probability) if search == "error" else None)
    assert one.shown_by_reference == (reference.log_probability > found.log_probability)


@given(
    scores=st.lists(st.integers(-9, -1), min_size=5, max_size=5, unique=True),
    found=st.integers(0, 4),
    reference=st.integers(0, 4),
)
def test_where_everything_is_known(scores: list[int], found: int, reference: int) -> None:
    """A space of five outputs: the definitions as they stand."""
    space = [output(letter, score) for letter, score in zip("abcde", scores, strict=True)]
    best = max(space, key=lambda one: one.log_probability)
    one = errors_of(space[found], best, space[reference])
    assert one.search == ("error" if scores[found] < max(scores) else "best")
    assert one.model == ("error" if scores[reference] < max(scores) else "reference")
    doubtful = errors_of(space[found], None, space[reference], proven=False)
    assert doubtful.search in ("unknown", one.search) and doubtful.model in ("unknown", one.model)


def test_scores_are_those_of_the_ranking() -> None:
    """The longer one is less probable and yet, by the token, better: −3/4 against −2/2."""
    short, long = ScoredOutput("s", (5,), -2.0), ScoredOutput("l", (6, 7, 8), -3.0)
    assert classify("", short, long, long, proven=True, space=SearchSpace(Ranking(), 9)).search == "error"
    assert classify("", short, short, long, proven=True, space=SearchSpace(PLAIN, 9)).search == "best"


def test_an_output_that_was_cut_off_is_an_error() -> None:
    one = errors_of(output("cut", -0.1, ended=False), GOOD, GOOD)
    assert (one.search, one.gap, one.model) == ("error", None, "reference")
    assert output("cut", -0.1, ended=False).score(Ranking()) == pytest.approx(-0.1 / 3)


def test_a_reference_beyond_the_limit_says_nothing_about_the_search() -> None:
    far = output("far", -0.5, tokens=9)
    one = errors_of(FAIR, FAIR, far, limit=9)
    assert not one.reachable and (one.search, one.model, one.shown_by_reference) == ("best", "unknown", False)
    assert errors_of(FAIR, FAIR, output("far", -9.0, tokens=9), limit=9).model == "error"
    assert errors_of(FAIR, None, output("near", -0.5, tokens=8), proven=False, limit=9).search == "error"


def test_one_text_cut_in_two_ways_is_one_output() -> None:
    whole, parts = ScoredOutput("ab", (7,), -1.0), ScoredOutput("ab", (5, 6), -2.0)
    assert errors_of(parts, whole, parts).search == "best" and errors_of(whole, whole, parts).model == "reference"


def test_rounding_is_no_error() -> None:
    one = errors_of(output("one", -1.000001), output("two", -1.0), output("one", -1.000001))
    assert (one.search, one.model) == ("best", "reference")


def test_a_corpus() -> None:
    sentences = [
        errors_of(GOOD, GOOD, GOOD),
        errors_of(FAIR, GOOD, BAD),
        errors_of(GOOD, None, BAD, proven=False),
        errors_of(BAD, output("", -0.5, tokens=0), GOOD),
    ]
    found = SearchErrors(sentences, PLAIN, "search:greedy")
    record = found.record()
    assert record["search"] == {
        "best": 1,
        "error": 2,
        "unknown": 1,
        "error, shown by the reference alone": 1,
        "error, cut off by the limit": 0,
        "mean gap": pytest.approx(1.75),
        "largest gap": pytest.approx(2.5),
    }
    assert record["model"] == {"reference": 1, "error": 3, "unknown": 0}
    assert record["best"]["proven"] == 3 and record["best"]["empty"] == 1
    assert record["best"]["mean lengths"] == {"found": 3.0, "best": 2.0, "reference": 3.0}
    assert [one["search"] for one in record["each"]] == ["best", "error", "unknown", "error"]
    assert record["each"][2]["best"] is None and record["each"][1]["gap"] == pytest.approx(1.0)
    assert found.worst(1) == [sentences[3]]
    text = "\n".join(found.summary())
    assert "search error" in text and "model error" in text and text.endswith("search:greedy")
    assert "score lost 1.7500 on average, 2.5000 at most" in text and "say nothing: 1 of 3" in text


def test_nothing_to_judge() -> None:
    with pytest.raises(DataError, match="no sentences to judge"):
        SearchErrors([], PLAIN, "")
    with pytest.raises(DataError, match="nothing was found"):
        errors_of(GOOD, None, GOOD)
