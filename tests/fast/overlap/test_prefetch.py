"""Batches that are encoded while another one takes its steps."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch

from fixtures.eager_loop import EagerLoop
from weft.errors import SearchError, WeftWarning
from weft.fast.overlap.background import BackgroundSearch
from weft.fast.recording.execution import RecordedExecution
from weft.text.id_rows import IdRows
from weft.translation.engines.interface import TranslationRequest
from weft.translation.engines.torch import TorchEngine
from weft.translation.translator import Translator

LINES = ["a b c d e", "d", "b a", "c c a b", "e", "a b d", "c"]


@pytest.fixture
def engine(copier: Translator, monkeypatch: pytest.MonkeyPatch) -> TorchEngine:
    """Two sources at a time, with the loop of CUDA graphs."""
    engine = TorchEngine(copier.model, copier.tokenizers.target)
    engine.execution = RecordedExecution(copier.model, EagerLoop(torch.device("cpu")))
    monkeypatch.setattr(engine.planner, "_rows_at_once", lambda request: 2)
    return engine


@pytest.mark.parametrize("kind", ["beam", "greedy"])
def test_results_are_those_of_one_batch_after_the_other(copier: Translator, engine: TorchEngine, kind: str) -> None:
    translator = Translator(copier.model, copier.tokenizers, copier.recipe, engine=engine)
    expected = copier.translate(LINES, kind=kind, return_attention=False)
    found = translator.translate(LINES, kind=kind, return_attention=False)
    assert [(one.source, one.text) for one in found] == [(one.source, one.text) for one in expected]
    assert [one.score for one in found] == pytest.approx([one.score for one in expected], abs=1e-5)


def request(copier: Translator) -> TranslationRequest:
    ids = copier.encode_sources(LINES).framed((), (2,))
    return TranslationRequest(sources=ids, settings=copier.search_settings({"kind": "greedy"}))


def test_the_next_batch_is_prepared_before_the_results_of_one(
    copier: Translator, engine: TorchEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared: list[Any] = []
    prepare = engine.prepare

    def counted(request: TranslationRequest, rows: Any) -> Any:
        prepared.append(rows.tolist())
        return prepare(request, rows)

    monkeypatch.setattr(engine, "prepare", counted)
    batches = engine.batches(request(copier))
    assert len(next(batches).rows) == 2 and len(prepared) == 2
    assert [len(batch.rows) for batch in batches] == [2, 2, 1] and len(prepared) == 4


def test_an_error_comes_after_the_results_before_it(
    copier: Translator, engine: TorchEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode = engine.encode

    def refuse(request: TranslationRequest) -> Any:
        if int(IdRows.of(request.sources).lengths_B.max()) > 4:
            raise SearchError("too long")
        return encode(request)

    monkeypatch.setattr(engine, "encode", refuse)
    batches = engine.batches(request(copier))
    assert [len(next(batches).rows) for _ in range(2)] == [2, 2]
    with pytest.raises(SearchError, match="too long"):
        list(batches)


@pytest.mark.parametrize("fails", ["encoding", "steps"])
def test_memory_that_runs_out(
    copier: Translator, engine: TorchEngine, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    """Graphs are freed, the batch is searched again in parts, and those after it are not encoded ahead."""
    expected = engine.search(request(copier))
    released: list[int] = []
    method = {"encoding": "prepare", "steps": "search_prepared"}[fails]
    original = getattr(engine, method)

    def limited(*given: Any) -> Any:
        rows = given[0].rows if fails == "steps" else given[1]
        if len(rows) > 1:
            raise torch.OutOfMemoryError
        return original(*given)

    monkeypatch.setattr(engine, method, limited)
    monkeypatch.setattr(engine.execution, "release", lambda: released.append(1))
    engine.divided.release = engine.release
    with pytest.warns(WeftWarning, match=r"^search: not enough memory for a whole batch; ") as warned:
        found = engine.search(request(copier))
    assert [[one.tokens for one in row] for row in found] == [[one.tokens for one in row] for row in expected]
    assert len(warned) == 1 and engine.divided.parts == 2 and len(released) == 2


def test_the_graphs_of_an_execution_are_freed(copier: Translator, engine: TorchEngine) -> None:
    engine.search(request(copier))
    loop = engine.execution.loop
    assert isinstance(loop, EagerLoop) and loop.graphs
    engine.execution.set_memory_limit(7)
    engine.release()
    assert not loop.graphs and not loop.warm_starts and loop.limit == 7


def test_the_first_batch_of_the_next_request_is_prepared_too(
    copier: Translator, engine: TorchEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    prepare, may_begin = engine.prepare, threading.Event()

    def recorded(asked: TranslationRequest, rows: Any) -> Any:
        may_begin.wait(5)  # until the second request waits as well
        order.append(f"prepared {len(asked.sources)}")
        return prepare(asked, rows)

    search = engine.search_prepared

    def searched(*given: Any) -> Any:
        found = search(*given)
        order.append("searched")
        return found

    monkeypatch.setattr(engine, "prepare", recorded)
    monkeypatch.setattr(engine, "search_prepared", searched)
    may_begin.set()
    expected = list(engine.search(request(copier)))
    order.clear()
    may_begin.clear()
    with BackgroundSearch(engine) as background:
        first = background.search(request(copier).select([0, 1, 2]))
        second = background.search(request(copier))
        may_begin.set()
        rows = [row for batch in first for row in batch.rows]
        found = {row: one for batch in second for row, one in zip(batch.rows, batch.hypotheses, strict=True)}
    assert sorted(rows) == [0, 1, 2]
    assert order[:6] == ["prepared 3", "prepared 3", "searched", "prepared 7", "searched", "prepared 7"]
    assert order.count("searched") == 2 + 4
    assert [found[row] for row in range(len(LINES))] == expected
