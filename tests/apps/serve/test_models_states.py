"""The states of a served model, without a worker: what events, requests and deadlines do to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from apps.serve.servers import UNHURRIED, settings
from weft.apps.serve import models
from weft.apps.serve.errors import BusyError, DeadlineError, ModelUnavailableError, ServiceError
from weft.apps.serve.metrics import Metrics
from weft.apps.serve.models import ServedModel
from weft.apps.serve.queueing import Job
from weft.runtime.processes import to_json

READY = to_json({"title": "t", "parallel_searches": 3})


def run(test: Callable[[ServedModel], Coroutine[Any, Any, None]], folder: Path, **changes: Any) -> None:
    """A test with the model of a run folder; none has loaded it."""

    async def with_model() -> None:
        await test(ServedModel("m", folder, settings(**changes), Metrics()))

    asyncio.run(with_model())


def test_a_worker_is_told_all_that_it_depends_on(tmp_path: Path) -> None:
    changes = {"precision": "int8", "engine": "torch", "parallel_searches": 2, "log": "texts", "max_output": 77}

    async def test(model: ServedModel) -> None:
        limits = {"max_exact_tokens": 200, "max_weights": 5_000_000, "deadline": UNHURRIED["deadline"], "memory": None}
        expected = {"runs": [str(tmp_path)], "adapter": None, "device": "cpu", "threads": 1, **limits, **changes}
        assert model._config() == expected

    run(test, tmp_path, **changes)


def test_events(tmp_path: Path) -> None:
    async def test(model: ServedModel) -> None:
        assert (model.state, model.version, model.record()["title"]) == ("loading", 0, "m")
        model._on_event("ready", READY)
        assert (model.state, model.version, model.ready.is_set(), model.problem) == ("ready", 1, True, None)
        assert (model.schedulers["batch"].parallel, model.schedulers["long"].parallel) == (3, 1)
        assert model.record()["title"] == "t" and 'weft_model_ready{model_name="m"} 1' in model.metrics.text()
        model._on_event("examples", to_json({"examples": [{"source": "a"}]}))
        assert model.record()["examples"] == [{"source": "a"}] and model.examples_known.is_set()
        assert model.state == "ready" and model.version == 1
        model._on_event("ended", b"null")
        assert (model.state, model.ready.is_set()) == ("loading", False)
        assert 'weft_model_ready{model_name="m"} 0' in model.metrics.text()

    run(test, tmp_path)


def test_a_run_that_cannot_be_loaded_fails_who_waits(tmp_path: Path) -> None:
    async def test(model: ServedModel) -> None:
        waiting = [Job("translate", {}, rows=["a"], batch_key="k", client=client) for client in "xxy"]
        for queue, job in zip(("batch", "batch", "long"), waiting, strict=True):
            model.schedulers[queue].add(job)
        model._on_event("failed", to_json({"problem": "damaged"}))
        assert (model.state, model.problem, model.version) == ("failed", "damaged", 1)
        for job in waiting:
            assert isinstance(error := job.done.exception(), ModelUnavailableError) and error.message == "m: damaged"
        assert not any(len(scheduler.queue) for scheduler in model.schedulers.values())
        for refused in (model.submit(Job("score", {})), model.loaded()):
            with pytest.raises(ModelUnavailableError, match="m: damaged"):
                await refused
        assert model.record()["state"] == "failed"

    run(test, tmp_path)


def test_a_client_that_leaves(tmp_path: Path) -> None:
    """Its job is not searched, and not sent again should a worker end."""

    async def test(model: ServedModel) -> None:
        job, done = (Job("translate", {}, rows=["a"], batch_key="k") for _ in range(2))
        model.schedulers["batch"].add(job)
        model.abandon(job)
        assert job.abandoned and job.done.cancelled() and not len(model.schedulers["batch"].queue)
        done.finish([b"1"])
        model.abandon(done)
        assert not done.abandoned, "it has its result"
        assert 'weft_requests_abandoned_total{model_name="m"} 1' in model.metrics.text()

    run(test, tmp_path)


def test_a_request_that_takes_too_long(tmp_path: Path) -> None:
    async def test(model: ServedModel) -> None:
        job = Job("translate", {}, rows=["a"], batch_key="k")
        job.arrived -= 7.5  # so that its deadline has passed
        with pytest.raises(DeadlineError, match="not done after 7 seconds; send fewer or shorter texts"):
            await model.submit(job)
        assert job.abandoned and not len(model.schedulers["batch"].queue)

    run(test, tmp_path, deadline=7.0)


def test_requests_that_are_refused_are_counted(tmp_path: Path) -> None:
    async def test(model: ServedModel) -> None:
        model.schedulers["long"].add(Job("translate", {}, rows=["a"], batch_key="k"))
        with pytest.raises(BusyError, match="1 requests are already waiting"):
            await model.submit(Job("translate", {}, rows=["a"], batch_key="k"), queue="long")
        assert 'weft_requests_refused_total{model_name="m"} 1' in model.metrics.text()
        assert len(model.schedulers["long"].queue) == 1

    run(test, tmp_path, max_waiting_long=1)


def test_a_model_without_a_worker_cannot_be_reloaded(tmp_path: Path) -> None:
    async def test(model: ServedModel) -> None:
        with pytest.raises(ServiceError, match="m: is not running"):
            await model.reload()

    run(test, tmp_path)


@pytest.mark.parametrize("loads", [False, True])
def test_a_worker_that_ends_again_and_again(loads: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five starts in a row, each after a longer wait; those that had loaded the run do not count."""
    waits: list[float] = []
    started: list[ServedModel] = []

    async def test(model: ServedModel) -> None:
        class EndingWorker:
            """Ends at once; every second one, if it ``loads``, after it has loaded the run."""

            is_hung = False

            def __init__(self, config: Any, on_event: Any, *, hang_timeout: float) -> None: ...

            async def run(self) -> int:
                started.append(model)
                model.version += loads and len(started) % 2 == 0
                model.stopping = len(started) == 9
                return 3

        async def sleep(seconds: float) -> None:
            waits.append(seconds)

        monkeypatch.setattr(models, "WorkerProcess", EndingWorker)
        monkeypatch.setattr(models.asyncio, "sleep", sleep)
        await model._supervise()
        if loads:
            assert len(started) == 9 and waits == [0.4, 0.0] * 4
        else:
            assert len(started) == 5 and waits == pytest.approx([0.4, 1.6, 6.4, 10.0])
            assert (model.state, model.problem) == ("failed", "its worker ended (exit code 3), 5 times in a row")
        assert f'weft_worker_restarts_total{{model_name="m"}} {8 if loads else 5}' in model.metrics.text()

    run(test, tmp_path)
