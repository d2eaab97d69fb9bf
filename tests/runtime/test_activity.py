"""What the library says about a long call, and to whom."""

import threading

import pytest

from weft.runtime.activity import Activity, activity, observing


class Recorder:
    """Writes down what it is told."""

    def __init__(self):
        self.events = []

    def begin(self, activity: Activity) -> None:
        self.events.append(("begin", activity.what, activity.done))

    def end(self, activity: Activity) -> None:
        self.events.append(("end", activity.what, activity.done))


def test_an_observer_is_told_of_beginning_and_end():
    recorder = Recorder()
    with observing(recorder), activity("reading", "pairs", total=3) as reading:
        reading.done += 2
        with activity("learning"):
            pass
    assert recorder.events == [
        ("begin", "reading", 0),
        ("begin", "learning", 0),
        ("end", "learning", 0),
        ("end", "reading", 2),
    ]


def test_an_activity_ends_with_an_error():
    recorder = Recorder()
    with pytest.raises(ValueError), observing(recorder), activity("reading"):
        raise ValueError
    assert recorder.events[-1] == ("end", "reading", 0)


def test_nobody_needs_to_observe():
    with activity("reading") as reading:
        reading.done += 1
    assert reading.done == 1


def test_the_outer_observer_comes_back():
    outer, inner = Recorder(), Recorder()
    with observing(outer):
        with observing(inner), activity("a"):
            pass
        with activity("b"):
            pass
    with activity("c"):
        pass
    assert [what for _, what, _ in outer.events] == ["b", "b"] and [what for _, what, _ in inner.events] == ["a", "a"]


def test_other_threads_are_not_observed():
    recorder = Recorder()

    def work():
        with activity("elsewhere"):
            pass

    with observing(recorder):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert not recorder.events
