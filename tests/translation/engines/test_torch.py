"""Batches that are prepared while the steps of another one are taken."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fixtures.eager_loop import EagerLoop
from fixtures.small_networks import neural
from weft.errors import SearchError
from weft.text.id_rows import IdRows
from weft.translation.engines.interface import EngineRequest
from weft.translation.engines.search_memory import StepSize
from weft.translation.engines.torch import TorchEngine
from weft.translation.translator import Translator

LINES = ["a b c d e", "d", "b a", "c c a b", "e", "a b d", "c"]


@pytest.fixture
def engine(copier: Translator, monkeypatch: pytest.MonkeyPatch) -> TorchEngine:
    """Two sources at a time, with the loop of CUDA graphs."""
    engine = TorchEngine(copier.model, copier.tokenizers.target)
    engine.loop = EagerLoop(torch.device("cpu"))
    monkeypatch.setattr(engine, "_rows_at_once", lambda request: 2)
    return engine


@pytest.mark.parametrize("kind", ["beam", "greedy"])
def test_results_are_those_of_one_batch_after_the_other(copier: Translator, engine: TorchEngine, kind: str) -> None:
    translator = Translator(copier.model, copier.tokenizers, copier.recipe, engine=engine)
    expected = copier.translate(LINES, kind=kind, return_attention=False)
    found = translator.translate(LINES, kind=kind, return_attention=False)
    assert [(one.source, one.text) for one in found] == [(one.source, one.text) for one in expected]
    assert [one.score for one in found] == pytest.approx([one.score for one in expected], abs=1e-5)


def request(copier: Translator) -> EngineRequest:
    ids = copier.encode_sources(LINES).framed((), (2,))
    return EngineRequest(ids, (), copier.search_settings({"kind": "greedy"}))


def test_the_next_batch_is_prepared_before_the_results_of_one(
    copier: Translator, engine: TorchEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared: list[Any] = []
    prepare = engine._prepare

    def counted(request: EngineRequest, rows: Any) -> Any:
        prepared.append(rows.tolist())
        return prepare(request, rows)

    monkeypatch.setattr(engine, "_prepare", counted)
    batches = engine.batches(request(copier))
    assert len(next(batches).rows) == 2 and len(prepared) == 2
    assert [len(batch.rows) for batch in batches] == [2, 2, 1] and len(prepared) == 4


def test_an_error_comes_after_the_results_before_it(
    copier: Translator, engine: TorchEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode = engine._encode

    def refuse(request: EngineRequest) -> Any:
        if int(IdRows.of(request.sources).lengths_B.max()) > 4:
            raise SearchError("too long")
        return encode(request)

    monkeypatch.setattr(engine, "_encode", refuse)
    batches = engine.batches(request(copier))
    assert [len(next(batches).rows) for _ in range(2)] == [2, 2]
    with pytest.raises(SearchError, match="too long"):
        list(batches)


@pytest.mark.parametrize("kind", ["transformer lm", "lm"])
def test_prompts_are_continued_by_recorded_steps(
    copier: Translator, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only prompts of one length share a batch, and the memory of longer ones is measured again."""
    tokenizer = copier.tokenizers.target
    model = neural(kind, vocabulary=tokenizer.size)
    settings = copier.search_settings({"kind": "beam", "size": 2, "max_length": 6})
    prompts = [[3, 4], [5, 4, 3, 5], [3], [4, 4], [5], [3, 5, 4, 4]]
    asked = EngineRequest(prompts, [[]] * len(prompts), settings, prompts=True)
    expected = TorchEngine(model, tokenizer).search(asked)
    engine = TorchEngine(model, tokenizer)
    engine.loop = EagerLoop(torch.device("cpu"))
    monkeypatch.setattr(engine, "_chooses_by_memory", lambda request: True)
    monkeypatch.setattr(engine, "_is_small", lambda request: False)
    measured = []
    measure = StepSize.measure
    monkeypatch.setattr(StepSize, "measure", lambda *given: measured.append(1) or measure(*given))
    batches = list(engine.batches(asked))
    assert sorted(sorted(batch.rows) for batch in batches) == [[0, 3], [1, 5], [2, 4]]
    assert len(measured) == 3 and len(engine.loop.graphs) == 1
    for batch in batches:
        for row, hypotheses in zip(batch.rows, batch.hypotheses, strict=True):
            assert [one.tokens for one in hypotheses] == [one.tokens for one in expected[row]]
            assert [one.score for one in hypotheses] == pytest.approx([one.score for one in expected[row]], abs=1e-4)
