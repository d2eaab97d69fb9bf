"""Stages that overlap give the same translations as stages one after the other."""

import pickle
import threading

import pytest

from weft.errors import DataError, InputTooLongError
from weft.translation import pipeline, translator

LINES = ["a b", "d", "", "c c a", "b d a c", "a", "e d c b", "b b", "  ", "a a"]


@pytest.fixture
def overlapping(monkeypatch):
    """As on a GPU."""
    monkeypatch.setattr(pipeline, "overlaps", lambda _: True)
    monkeypatch.setattr(translator, "overlaps", lambda _: True)
    monkeypatch.setattr(translator, "GPU_WINDOWS", 1)
    monkeypatch.setattr(pipeline, "FEW_SOURCES", 1)
    monkeypatch.setattr(pipeline, "REQUEST_SOURCES", 3)


@pytest.mark.parametrize("search", [{}, {"kind": "greedy"}, {"n_best": 2}, {"return_attention": True}])
def test_the_same_translations(copier, overlapping, monkeypatch, search):
    search = {"return_attention": False, **search}
    found = copier.translate(LINES, **search)
    streamed = list(copier.translate_lines(iter(LINES), **search))
    monkeypatch.undo()
    expected = copier.translate(LINES, **search)
    for results in (found, streamed):
        assert [one.source for one in results] == LINES
        assert [one.text for one in results] == [one.text for one in expected]
        assert [one.ids for one in results] == [one.ids for one in expected]
        for one, other in zip(results, expected, strict=True):
            assert one.score == pytest.approx(other.score, abs=1e-5) and one.ended == other.ended
            assert len(one.alternatives) == len(other.alternatives)


def test_a_bounded_number_of_lines_is_read_ahead(copier, overlapping, monkeypatch):
    monkeypatch.setattr(translator, "WINDOW_LINES", 2)
    read = []

    def lines():
        for number in range(100):
            read.append(number)
            yield "a b"

    results = copier.translate_lines(lines())
    for taken in (1, 2, 3, 40):
        for _ in range(taken):
            next(results)
    assert len(read) <= 46 + 2 * (pipeline.AHEAD + 1)
    results.close()
    assert "weft-search" not in {thread.name for thread in threading.enumerate()}


def test_errors_come_after_the_results_before_them(copier, overlapping, monkeypatch):
    monkeypatch.setattr(translator, "WINDOW_LINES", 1)
    results = copier.translate_lines(iter(["a", "b", "c", None]))
    assert [next(results).source for _ in range(3)] == ["a", "b", "c"]
    with pytest.raises(DataError, match="lines: None was given"):
        next(results)


def test_a_source_that_is_too_long_fails_its_request_alone(copier, overlapping):
    requests = [copier.request([line]) for line in ("a", "a " * 11_000, "b")]
    first, second, third = pipeline.search_each(copier, requests)
    assert [one.source for one in (*first, *third)] == ["a", "b"]
    assert isinstance(second, InputTooLongError)
    with pytest.raises(InputTooLongError):
        copier.translate(["a", "a " * 11_000, "b"])


def test_what_nobody_reads_is_not_computed(copier):
    plain, detailed = (copier.translate(["a b"], return_attention=given)[0] for given in (False, True))
    assert set(vars(plain)) < set(vars(detailed)) | {"_others", "_row"}
    assert "tokens" not in vars(plain) and "score" not in vars(plain)
    copy = pickle.loads(pickle.dumps(plain))
    for one in (plain, copy):
        assert (one.text, one.ids, one.tokens, one.ended) == (
            detailed.text,
            detailed.ids,
            detailed.tokens,
            detailed.ended,
        )
        assert one.source_tokens == detailed.source_tokens and one.links == [] and one.attention is None
        assert one.token_scores == pytest.approx(detailed.token_scores, abs=1e-5)
        assert one.log_probability == pytest.approx(sum(one.token_scores), abs=1e-5)
        assert one.gap == pytest.approx(detailed.gap, abs=1e-5) and detailed.gap is not None
        assert (one.alternatives, one.trace, one.word_attention) == ((), None, None)
        assert repr(one) == repr(plain) and one == plain
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        _ = plain.colour
