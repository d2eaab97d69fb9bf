"""Streams: the events of a search are its trace, and end with what `translate` gives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import Any

import pytest

from apps.serve.servers import Running, parse_event, wait_for
from weft.apps.serve import streaming
from weft.apps.serve.errors import ServiceError
from weft.apps.serve.streaming import EventResponse, OpenStreams, SearchStream

every_model = pytest.mark.parametrize("model", ["recurrent", "transformer"])


@every_model
@pytest.mark.parametrize("extra", [{}, {"edits": {"blocked": [1]}}, {"prefix": "b"}])
def test_a_beam_step_by_step(running: Running, model: str, extra: dict[str, Any]) -> None:
    body = {"text": "a b c", "model": model, "search": {"size": 3}, "n_best": 3, **extra}
    (first, start), *steps, (last, done) = running.events(**body)
    assert (first, last) == ("start", "done")
    assert start["model"] == model and start["kind"] == "beam" and start["size"] == 3
    assert start["source_tokens"] == ["a", "b", "c", "</s>"]
    [expected] = running.translate(**body, attention=True, trace=True)
    trace = expected.pop("trace")
    assert done["translation"] == {**expected, "trace": None}
    assert done["winner"] == trace["winner"]
    assert [name for name, _ in steps] == ["step"] * len(trace["steps"])
    for number, ((_, step), branches) in enumerate(zip(steps, trace["steps"], strict=True)):
        assert step["step"] == number
        assert step["branches"] == branches
        assert len(step["attention"]) == len(step["candidates"]) == 3
        for weights in step["attention"]:
            assert sum(weights) == pytest.approx(1.0, abs=1e-4)
    rows = [
        step["attention"][step["branches"][winner]["parent"]]
        for (_, step), winner in zip(steps, done["winner"], strict=False)
    ]
    assert rows[: len(expected["tokens"])] == [pytest.approx(row, abs=1e-5) for row in expected["attention"]]


@every_model
def test_greedy_search_and_samples(running: Running, model: str) -> None:
    for search, n_best in (({"kind": "greedy"}, 1), ({"kind": "sample", "top_p": 0.7, "temperature": 1.5}, 2)):
        body = {"text": "a b c", "model": model, "search": search, "n_best": n_best}
        _, *steps, (_, done) = running.events(**body)
        best = done["translation"]
        for (_, step), token in zip(steps, best["tokens"], strict=False):
            draw = step["draws"][0]
            assert draw["tokens"][draw["chosen"]] == token
            assert draw["kept"][draw["chosen"]]
            assert len(draw["tokens"]) == 8 and draw["rest"] == {"count": 0, "probability": pytest.approx(0, abs=1e-4)}
        chosen = [step["draws"][0] for _, step in steps if step["draws"][0] is not None]
        scores = [draw["log_probabilities"][draw["chosen"]] for draw in chosen]
        assert scores == pytest.approx(best["token_scores"], abs=1e-5)
        assert len(steps[0][1]["draws"]) == n_best
        assert len(best["alternatives"]) == n_best - 1


@pytest.mark.parametrize("kind", ["mbr", "exact", "exhaustive"])
def test_searches_without_steps(running: Running, kind: str) -> None:
    body = {"text": "a b", "search": {"kind": kind, "max_length": 3, "samples": 5}, "n_best": 2}
    names = [name for name, _ in running.events(**body)]
    assert names[0] == "start" and names[-1] == "done" and {*names[1:-1]} <= {"progress"}


def test_what_is_refused(running: Running) -> None:
    for status, body, words in (
        (422, {"text": ["a", "b"]}, "one text is streamed at a time"),
        (422, {"text": " "}, "it is empty"),
        (404, {"text": "a", "model": "x"}, "is not served"),
    ):
        assert words in running.error(status, "/api/translate/stream", **body)
    [(_, _), (name, data)] = running.events(text="a", edits={"blocked": [7]})  # known once the search begins
    assert name == "error" and "blocked: position 7" in data["error"]


def test_a_client_that_leaves_ends_its_search(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long search is abandoned, and the next request is answered."""
    before = running.metric("weft_requests_abandoned_total")
    body = {
        "text": "a b c " * 200,
        "search": {"size": 64, "stop": "steps", "min_length": 1000, "max_length": 1000, "no_loops": False},
    }
    with running.client.stream("POST", "/api/translate/stream", json=body) as response:
        parts = response.iter_text()
        while "event: step" not in next(parts):
            pass
    wait_for(lambda: running.metric("weft_requests_abandoned_total") == before + 1)
    assert running.translate("a b")
    assert running.metric("weft_num_requests_running") == 0


def test_a_client_that_does_not_read(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events do not pile up in memory: its search is abandoned."""
    monkeypatch.setattr(streaming, "MAX_UNREAD", 1 << 16)
    before = running.metric("weft_requests_abandoned_total")
    body = {
        "text": "a b c " * 200,
        "search": {"size": 64, "stop": "steps", "min_length": 1000, "max_length": 1000, "no_loops": False},
    }
    with running.client.stream("POST", "/api/translate/stream", json=body):
        wait_for(lambda: running.metric("weft_requests_abandoned_total") == before + 1)
    assert running.translate("a b")


def test_the_number_of_streams_is_limited(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    streams = running.service.app.state.streams
    wait_for(lambda: streams.count == 0)
    monkeypatch.setattr(streams, "limit", 0)
    assert "streams are already open" in running.error(429, "/api/translate/stream", text="a")
    assert streams.count == 0


def test_a_client_that_leaves_before_the_first_event() -> None:
    """Its place becomes free, though no event was ever made."""
    streams = OpenStreams(1)
    made: list[bytes] = []

    async def events() -> AsyncGenerator[bytes, None]:
        made.append(b"")
        yield b""

    async def test() -> None:
        async def receive() -> Any:
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            await asyncio.sleep(0)

        response = EventResponse(events(), streams.enter("a"))
        assert streams.count == 1
        with pytest.raises(ServiceError, match="1 streams are already open"):
            streams.enter("b")
        await response({"type": "http", "asgi": {"spec_version": "2.3"}}, receive, send)

    asyncio.run(test())
    assert streams.count == 0 and not made


def test_an_event_is_two_lines() -> None:
    assert streaming.event("step", b'{"a":1}') == b'event: step\ndata: {"a":1}\n\n'
    assert parse_event('event: step\ndata: {"a":1}') == ("step", {"a": 1})


def test_every_event_that_is_sent_is_no_longer_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress is sent while a search has no steps, with the seconds since its start."""
    clock = iter([50.0, 60.0, 61.26])
    monkeypatch.setattr(streaming, "PROGRESS_SECONDS", 0.01)
    monkeypatch.setattr(streaming, "time", SimpleNamespace(monotonic=lambda: next(clock, 61.26)))
    abandoned: list[Any] = []

    class Model:
        """Searches until its client has seen progress."""

        name = "m"
        metrics = SimpleNamespace(observe=lambda *_, **__: None)
        abandon = abandoned.append

        def __init__(self) -> None:
            self.seen = asyncio.Event()

        async def submit(self, job: Any, queue: str) -> None:
            assert queue == "long"
            job.on_event("start", b'{"kind":"exact"}')
            await self.seen.wait()
            job.on_event("done", b"{}")

    async def test() -> None:
        model = Model()
        stream = SearchStream(model, {"search": {"kind": "exact"}}, OpenStreams(1), "client")  # type: ignore[arg-type]
        names, unread = [], []
        async for part in stream.events():
            name, data = parse_event(part.decode().removesuffix("\n\n"))
            names.append(name)
            unread.append(stream.unread_bytes)
            if name == "start":
                assert data == {"model": "m", "kind": "exact"}
            if name == "progress":
                assert data["seconds"] > 0
                model.seen.set()
        assert names[0] == "start" and names[-1] == "done" and {*names[1:-1]} == {"progress"}
        assert unread[0] == unread[-1] == stream.unread_bytes == 0
        assert not abandoned

    asyncio.run(test())


@pytest.mark.parametrize(("size", "is_abandoned"), [(100, False), (101, True)])
def test_a_search_is_abandoned_if_too_much_is_unread(
    monkeypatch: pytest.MonkeyPatch, size: int, is_abandoned: bool
) -> None:
    monkeypatch.setattr(streaming, "MAX_UNREAD", 100)
    abandoned: list[Any] = []

    async def test() -> None:
        model: Any = SimpleNamespace(name="m", metrics=None, abandon=abandoned.append)
        stream = SearchStream(model, {"search": {"kind": "beam"}}, OpenStreams(1), "client")
        assert stream.queue == "batch"
        stream._receive("done", b"x" * (size - len(streaming.event("done", b""))))
        assert bool(abandoned) == is_abandoned

    asyncio.run(test())


def test_the_streams_of_a_client_are_limited() -> None:
    """One client leaves places for others; a place is freed once."""
    streams = OpenStreams(5, client_limit=2)
    leave, _ = streams.enter("a"), streams.enter("a")
    with pytest.raises(ServiceError, match="2 streams of this client are already open") as caught:
        streams.enter("a")
    assert caught.value.status == 429 and caught.value.headers == {"Retry-After": "5"}
    streams.enter("b")
    leave()
    leave()
    assert streams.count == 2
    streams.enter("a")
    assert streams.by_client == {"a": 2, "b": 1}


def test_what_all_clients_have_not_read_is_limited() -> None:
    """The stream that goes beyond it ends, and what it held is free again; a search that is over holds no place."""
    abandoned: list[Any] = []

    async def test() -> None:
        async def submit(job: Any, queue: str) -> None:
            return None

        model: Any = SimpleNamespace(name="m", metrics=None, abandon=abandoned.append, submit=submit)
        streams = OpenStreams(2, max_unread=100)
        first, second = (SearchStream(model, {"search": {"kind": "beam"}}, streams, name) for name in "ab")
        first._receive("done", b"x" * 50)
        assert not abandoned and streams.unread_bytes > 50
        second._receive("done", b"x" * 50)
        assert abandoned == [second.job]
        events = first.events()
        await anext(events)
        assert streams.by_client == {"b": 1}, "its search is over, though not all is read"
        await events.aclose()
        assert streams.unread_bytes == second.unread_bytes

    asyncio.run(test())
