"""The worker's end: one bad row, errors that nobody foresaw, a device that fails."""

from __future__ import annotations

import io
import json
import os
import threading
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from weft.apps.serve import operations, worker
from weft.apps.serve.observation import Abandoned
from weft.apps.serve.operations import UnknownTokenError
from weft.apps.serve.worker import DEVICE_FAILED, INTERNAL, Worker, is_device_error, status_of
from weft.errors import CheckpointError, DataError, SearchError
from weft.runtime.processes import Message, encode_message, read_message, to_json

SECRET = " ".join(("the", "secret"))


class Sent:
    """The messages that a worker has written, in whichever thread."""

    def __init__(self) -> None:
        self.messages: SimpleQueue[Message] = SimpleQueue()

    def write(self, content: bytes) -> None:
        message = read_message(io.BytesIO(content))
        assert message is not None
        self.messages.put(message)

    def flush(self) -> None: ...

    def next(self) -> Message:
        return self.messages.get(timeout=60)


@pytest.fixture
def channel(monkeypatch: pytest.MonkeyPatch) -> io.BytesIO:
    """Where a worker writes; its model fails on texts that say so."""

    def translate(translator: Any, payload: dict[str, Any], observer: Any = None) -> list[bytes]:
        texts = payload["texts"]
        for text in texts:
            if text == "bad":
                raise SearchError("bad: it is bad")
            if text == "bug":
                raise RuntimeError(SECRET)
            if text == "device":
                raise RuntimeError("CUDA error: an illegal memory access")
            if text == "memory":
                raise MemoryError
            if text == "index":
                raise IndexError(SECRET)
        return [to_json({"text": text}) for text in texts]

    monkeypatch.setattr(operations, "translate", translate)
    return io.BytesIO()


def answer(channel: io.BytesIO, texts: list[str], abandoned: tuple[int, ...] = ()) -> Message:
    one = Worker(io.BytesIO(), channel)
    one.translator = SimpleNamespace(device=torch.device("cpu"))  # type: ignore[assignment]
    one.abandoned = {(7, row) for row in abandoned}
    message = Message({"op": "translate", "id": 7, "queue": "batch"}, [to_json({"texts": texts})])
    try:
        one._answer(message)
    except BaseException as error:
        one._fail(message, error)
    channel.seek(0)
    result = read_message(channel)
    assert result is not None
    return result


def test_one_bad_row_does_not_spoil_the_others(channel: io.BytesIO, capsys: pytest.CaptureFixture[str]) -> None:
    message = answer(channel, ["a", "bad", "b", "c", "bug", "memory", "index"], abandoned=(2,))
    assert [json.loads(body) for body in message.bodies] == [{"text": "a"}, None, None, {"text": "c"}, None, None, None]
    statuses = {row: status for row, (status, _) in message.header["errors"].items()}
    assert statuses == {"1": 422, "4": 500, "5": 413, "6": 500}
    logged = capsys.readouterr().err
    assert "RuntimeError" in logged and "IndexError" in logged and SECRET not in logged
    assert message.header["errors"]["1"][1] == "bad: it is bad"
    assert message.header["errors"]["4"][1] == INTERNAL


def test_a_device_that_fails_ends_the_process(channel: io.BytesIO, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that it computes could be trusted; the service starts another."""
    codes: list[int] = []
    monkeypatch.setattr(worker.os, "_exit", codes.append)
    message = answer(channel, ["a", "device"])
    assert message.header["error"][0] == 503
    assert codes == [DEVICE_FAILED]


def test_errors_are_logged_without_texts(
    channel: io.BytesIO, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(translator: Any, payload: Any) -> bytes:
        raise ValueError(payload["text"])

    monkeypatch.setattr(operations, "tokens", broken)
    for log, expected in (("errors", False), ("texts", True)):
        one = Worker(io.BytesIO(), io.BytesIO())
        one.translator, one.config = object(), {"log": log}  # type: ignore[assignment]
        message = Message({"op": "tokens", "id": 1}, [to_json({"text": "private"})])
        with pytest.raises(ValueError, match="private") as caught:
            one._answer(message)
        one._fail(message, caught.value)
        logged = capsys.readouterr().err
        assert "ValueError" in logged and ("private" in logged) is expected


def test_no_output_is_longer_than_the_service_allows(recurrent_run: Path) -> None:
    """Whatever the model has learned, and whatever a request asks for."""
    one = Worker(io.BytesIO(), io.BytesIO())
    one.config = {"runs": [str(recurrent_run)], "device": "cpu", "max_output": 5}
    translator = one._load()
    for search in ({}, {"max_ratio": 20.0}, {"max_extra": 50}):
        output = translator.translate("a b c d a b c d", kind="greedy", min_length=5, **search)
        assert len(output.tokens) == 5 and output.ended == "length"


def test_it_ends_when_it_is_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if its input does not end, because another process has inherited the other end of the pipe."""
    codes: list[int] = []
    monkeypatch.setattr(worker.os, "_exit", codes.append)
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as stdin, os.fdopen(writing, "wb") as inherited:
        inherited.write(encode_message({"op": "cancel", "id": 1, "rows": [0]}) + encode_message({"op": "stop"}))
        inherited.flush()
        one = Worker(stdin, io.BytesIO())
        one._read()
    assert codes == [0] and one.abandoned == {(1, 0)}


def test_statuses() -> None:
    for error, status in (
        (SearchError("x"), 422),
        (DataError("x"), 422),
        (UnknownTokenError("x"), 404),
        (CheckpointError("x"), 503),
        (RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate"), 413),
        (RuntimeError("CUDA out of memory"), 413),
        (RuntimeError("CUDA error: device-side assert"), 503),
        (KeyError("x"), 500),
    ):
        assert status_of(error)[0] == status, error
    assert not is_device_error(ValueError("CUDA error"))


def test_two_batches_are_searched_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with half of the threads; on a GPU one after the other."""
    both, threads = threading.Barrier(2), []

    def translate(translator: Any, payload: dict[str, Any], observer: Any = None) -> list[bytes]:
        threads.append(torch.get_num_threads())
        both.wait(60)  # passes when both are here
        return [b"null"]

    monkeypatch.setattr(operations, "translate", translate)
    monkeypatch.setattr("weft.apps.serve.model_info.model_info", lambda translator: {})
    sent = Sent()
    one = Worker(io.BytesIO(), sent)  # type: ignore[arg-type]
    one.config, one.threads = {"threads": 4}, 4
    for device, parallel in (("cpu", 2), ("cuda", 1)):
        one.translator = SimpleNamespace(device=torch.device(device), engine=SimpleNamespace(name="torch"))  # type: ignore[assignment]
        one._report()
        assert sent.next() == Message({"event": "ready"}, [to_json({"parallel_searches": parallel})])
    for number in (1, 2):
        one.queues["batch"].put(Message({"op": "translate", "id": number}, [to_json({"texts": ["a"]})]))
        threading.Thread(target=one._serve, args=("batch",), daemon=True).start()
    messages = [sent.next() for _ in range(2)]
    assert sorted(message.header["id"] for message in messages) == [1, 2]
    assert threads == [2, 2]
    assert [one._parallel() for one.threads in (1, 2, 8)] == [1, 2, 2]


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (SearchError("runs/a/recipe.toml: damaged\nin two lines"), "runs/a/recipe.toml: damaged in two lines"),
        (RecursionError("maximum depth"), "runs/a+runs/b: cannot be loaded (RecursionError: maximum depth)"),
        (MemoryError(), "runs/a+runs/b: cannot be loaded (not enough memory)"),
    ],
)
def test_a_run_that_cannot_be_loaded(
    error: Exception, problem: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The worker says why in one line and goes on: the service asks again when the run has changed."""
    channel = io.BytesIO()
    one = Worker(io.BytesIO(), channel)
    one.config = {"runs": ["runs/a", "runs/b"]}

    def load() -> Any:
        raise error

    monkeypatch.setattr(one, "_load", load)
    one._load_and_report()
    channel.seek(0)
    message = read_message(channel)
    assert message is not None and message.header == {"event": "failed"} and message.payload() == {"problem": problem}
    assert capsys.readouterr() == ("", "")
    with pytest.raises(CheckpointError) as caught:
        one._reload(3)
    assert str(caught.value) == problem


def test_an_error_of_the_worker_itself_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """At once: an ordinary exit waits for the thread that reads stdin, and Python aborts."""
    codes: list[int] = []

    def run(self: Worker) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(Worker, "run", run)
    monkeypatch.setattr(worker.os, "_exit", codes.append)
    monkeypatch.setattr(worker, "message_pipes", lambda: (io.BytesIO(), io.BytesIO()))
    worker.main()
    assert codes == [1]


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> tuple[Worker, Sent]:
    """A worker with a made-up model of a run folder that has examples, and what it sends."""
    (tmp_path / "examples.json").write_text('["a b"]')
    monkeypatch.setattr("weft.apps.serve.model_info.model_info", lambda translator: {"title": "made up"})
    sent = Sent()
    one = Worker(io.BytesIO(), sent)  # type: ignore[arg-type]
    recipe = SimpleNamespace(serve=SimpleNamespace(examples=True), tokenizer=SimpleNamespace(reads_arrays=False))
    engine = SimpleNamespace(name="torch")
    model: Any = SimpleNamespace(device=torch.device("cpu"), engine=engine, folder=tmp_path, recipe=recipe)
    monkeypatch.setattr(one, "_load", lambda: model)
    one.threads, one.config = 3, {"runs": ["a"]}
    return one, sent


def test_a_worker_says_that_it_is_ready_and_serves_its_queues(
    loaded: tuple[Worker, Sent], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, sent = loaded
    queues: SimpleQueue[str] = SimpleQueue()
    codes: SimpleQueue[int] = SimpleQueue()
    monkeypatch.setattr(worker.os, "_exit", codes.put)
    monkeypatch.setattr(one, "_serve", queues.put)
    messages = [
        ({"op": "config"}, [to_json({"runs": ["a"], "parallel_searches": 3})]),
        ({"op": "tokens", "id": 4, "queue": "batch"}, [b"{}"]),
        ({"op": "cancel", "id": 4, "rows": [-1, 2]}, []),
        ({"op": "stop"}, []),
        ({"op": "tokens", "id": 5, "queue": "batch"}, [b"{}"]),
    ]
    one.stdin = io.BytesIO(b"".join(encode_message(*message) for message in messages))
    one.run()
    assert sent.next() == Message({"event": "ready"}, [to_json({"title": "made up", "parallel_searches": 3})])
    assert sorted(queues.get(timeout=60) for _ in range(4)) == ["batch", "batch", "batch", "long"]
    assert codes.get(timeout=60) == 0, "the service has ended"
    assert one.abandoned == {(4, -1), (4, 2)}
    assert one.queues["long"].get(timeout=60).header == {"op": "examples", "id": 0}
    assert one.queues["batch"].get(timeout=60).header["id"] == 4 and one.queues["batch"].empty()


def test_a_worker_without_a_service() -> None:
    one = Worker(io.BytesIO(), io.BytesIO())
    one.run()
    assert one.config == {} and one.translator is None


def test_a_queue_goes_on_after_an_error_and_forgets_who_has_left(loaded: tuple[Worker, Sent]) -> None:
    one, sent = loaded
    one.abandoned = {(1, 0), (1, 3), (2, 0)}
    threading.Thread(target=one._serve, args=("long",), daemon=True).start()
    one.queues["long"].put(Message({"op": "tokens", "id": 1}, [b"{}"]))
    assert sent.next().header == {"id": 1, "error": [503, "the model is not loaded"]}
    one.queues["long"].put(Message({"op": "reload", "id": 9}, []))
    assert sent.next().header == {"event": "ready"}
    assert sent.next().header == {"id": 9}
    assert sent.next() == Message({"event": "examples"}, [b'{"examples":[{"source":"a b"}]}'])
    assert one.abandoned == {(2, 0)}


def test_a_stream_ends_with_a_frame_even_if_its_client_has_left(
    loaded: tuple[Worker, Sent], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stream(translator: Any, payload: Any, send: Any, abandoned: Any) -> None:
        send("start", payload)
        if abandoned():
            raise Abandoned
        send("done", {})

    monkeypatch.setattr(operations, "stream", stream)
    one, sent = loaded
    one.translator = one._load()
    for left, names in ((False, ["start", "done"]), (True, ["start"])):
        one.abandoned = {(3, -1)} if left else {(3, 0), (2, -1)}
        one._answer(Message({"op": "stream", "id": 3}, [b'{"texts":["a"]}']))
        for name in names:
            assert sent.next().header == {"id": 3, "event": name}
        assert sent.next() == Message({"id": 3}, [])


@pytest.mark.parametrize("op", ["heads", "tokens", "neighbors", "positions"])
def test_every_operation_on_a_model(op: str, loaded: tuple[Worker, Sent], monkeypatch: pytest.MonkeyPatch) -> None:
    one, sent = loaded
    one.translator = one._load()
    monkeypatch.setattr(operations, op, lambda translator, payload, *_: to_json([op, payload]))
    one._answer(Message({"op": op, "id": 6}, [b'{"x":1}']))
    assert sent.next() == Message({"id": 6}, [to_json([op, {"x": 1}])])


def test_an_idle_worker_gives_memory_back(channel: io.BytesIO, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, when it has had nothing to do for a while."""
    one, given = Worker(io.BytesIO(), channel), threading.Event()
    calls: list[bool] = []

    def give_back() -> None:
        calls.append(True)
        given.set()

    monkeypatch.setattr(worker, "give_back", give_back)
    message = Message({"op": "tokens", "id": 1}, [])
    one.queues["batch"].put(message)
    assert one._next("batch") is message and not calls
    monkeypatch.setattr(worker, "IDLE_SECONDS", 0.01)
    thread = threading.Thread(target=lambda: one.queues["long"].put(one._next("batch")), daemon=True)
    thread.start()
    assert given.wait(60)
    one.queues["batch"].put(message)
    assert one.queues["long"].get(timeout=60) is message and calls == [True]
