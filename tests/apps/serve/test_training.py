"""Training watched: the log as it grows, samples when the weights change, and an end."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from apps.serve.servers import Running
from weft.apps.serve import training
from weft.apps.serve.queueing import Job
from weft.apps.serve.training import LogReader, thinned
from weft.runs.locks import lock_folder


def test_a_run_that_has_ended(running: Running) -> None:
    runs = {run["name"]: run for run in running.client.get("/api/training").json()["runs"]}
    assert runs["recurrent"]["state"] == "finished" and runs["recurrent"]["step"] == 20
    events = running.events("/api/training/recurrent/stream")
    logged = [data["event"] for name, data in events if name == "log"]
    assert (logged[0], logged[-1]) == ("started", "finished")
    [samples] = [data for name, data in events if name == "samples"]
    assert len(samples["translations"]) == 4 and samples["problem"] is None
    for sample in samples["translations"]:
        assert "reference" not in sample  # targets stay where the data are
        assert sample["word_attention"]["weights"]
    assert events[-1] == ("end", {"state": "finished"})
    assert "is not served" in running.error(404, "/api/training/none/stream")


def test_a_run_that_is_training(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its log grows and its weights change while it is watched; when its lock is released, the stream ends."""
    monkeypatch.setattr(training, "POLL_SECONDS", 0.02)
    model = running.service.models.by_name["recurrent"]
    log = model.run / "log.jsonl"
    kept = log.read_bytes()
    started = threading.Event()

    def train() -> None:
        started.wait(60)
        with log.open("ab") as file:
            file.write(b'{"event": "step", "step": 21, "loss": 1.0}\n{"event": "ste')
            file.flush()
            os.utime(model.run / "model.safetensors", (1, 1))
            released.wait(60)

    released = threading.Event()
    other = threading.Thread(target=train)
    other.start()
    names: list[str] = []
    try:
        watched = running.client.stream("GET", "/api/training/recurrent/stream")
        with lock_folder(model.run, "training"), watched as response:
            for line in response.iter_lines():
                names += [line.removeprefix("event: ")] if line.startswith("event: ") else []
                if line.startswith("data: ") and names[-1] == "state":
                    started.set()
                if line.startswith("data: ") and names.count("samples") == 2:
                    samples = json.loads(line.removeprefix("data: "))
                    break
        assert samples["problem"] is None and len(samples["translations"]) == 4
        assert names.count("log") == len(kept.splitlines()) + 1
    finally:
        started.set()
        released.set()
        other.join()
        log.write_bytes(kept)


def test_lines_of_a_log(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    reader = LogReader(log)
    assert reader.read() == []
    log.write_bytes(b'{"a": 1}\n\xff\n[1]\n{"b"')
    assert reader.read() == [b'{"a":1}']
    with log.open("ab") as file:
        file.write(b": NaN}\n" + b'{"c": 2}\n')
    assert reader.read() == [b'{"b":null}', b'{"c":2}']
    assert reader.read() == []
    log.write_bytes(b'{"d": 3}\n')  # a resumed run removes what it will log again
    assert reader.read() == [b'{"d":3}']


def test_old_steps_are_thinned() -> None:
    lines = [b'{"event":"step","step":%d}' % step for step in range(5000)] + [b'{"event":"validation"}']
    kept = thinned(lines)
    assert len(kept) <= 2002 and kept[0] == lines[0] and kept[-2:] == lines[-2:]
    assert thinned(lines[:10]) == lines[:10]


def test_samples_are_of_the_first_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    """They count as texts that are translated, as those of any client."""
    monkeypatch.setattr(training, "SAMPLES", 2)
    jobs: list[Job] = []

    async def nothing() -> None: ...

    async def submit(job: Job) -> list[bytes]:
        jobs.append(job)
        return [b'{"text":"x"}'] * len(job.rows)

    async def test() -> None:
        known = asyncio.Event()
        known.set()
        model: Any = SimpleNamespace(state="ready", loaded=nothing, refresh=nothing, submit=submit)
        model.examples, model.examples_known = [{"source": text} for text in "abc"], known
        model.info = {"search": {"size": 3}}
        result = await training.samples(model, first=True, step=7)
        assert result == {"step": 7, "translations": [{"text": "x"}] * 2, "problem": None}
        [job] = jobs
        assert (job.rows, job.client, job.payload["texts"]) == (["a", "b"], "training", ["a", "b"])
        assert job.payload["attention"] and job.payload["search"] == {"size": 3}

    asyncio.run(test())
