"""An engine encodes, steps and returns, however that is carried out."""

from __future__ import annotations

import pytest
import torch

from weft.runtime.replaceable import plain_only
from weft.translation.engines.interface import OverlappingEngine, TranslationRequest
from weft.translation.engines.torch import Execution, TorchEngine, make_execution
from weft.translation.translator import Translator

SOURCES = [[3, 4, 2], [5, 2], [4, 4, 4, 3, 2], [3, 2], [5, 4, 2]]


@pytest.mark.parametrize("kind", ["beam", "greedy"])
def test_the_plain_execution(copier: Translator, kind: str) -> None:
    request = TranslationRequest(sources=SOURCES, settings=copier.search_settings({"kind": kind, "batch_tokens": 7}))
    with plain_only():
        engine = TorchEngine(copier.model, copier.tokenizers.target)
    assert type(engine.execution) is Execution
    batches = list(engine.batches(request))
    assert len(batches) > 1 and sorted(row for batch in batches for row in batch.rows) == list(range(5))
    expected = TorchEngine(copier.model, copier.tokenizers.target).search(request)
    found = engine.search(request)
    assert [one[0].tokens for one in found] == [one[0].tokens for one in expected]
    assert [one[0].score for one in found] == pytest.approx([one[0].score for one in expected], abs=1e-5)


def test_a_cpu_prepares_no_search_ahead(copier: Translator) -> None:
    for execution in (Execution(copier.model, torch.device("cpu")), make_execution(copier.model, torch.device("cpu"))):
        engine = TorchEngine(copier.model, copier.tokenizers.target)
        engine.execution = execution
        assert isinstance(engine, OverlappingEngine)
        assert engine.begin(TranslationRequest(sources=SOURCES, settings=copier.search_settings({}))) is None
        assert engine.idle_event() is None
