"""The recorder, with CUDA graphs that are simulated on a CPU."""

from __future__ import annotations

import gc
import threading

import pytest
import torch
from torch import Tensor

from fixtures.simulated_graphs import SimulatedStream, simulate_graphs
from weft.fast.recording.recorder import RecordedFunction, Recorder


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    return simulate_graphs(monkeypatch)


def test_a_replay_reads_the_buffers_and_overwrites_the_last_result(log: list[str]) -> None:
    buffer, weight = torch.arange(3.0), torch.tensor(2.0)
    recorded: RecordedFunction[Tensor] = RecordedFunction(lambda: (buffer * weight).cumsum(0), Recorder(1))
    first = recorded.replay()
    assert first.tolist() == [0, 2, 6]
    buffer.copy_(torch.tensor([1.0, 1.0, 5.0]))
    assert first.tolist() == [0, 2, 6]
    second = recorded.replay()
    assert second is first and first.tolist() == [2, 4, 14]


def test_the_order_of_a_recording(log: list[str]) -> None:
    """A warm-up on another stream, which waits for this one and which this one waits for; then the capture."""
    buffer = torch.zeros(1)
    calls = []

    def function() -> Tensor:
        calls.append(gc.isenabled())
        log.append("call")
        return buffer + 1

    recorded = RecordedFunction(function, Recorder(1))
    warm_up = ["wait", "stream", "call", "stream left", "wait"]
    capture = ["synchronize", "stream", "begin thread_local pool 0", "call", "end", "stream left"]
    assert log == warm_up + capture and calls == [True, False]
    recorded.replay()
    assert log[-1] == "replay" and len(calls) == 2 and gc.isenabled()


def test_a_training_captures_on_its_own_stream_and_watches_all_threads(log: list[str]) -> None:
    buffer = torch.zeros(1)
    graph = Recorder[object](1).capture(lambda: buffer.add_(1), training_stream=SimulatedStream())  # type: ignore[arg-type]
    assert log == ["synchronize", "begin global pool 0", "end"]
    assert buffer.item() == 0
    for count in (1, 2):
        graph.replay()
        assert buffer.item() == count


def test_memory_stays_alive_with_what_reads_it(log: list[str]) -> None:
    class Memory:
        def __init__(self) -> None:
            self.values = torch.ones(2)

    memory = Memory()
    recorded = RecordedFunction(lambda given=memory: given.values + 1, Recorder(1))  # type: ignore[misc]
    address = memory.values.data_ptr()
    del memory
    assert recorded._function.__defaults__[0].values.data_ptr() == address  # type: ignore[attr-defined]


@pytest.mark.parametrize("stream", [None, SimulatedStream()])
def test_a_capture_that_fails_is_ended(log: list[str], stream: SimulatedStream | None) -> None:
    def fail() -> None:
        raise torch.OutOfMemoryError("full")

    recorder: Recorder[object] = Recorder(1)
    with pytest.raises(torch.OutOfMemoryError, match="full"):
        recorder.capture(fail, training_stream=stream)  # type: ignore[arg-type]
    assert "end" in log and gc.isenabled()
    recorder.capture(lambda: None)  # the lock of captures is free


def test_captures_of_several_threads_follow_each_other(log: list[str]) -> None:
    started, ended = threading.Event(), threading.Event()

    def slow() -> None:
        log.append("slow")
        started.set()
        ended.wait(20)

    threads = [threading.Thread(target=Recorder[object](1).capture, args=[slow])]
    threads[0].start()
    assert started.wait(20)
    threads.append(threading.Thread(target=Recorder[object](1).capture, args=[lambda: log.append("next")]))
    threads[1].start()
    threads[1].join(0.05)
    assert "next" not in log
    ended.set()
    for thread in threads:
        thread.join(20)
    events = [entry.split()[0] for entry in log]
    assert [entry for entry in events if entry in ("begin", "slow", "next", "end")] == [
        "begin", "slow", "end", "begin", "next", "end"
    ]  # fmt: skip


def test_the_least_recently_used_is_dropped() -> None:
    recorder: Recorder[str] = Recorder(2)
    made: list[str] = []

    def get(name: str) -> str:
        def record() -> str:
            made.append(name)
            return name

        return recorder.graph(len(name), record)

    for name in ("a", "bb", "a", "ccc", "a", "bb"):
        assert get(name) == name
    assert made == ["a", "bb", "ccc", "bb"]
    assert list(recorder.graphs.values()) == ["a", "bb"]
    recorder.clear()
    assert not recorder.graphs


def test_sizes_are_added_up_and_the_newest_always_stays() -> None:
    dropped: list[int] = []

    class Sized(Recorder[int]):
        def size(self, recording: int) -> float:
            return recording

        def drop(self, recording: int) -> None:
            dropped.append(recording)

    recorder = Sized(10)
    for size in (4, 5, 6, 50, 1):
        recorder.graph(size, lambda size=size: size)  # type: ignore[misc]
    assert dropped == [4, 5, 6, 50] and list(recorder.graphs) == [1]
    recorder.limit = 3
    recorder.graph(2, lambda: 2)
    assert list(recorder.graphs) == [1, 2]


def test_what_cannot_be_recorded_is_not_kept() -> None:
    def fail() -> str:
        raise ValueError

    recorder: Recorder[str] = Recorder(2)
    with pytest.raises(ValueError):
        recorder.graph("shape", fail)
    assert not recorder.graphs and recorder.graph("shape", lambda: "made") == "made"


def test_a_shape_is_new_once_until_all_are_cleared() -> None:
    recorder: Recorder[object] = Recorder(1)
    assert [recorder.is_new(shape) for shape in [(1, 2), (1, 3), (1, 2)]] == [True, True, False]
    recorder.clear()
    assert recorder.is_new((1, 2))


def test_graphs_share_memory_until_the_last_is_gone(log: list[str]) -> None:
    """PyTorch frees it then; the next graph gets new memory."""
    recorder: Recorder[object] = Recorder(2)

    def pool_of_next() -> tuple[object, str]:
        graph = recorder.capture(lambda: None)
        return graph, next(entry for entry in reversed(log) if entry.startswith("begin"))[-1]

    first, pool = pool_of_next()
    second, same_pool = pool_of_next()
    assert (pool, same_pool) == ("0", "0")
    del first
    third, same_pool = pool_of_next()
    assert same_pool == "0"
    del second, third
    assert pool_of_next()[1] == "1"
