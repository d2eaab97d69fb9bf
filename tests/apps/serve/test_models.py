"""Worker processes that are killed, runs that change on disk, requests that take too long or are too many."""

from __future__ import annotations

import asyncio
import io
import json
import math
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest

import weft
from apps.serve.servers import Running, raw_request, running_server, settings, wait_for
from weft.apps.serve import create_app
from weft.apps.serve.admission import Refusal
from weft.apps.serve.errors import BusyError, ModelUnavailableError, ServiceError
from weft.apps.serve.metrics import Metrics
from weft.apps.serve.model_info import model_info
from weft.apps.serve.models import Models, ServedModel, languages_of, modified
from weft.apps.serve.naming import name_runs
from weft.apps.serve.operations import translate
from weft.apps.serve.queueing import Batch, Item, Job
from weft.apps.serve.scheduling import Scheduler
from weft.apps.serve.settings import ServeSettings
from weft.apps.serve.worker import Worker
from weft.errors import DataError
from weft.recipe import load_recipe
from weft.recipe.toml import write_toml
from weft.training.train import train

LONG_SEARCH = {"size": 64, "stop": "steps", "min_length": 100_000, "max_length": 100_000, "no_loops": False}
LONG = {"text": "a b c " * 200, "search": LONG_SEARCH}
"""A search of many minutes."""


@pytest.fixture(scope="module")
def own(recurrent_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service whose run folder may be changed, with short queues and no search that ends by itself in a test."""
    run = tmp_path_factory.mktemp("own") / "run"
    shutil.copytree(recurrent_run, run)
    limits = {"max_output": 100_000, "max_nodes": 10_000_000, "max_exact_tokens": 10_000}
    with running_server(create_app([run], settings(max_waiting=4, max_waiting_long=1, **limits))) as server:
        yield server


@pytest.fixture
def model(own: Running) -> ServedModel:
    return own.service.models.by_name["run"]


def is_running(own: Running) -> bool:
    return own.metric("weft_num_requests_running") > 0


def kill_worker(model: ServedModel) -> None:
    process = model.worker.process
    os.kill(process.pid, signal.SIGKILL)
    wait_for(lambda: model.worker.process is not process)


def later(pool: ThreadPoolExecutor, own: Running, **body: Any) -> Future[httpx.Response]:
    return pool.submit(own.post, "/api/translate", **body)


def test_a_worker_that_hangs(recurrent_run: Path) -> None:
    """It is noticed, within ten seconds unless the machine is busy, and started again; what was running is answered."""
    seconds = ServeSettings().hang_timeout
    assert seconds < 10.0
    with (
        running_server(create_app([recurrent_run], settings(hang_timeout=seconds))) as own,
        ThreadPoolExecutor(1) as pool,
    ):
        model = own.service.models.by_name["recurrent"]
        process = model.worker.process
        os.kill(process.pid, signal.SIGSTOP)
        waiting = later(pool, own, text="a b")
        wait_for(lambda: model.worker.ended or model.worker.process is not process)
        states = []
        wait_for(lambda: states.append(own.client.get("/ready")) or states[-1].status_code == 200)
        assert waiting.result().status_code == 200
    assert states[0].status_code == 503
    assert states[0].json()["problems"] == {"recurrent": "its worker stopped answering and is started again"}
    assert states[-1].json()["problems"] == {}


def test_a_hung_worker_is_not_the_fault_of_a_text(own: Running, model: ServedModel) -> None:
    async def answer(*, hung: bool) -> ServiceError:
        scheduler = Scheduler("batch", model, 4)
        job = Job("translate", {}, rows=["a"], batch_key="k")
        for _ in range(2):
            worker = SimpleNamespace(is_hung=hung)
            scheduler._send_again(Batch([Item(job, 0)], None, 1.0), cast(Any, worker))
        return cast(ServiceError, job.done.exception())

    error = asyncio.run(answer(hung=True))
    assert (error.status, error.message) == (503, "the worker of the model stopped answering, twice; try again")
    assert asyncio.run(answer(hung=False)).status == 500


def test_a_deadline_while_the_worker_is_started_again(own: Running, model: ServedModel) -> None:
    async def submit(attempts: int) -> None:
        waiting = SimpleNamespace(
            state="ready",
            name="run",
            settings=settings(deadline=0.01),
            schedulers={"batch": SimpleNamespace(add=lambda job: None)},
            abandon=lambda job: None,
            problem=None,
        )
        job = Job("translate", {}, rows=["a"])
        job.attempts = attempts
        await ServedModel.submit(cast(Any, waiting), job)

    with pytest.raises(ModelUnavailableError, match="run: its worker was started again; try again"):
        asyncio.run(submit(1))
    with pytest.raises(ServiceError, match="send fewer or shorter texts"):
        asyncio.run(submit(0))


def test_a_worker_that_is_killed(own: Running, model: ServedModel) -> None:
    """Requests wait for the next worker, and what was running is sent once more."""
    before = own.metric("weft_worker_restarts_total")
    with ThreadPoolExecutor(2) as pool, raw_request(own, "/api/translate", LONG):
        wait_for(lambda: is_running(own))
        waiting = later(pool, own, text="a b")
        kill_worker(model)
        wait_for(lambda: own.client.get("/ready").status_code == 200)
        wait_for(lambda: is_running(own))
    assert waiting.result().status_code == 200
    assert own.metric("weft_worker_restarts_total") == before + 1


def test_requests_like_one_that_was_refused(recurrent_run: Path) -> None:
    """They are refused unread, until something leaves the queue; smaller ones and other searches are looked at."""

    async def test() -> None:
        models = Models({"a": recurrent_run, "b": recurrent_run}, settings(), metrics := Metrics())
        first, second = (model.schedulers["batch"] for model in models.by_name.values())
        error = BusyError("busy", retry_after=1.0)
        path, body = "/api/translate", b'{"text": "a b c"}'
        assert models.refusal(path, body, "c") is None
        second.admission.last["c"] = Refusal(5, 0.1, math.inf, error)
        assert models.refusal(path, body, "c") is None, "the first model may have time"
        assert models.refusal(path, b'{"text": "a b c", "model": "b"}', "c") is error
        first.admission.last["c"] = Refusal(5, 0.1, math.inf, error)
        assert (
            models.refusal(path, body, "c") is models.refusal(path, b'{"model": "a", "text": "a b c d"}', "c") is error
        )
        assert models.refusal(path, body, "d") is None, "of another client"
        for other in (
            b'{"text": "a b"}',
            b'{"text": "a b c", "search": {"kind": "exact"}}',
            b'{"text": ["a b c"]}',
            b'{"text": "a b c", "model": "c"}',
            b'{"text": "a b c", "model": ["a"]}',
            b'{"text": "a b c", "bogus": 1}',
            b'{"text": "' + b"a" * 10_000 + b'"}',
            b"[]",
            b'{"text"',
            b"\xff",
        ):
            assert models.refusal(path, other, "c") is None, other
        assert models.refusal("/api/score", body, "c") is None
        assert 'weft_requests_refused_total{model_name="a"} 2' in metrics.text()
        first.abandon(Job("translate", {}, rows=["a"], batch_key="k"))
        assert models.refusal(path, body, "c") is None

    asyncio.run(test())


def test_a_request_whose_workers_end_twice() -> None:
    """It is not sent a third time; the others are."""

    async def test() -> None:
        scheduler = Scheduler("batch", cast(ServedModel, SimpleNamespace(settings=settings(), schedulers={})), 9)
        fatal, other = (Job("translate", {}, rows=["a", "b"], batch_key="k", client=name) for name in "xy")
        fatal.attempts, other.taken = 1, 2
        scheduler._send_again(Batch([Item(fatal, 0), Item(other, 0), Item(other, 1)], None, 1.0), None)
        with pytest.raises(ServiceError, match="the worker of the model ended twice"):
            fatal.done.result()
        assert list(scheduler.queue) == [other]
        assert (other.attempts, other.taken, other.missing) == (1, 0, 2)
        stream = Job("stream", {}, client="z", on_event=lambda name, data: None)
        scheduler._send_again(Batch([], stream, 1.0), None)
        with pytest.raises(ModelUnavailableError, match="ended during this search; try again"):  # a part was sent
            stream.done.result()

    asyncio.run(test())


def test_too_many_requests(own: Running) -> None:
    """Four wait; the next is refused at once, with the time after which to try again. Who leaves makes room."""
    abandoned = own.metric("weft_requests_abandoned_total")
    with ThreadPoolExecutor(8) as pool, raw_request(own, "/api/translate", LONG) as busy:
        wait_for(lambda: is_running(own))
        waiting = [later(pool, own, text="a b", search={"size": size}) for size in (1, 2, 3, 4)]
        wait_for(lambda: own.metric("weft_num_requests_waiting") == 4)
        refused = own.post("/api/translate", text="a b")
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) >= 1
        assert refused.json()["error"] == "4 requests are already waiting; try again later"
        assert own.metric("weft_requests_refused_total") >= 1
        busy.close()  # its rows are freed: the others need not wait for it
        assert [one.result().status_code for one in waiting] == [200] * 4
    assert own.metric("weft_requests_abandoned_total") == abandoned + 1


def test_a_deadline(own: Running, model: ServedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "settings", model.settings.model_copy(update={"deadline": 0.5}))
    response = own.post("/api/translate", **LONG)
    assert response.status_code == 503
    assert response.json()["error"] == "not done after 0.5 seconds; send fewer or shorter texts"
    wait_for(lambda: not is_running(own))
    monkeypatch.undo()
    assert own.translate("a b")


def test_an_exact_search_does_not_keep_others_waiting(own: Running) -> None:
    body = {"text": "a b c " * 100, "search": {"kind": "exact", "max_length": 900, "max_nodes": 10_000_000}}
    with raw_request(own, "/api/translate", body):
        wait_for(lambda: is_running(own))
        assert own.translate("a b")
        assert own.metric("weft_num_requests_running") == 1
        with raw_request(own, "/api/translate", body):
            wait_for(lambda: own.metric("weft_num_requests_waiting") == 1)
            assert own.post("/api/translate", **body).status_code == 429
            assert own.translate("a b")


def test_a_run_that_is_replaced(
    own: Running,
    model: ServedModel,
    tiny: Callable[..., Any],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The model stays what it was until it is reloaded; a run that cannot be loaded does not replace it."""
    [before] = own.translate("a b c", attention=True)
    wait_for(lambda: bool(model.examples))
    kept = tmp_path / "kept"
    shutil.move(model.run, kept)
    [still] = own.translate("a b c", attention=True)
    assert still == before
    response = own.client.post("/api/models/run/reload")
    assert response.status_code == 409 and "no such run folder" in response.json()["error"]
    assert f"run: not reloaded, the old weights answer: {model.run}: no such run folder" in caplog.text
    assert own.translate("a b c", attention=True) == [before]
    assert list(train(tiny({"seed": 5, "training.steps": 3, "serve.target": "cc"}), model.run))
    record = own.client.post("/api/models/run/reload").json()
    assert record["state"] == "ready" and record["target"] == "cc"
    [after] = own.translate("a b c", attention=True)
    assert after["attention"] != before["attention"]
    assert own.error(404, "/api/models/x/reload", a=1)


def test_a_run_that_cannot_be_loaded(
    own: Running, model: ServedModel, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its problem is told; it becomes ready when the run is mended and reloaded."""
    tokenizer = model.run / "tokenizer.json"
    tokenizer.rename(tmp_path / "tokenizer.json")
    kill_worker(model)
    wait_for(lambda: model.state == "failed")
    assert "tokenizer.json: missing" in own.error(503, "/api/translate", text="a")
    assert own.client.get("/ready").status_code == 503
    health = own.client.get("/health")
    assert health.status_code == 200 and health.json()["status"] == "degraded"
    assert "tokenizer.json: missing" in health.json()["problems"]["run"]
    [line] = [line for line in caplog.messages if "cannot be loaded" in line]
    assert line.startswith("run: cannot be loaded: ") and "tokenizer.json: missing" in line and "\n" not in line
    [record] = own.client.get("/api/models").json()["models"]
    assert record["state"] == "failed" and "tokenizer.json: missing" in record["problem"]
    (tmp_path / "tokenizer.json").rename(tokenizer)
    assert own.client.post("/api/models/run/reload").json()["state"] == "ready"
    assert own.client.get("/health").json() == {"status": "ok"}
    assert own.translate("a b")


def test_a_model_is_refreshed_once_for_all_who_watch(recurrent_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[str] = []

    async def reload(self: ServedModel) -> None:
        loads.append(self.name)
        await asyncio.sleep(0)

    monkeypatch.setattr(ServedModel, "reload", reload)

    async def test() -> None:
        model = ServedModel("a", recurrent_run, settings(), Metrics())
        await asyncio.gather(*(model.refresh() for _ in range(3)))
        await model.refresh()
        assert loads == ["a"]
        monkeypatch.setattr("weft.apps.serve.models.modified", lambda path: 1.0)  # weights were written
        await asyncio.gather(*(model.refresh() for _ in range(3)))
        assert loads == ["a", "a"]

    asyncio.run(test())


def test_an_ensemble(recurrent_run: Path, transformer_run: Path, tmp_path: Path) -> None:
    """Its worker loads all runs; it is reloaded when one of them changes."""
    copied = tmp_path / "copy"
    shutil.copytree(recurrent_run, copied)

    async def test() -> None:
        model = create_app({"both": [recurrent_run, copied]}, settings()).models.by_name["both"]
        assert model.languages == ("aa", "bb")
        before = model.written()
        os.utime(copied / "model.safetensors", (1, 1))
        assert before != model.written()
        worker = Worker(io.BytesIO(), io.BytesIO())
        worker.config = {**model._config(), "device": "cpu"}
        loaded = worker._load()
        assert model_info(loaded)["architecture"] == "ensemble"
        [record] = translate(loaded, {"texts": ["a b"], "search": {}, "n_best": 1})
        alone = weft.load(recurrent_run, device="cpu").translate("a b")
        assert json.loads(record)["text"] == alone.text, "two equal models"

    asyncio.run(test())
    with pytest.raises(DataError, match="both: an ensemble of no runs"):
        create_app({"both": []}, settings())
    adapter = copied / "adapters" / "medical" / "adapter_model.safetensors"
    adapter.parent.mkdir(parents=True)
    adapter.touch()
    with pytest.raises(DataError, match="copy:medical: in an ensemble only the first run can have an adapter"):
        create_app({"both": [recurrent_run, f"{copied}:medical"]}, settings())


def test_languages(recurrent_run: Path, tmp_path: Path) -> None:
    assert languages_of(recurrent_run, "x") == ("aa", "bb")
    assert languages_of(tmp_path, "x") == ("source", "x")
    (tmp_path / "recipe.toml").write_text(write_toml(load_recipe("grammar")), "utf-8")
    assert languages_of(tmp_path, "x") == ("en", "fr")


@pytest.mark.parametrize(
    ("languages", "named"),
    [
        ([], [("aa", "bb"), ("aa", "copy")]),
        (["en-fr"], [("en", "fr")] * 2),
        (["en-fr", "zh-Hans:en"], [("en", "fr"), ("zh-Hans", "en")]),
    ],
)
def test_given_languages(languages, named, recurrent_run: Path, transformer_run: Path) -> None:
    runs = {"first": recurrent_run, "copy": transformer_run}

    async def test() -> list[tuple[str, str]]:
        models = Models(runs, settings(languages=languages), Metrics())
        return [model.languages for model in models.by_name.values()]

    assert asyncio.run(test()) == named
    with pytest.raises(DataError, match="languages: 3 pairs for 2 runs; give one for each, or one for all"):
        create_app(runs, settings(languages=["a-b"] * 3))


def test_names() -> None:
    assert name_runs([Path("a/run"), Path("b/run"), "c"]) == {
        "run": Path("a/run"),
        "run-2": Path("b/run"),
        "c": Path("c"),
    }
    assert name_runs(["a/run"], used={"run": Path()}) == {"run-2": Path("a/run")}
    assert name_runs(["a/run", "a/run:legal"]) == {"run": Path("a/run"), "run:legal": Path("a/run:legal")}


def test_a_run_with_one_of_its_adapters(tmp_path: Path) -> None:
    """Its worker is told which, and what is written to any adapter is noticed."""
    weights = tmp_path / "run/adapters/legal/adapter_model.safetensors"
    weights.parent.mkdir(parents=True)

    async def test() -> None:
        model = ServedModel("a", f"{tmp_path / 'run'}:legal", settings(), Metrics())
        config = model._config()
        assert (config["runs"], config["adapter"]) == ([str(tmp_path / "run")], "legal")
        assert ServedModel("a", tmp_path / "run", settings(), Metrics())._config()["adapter"] is None

    asyncio.run(test())
    assert modified(tmp_path / "run") is None
    weights.touch()
    assert modified(tmp_path / "run") == weights.stat().st_mtime
