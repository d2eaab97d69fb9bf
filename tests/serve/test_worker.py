"""The worker's end: one bad row, errors that nobody foresaw, a device that fails."""

from __future__ import annotations

import io
import json
import os
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from weft.errors import CheckpointError, DataError, SearchError
from weft.serve import operations, worker
from weft.serve.frames import Frame, encode, read, to_json
from weft.serve.operations import UnknownTokenError
from weft.serve.worker import DEVICE_FAILED, INTERNAL, Worker, is_device_error, status_of

SECRET = " ".join(("the", "secret"))


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


def answer(channel: io.BytesIO, texts: list[str], abandoned: tuple[int, ...] = ()) -> Frame:
    one = Worker(io.BytesIO(), channel)
    one.translator = SimpleNamespace(device=torch.device("cpu"))  # type: ignore[assignment]
    one.abandoned = {(7, row) for row in abandoned}
    frame = Frame({"op": "translate", "id": 7, "lane": "batch"}, [to_json({"texts": texts})])
    try:
        one._answer(frame)
    except BaseException as error:
        one._fail(frame, error)
    channel.seek(0)
    result = read(channel)
    assert result is not None
    return result


def test_one_bad_row_does_not_spoil_the_others(channel: io.BytesIO, capsys: pytest.CaptureFixture[str]) -> None:
    frame = answer(channel, ["a", "bad", "b", "c", "bug", "memory", "index"], abandoned=(2,))
    assert [json.loads(body) for body in frame.bodies] == [{"text": "a"}, None, None, {"text": "c"}, None, None, None]
    statuses = {row: status for row, (status, _) in frame.header["errors"].items()}
    assert statuses == {"1": 422, "4": 500, "5": 413, "6": 500}
    logged = capsys.readouterr().err
    assert "RuntimeError" in logged and "IndexError" in logged and SECRET not in logged
    assert frame.header["errors"]["1"][1] == "bad: it is bad"
    assert frame.header["errors"]["4"][1] == INTERNAL


def test_a_device_that_fails_ends_the_process(channel: io.BytesIO, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that it computes could be trusted; the service starts another."""
    codes: list[int] = []
    monkeypatch.setattr(worker.os, "_exit", codes.append)
    frame = answer(channel, ["a", "device"])
    assert frame.header["error"][0] == 503
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
        frame = Frame({"op": "tokens", "id": 1}, [to_json({"text": "private"})])
        with pytest.raises(ValueError, match="private") as caught:
            one._answer(frame)
        one._fail(frame, caught.value)
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
        inherited.write(encode({"op": "cancel", "id": 1, "rows": [0]}) + encode({"op": "stop"}))
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


def test_frames() -> None:
    stream = io.BytesIO(encode({"id": 1}, [b"{}", b'"\xc3\xa9"']) + encode({"id": 2}) + b"\x00\x00")
    first, second, third = (read(stream) for _ in range(3))
    assert first == Frame({"id": 1}, [b"{}", '"é"'.encode()])
    assert second == Frame({"id": 2}, [])
    assert third is None
    assert to_json({"a": "é\n"}) == '{"a":"é\\n"}'.encode()
    with pytest.raises(ValueError, match="JSON compliant"):
        to_json(float("nan"))


def test_two_batches_are_searched_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with half of the threads; on a GPU one after the other."""
    both, threads = threading.Barrier(2), []

    def translate(translator: Any, payload: dict[str, Any], observer: Any = None) -> list[bytes]:
        threads.append(torch.get_num_threads())
        both.wait(60)  # passes when both are here
        return [b"null"]

    monkeypatch.setattr(operations, "translate", translate)
    monkeypatch.setattr("weft.serve.model_info.model_info", lambda translator: {})
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as results, os.fdopen(writing, "wb") as channel:
        one = Worker(io.BytesIO(), channel)
        one.config, one.threads = {"threads": 4}, 4
        for device, parallel in (("cpu", 2), ("cuda", 1)):
            one.translator = SimpleNamespace(device=torch.device(device), engine=SimpleNamespace(name="torch"))  # type: ignore[assignment]
            one._report()
            assert (frame := read(results)) is not None and frame.payload() == {"parallel_searches": parallel}
        for number in (1, 2):
            one.lanes["batch"].put(Frame({"op": "translate", "id": number}, [to_json({"texts": ["a"]})]))
            threading.Thread(target=one._serve, args=("batch",), daemon=True).start()
        frames = [read(results) for _ in range(2)]
    assert sorted(frame.header["id"] for frame in frames if frame is not None) == [1, 2]
    assert threads == [2, 2]
    assert [one._parallel() for one.threads in (1, 2, 8)] == [1, 2, 2]
