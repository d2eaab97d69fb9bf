"""A thread that searches: results in order, errors where they belong, and an end whenever the caller leaves."""

import sys
import threading

import pytest

from weft.fast.overlap.background import BackgroundSearch
from weft.recipe.search import SearchSettings
from weft.translation.engines.interface import SearchedBatch, TranslationRequest, searched_batches


class Echo:
    """An engine whose batches are single sources; a source of the id 13 is refused."""

    name, precision = "echo", "fp32"

    def __init__(self):
        self.threads = set()
        self.searched = 0

    def search(self, request):
        return [batch.hypotheses[0] for batch in self.batches(request)]

    def batches(self, request):
        for row, source in enumerate(request.sources):
            self.threads.add(threading.current_thread().name)
            self.searched += 1
            if 13 in source:
                raise ValueError("13")
            yield SearchedBatch([row], [source])


def request(*sources):
    return TranslationRequest(sources=list(sources), settings=SearchSettings())


def test_requests_are_searched_in_their_order():
    engine = Echo()
    with BackgroundSearch(engine) as background:
        first, second = background.search(request([3], [4])), background.search(request([5]))
        assert [batch.hypotheses for batch in second] == [[[5]]]
        assert [batch.rows for batch in first] == [[0], [1]]
    assert engine.threads == {"weft-search"}


def test_an_error_is_raised_where_its_results_are_read():
    with BackgroundSearch(Echo()) as background:
        first, second, third = (background.search(request(*sources)) for sources in ([[3]], [[4], [13]], [[5]]))
        assert [batch.hypotheses for batch in first] == [[[3]]]
        assert next(second).hypotheses == [[4]]
        with pytest.raises(ValueError, match="13"):
            next(second)
        assert [batch.hypotheses for batch in third] == [[[5]]]


def test_whoever_leaves_early_waits_for_one_batch_at_most():
    class Slow(Echo):
        def batches(self, request):
            for batch in super().batches(request):
                reached.set()
                may_go_on.wait(5)
                yield batch

    engine, reached, may_go_on = Slow(), threading.Event(), threading.Event()
    before = sys.getswitchinterval()
    with pytest.raises(KeyboardInterrupt), BackgroundSearch(engine) as background:
        background.search(request([3], [4], [5]))
        background.search(request([6]))
        assert reached.wait(5) and sys.getswitchinterval() < before
        threading.Timer(0.05, may_go_on.set).start()
        raise KeyboardInterrupt
    assert engine.searched <= 2 and sys.getswitchinterval() == before
    assert "weft-search" not in {thread.name for thread in threading.enumerate()}


def test_the_switch_interval_is_put_back_by_the_last_search():
    before = sys.getswitchinterval()
    first, second = BackgroundSearch(Echo()), BackgroundSearch(Echo())
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert sys.getswitchinterval() < before
    second.__exit__(None, None, None)
    assert sys.getswitchinterval() == before


class Waiting(Echo):
    """An engine that says when it waits."""

    def __init__(self):
        super().__init__()
        self.idle = threading.Event()

    def idle_event(self):
        return self.idle

    def begin(self, request):
        return None


def test_other_work_is_done_while_a_search_waits():
    engine = Waiting()
    with BackgroundSearch(engine) as background:
        assert engine.idle.wait(5)  # for a request
        assert [batch.hypotheses for batch in background.search(request([3]))] == [[[3]]]
        assert engine.idle.wait(5)
        engine.idle.clear()
        background.yield_to_search()  # not for long
    with BackgroundSearch(Echo()) as background:
        background.yield_to_search()


def test_nobody_waits_for_a_search_that_waits_for_requests(monkeypatch):
    """There the other stages limit the speed."""
    monkeypatch.setattr("weft.fast.overlap.background.MAX_WAIT_SECONDS", 60)
    engine = Waiting()
    with BackgroundSearch(engine) as background:
        assert [batch.hypotheses for batch in background.search(request([3]))] == [[[3]]]
        assert engine.idle.wait(5)
        engine.idle.clear()
        background.yield_to_search()


def test_an_engine_without_batches_returns_one():
    class Whole:
        name, precision = "whole", "fp32"

        def search(self, request):
            return [[source] for source in request.sources]

    [batch] = searched_batches(Whole(), request([3], [4]))
    assert list(batch.rows) == [0, 1] and batch.hypotheses == [[[3]], [[4]]]
