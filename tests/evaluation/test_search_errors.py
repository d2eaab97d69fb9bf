"""Search errors and model errors: what each constellation of scores shows, against the definitions written out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import DataError
from weft.evaluation.search_errors import Judged, Said, SearchErrors, judge, summary, worst
from weft.search.ranking import Ranking

PLAIN = Ranking("none")


def said(name: str, log_probability: float, *, tokens: int = 3, ended: bool = True) -> Said:
    return Said(name, tuple(ord(letter) for letter in name.ljust(tokens, "."))[:tokens], log_probability, ended)


def judged(found: Said, best: Said | None, reference: Said, *, proven: bool = True, limit: int = 9) -> Judged:
    return judge("source", found, best, reference, proven=proven, limit=limit, ranking=PLAIN)


GOOD, FAIR, BAD = said("good", -1.0), said("fair", -2.0), said("bad", -3.0)


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
def test_what_is_known(found: Said, best: Said | None, reference: Said, proven: bool, search: str, model: str) -> None:
    one = judged(found, best, reference, proven=proven)
    assert (one.search, one.model) == (search, model)
    known = max(side.log_probability for side in (found, best or found, reference))
    assert one.gap == (pytest.approx(known - found.log_probability) if search == "error" else None)
    assert one.cheap == (reference.log_probability > found.log_probability)


@given(
    scores=st.lists(st.integers(-9, -1), min_size=5, max_size=5, unique=True),
    found=st.integers(0, 4),
    reference=st.integers(0, 4),
)
def test_where_everything_is_known(scores: list[int], found: int, reference: int) -> None:
    """A space of five outputs: the definitions as they stand."""
    space = [said(letter, score) for letter, score in zip("abcde", scores, strict=True)]
    best = max(space, key=lambda one: one.log_probability)
    one = judged(space[found], best, space[reference])
    assert one.search == ("error" if scores[found] < max(scores) else "best")
    assert one.model == ("error" if scores[reference] < max(scores) else "reference")
    doubtful = judged(space[found], None, space[reference], proven=False)
    assert doubtful.search in ("unknown", one.search) and doubtful.model in ("unknown", one.model)


def test_scores_are_those_of_the_ranking() -> None:
    """The longer one is less probable and yet, by the token, better: −3/4 against −2/2."""
    short, long = Said("s", (5,), -2.0), Said("l", (6, 7, 8), -3.0)
    assert judge("", short, long, long, proven=True, limit=9, ranking=Ranking()).search == "error"
    assert judge("", short, short, long, proven=True, limit=9, ranking=PLAIN).search == "best"


def test_an_output_that_was_cut_off_is_an_error() -> None:
    one = judged(said("cut", -0.1, ended=False), GOOD, GOOD)
    assert (one.search, one.gap, one.model) == ("error", None, "reference")
    assert said("cut", -0.1, ended=False).score(Ranking()) == pytest.approx(-0.1 / 3)


def test_a_reference_beyond_the_limit_says_nothing_about_the_search() -> None:
    far = said("far", -0.5, tokens=9)
    one = judged(FAIR, FAIR, far, limit=9)
    assert not one.reachable and (one.search, one.model, one.cheap) == ("best", "unknown", False)
    assert judged(FAIR, FAIR, said("far", -9.0, tokens=9), limit=9).model == "error"
    assert judged(FAIR, None, said("near", -0.5, tokens=8), proven=False, limit=9).search == "error"


def test_one_text_cut_in_two_ways_is_one_output() -> None:
    whole, parts = Said("ab", (7,), -1.0), Said("ab", (5, 6), -2.0)
    assert judged(parts, whole, parts).search == "best" and judged(whole, whole, parts).model == "reference"


def test_rounding_is_no_error() -> None:
    one = judged(said("one", -1.000001), said("two", -1.0), said("one", -1.000001))
    assert (one.search, one.model) == ("best", "reference")


def test_a_corpus() -> None:
    sentences = [
        judged(GOOD, GOOD, GOOD),
        judged(FAIR, GOOD, BAD),
        judged(GOOD, None, BAD, proven=False),
        judged(BAD, said("", -0.5, tokens=0), GOOD),
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
    assert worst(found, 1) == [sentences[3]]
    text = "\n".join(summary(found))
    assert "search error" in text and "model error" in text and text.endswith("search:greedy")
    assert "score lost 1.7500 on average, 2.5000 at most" in text and "say nothing: 1 of 3" in text


def test_nothing_to_judge() -> None:
    with pytest.raises(DataError, match="no sentences to judge"):
        SearchErrors([], PLAIN, "")
    with pytest.raises(DataError, match="nothing was found"):
        judged(GOOD, None, GOOD)
