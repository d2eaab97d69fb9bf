"""Prompts by recorded steps."""

from __future__ import annotations

import pytest
import torch

from fixtures.eager_loop import EagerLoop
from fixtures.small_networks import neural
from weft.translation.engines.interface import EngineRequest
from weft.translation.engines.search_memory import StepSize
from weft.translation.engines.torch import TorchEngine
from weft.translation.translator import Translator


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
