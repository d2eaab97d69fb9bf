"""Stages that overlap give the same translations as stages one after the other."""

import threading

import pytest

from weft.errors import DataError, InputTooLongError
from weft.fast.overlap.pipeline import PREFETCHED
from weft.translation import pipeline

LINES = ["a b", "d", "", "c c a", "b d a c", "a", "e d c b", "b b", "  ", "a a"]


@pytest.fixture
def overlapping(monkeypatch):
    """As on a GPU."""
    monkeypatch.setattr(pipeline.Pipeline, "overlaps", lambda _: True)
    monkeypatch.setattr(pipeline, "GPU_WINDOWS", 1)
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
    monkeypatch.setattr(pipeline, "WINDOW_LINES", 2)
    read = []

    def lines():
        for number in range(100):
            read.append(number)
            yield "a b"

    results = copier.translate_lines(lines())
    for taken in (1, 2, 3, 40):
        for _ in range(taken):
            next(results)
    assert len(read) <= 46 + 2 * (PREFETCHED + 1)
    results.close()
    assert "weft-search" not in {thread.name for thread in threading.enumerate()}


def test_errors_come_after_the_results_before_them(copier, overlapping, monkeypatch):
    monkeypatch.setattr(pipeline, "WINDOW_LINES", 1)
    results = copier.translate_lines(iter(["a", "b", "c", None]))
    assert [next(results).source for _ in range(3)] == ["a", "b", "c"]
    with pytest.raises(DataError, match="lines: None was given"):
        next(results)


def test_a_source_that_is_too_long_fails_its_request_alone(copier, overlapping):
    requests = [copier.request([line]) for line in ("a", "a " * 11_000, "b")]
    first, second, third = copier.pipeline.search_each(requests)
    assert [one.source for one in (*first, *third)] == ["a", "b"]
    assert isinstance(second, InputTooLongError)
    with pytest.raises(InputTooLongError):
        copier.translate(["a", "a " * 11_000, "b"])
