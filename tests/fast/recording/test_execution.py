"""Engines whose steps are recorded."""

from __future__ import annotations

import pytest
import torch

from fixtures.eager_loop import EagerLoop
from fixtures.small_networks import neural
from weft.fast.recording.execution import (
    HISTORY_MULTIPLE,
    RecordedExecution,
    is_gpu_search,
    is_on_gpu,
    rounded_longest_output,
)
from weft.ragged import Ragged
from weft.search.loop import longest_output
from weft.translation.engines.batch_sizes import StepSize
from weft.translation.engines.interface import TranslationRequest
from weft.translation.engines.torch import Execution, TorchEngine
from weft.translation.translator import Translator
from weft.tree import leaves


@pytest.mark.parametrize("kind", ["transformer lm", "lm"])
def test_prompts_are_continued_by_recorded_steps(
    copier: Translator, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only prompts of one length share a batch, and the memory of longer ones is measured again."""
    tokenizer = copier.tokenizers.target
    model = neural(kind, vocabulary=tokenizer.size)
    settings = copier.search_settings({"kind": "beam", "size": 2, "max_length": 6})
    prompts = [[3, 4], [5, 4, 3, 5], [3], [4, 4], [5], [3, 5, 4, 4]]
    asked = TranslationRequest(sources=prompts, settings=settings, prompts=True)
    expected = TorchEngine(model, tokenizer).search(asked)
    engine = TorchEngine(model, tokenizer)
    engine.execution = RecordedExecution(model, loop := EagerLoop(torch.device("cpu")))
    monkeypatch.setattr(engine.planner, "_chooses_by_memory", lambda request: True)
    monkeypatch.setattr(engine.planner, "_is_small", lambda request: False)
    measured = []
    measure = StepSize.measure
    monkeypatch.setattr(StepSize, "measure", lambda *given, **more: measured.append(1) or measure(*given, **more))
    batches = list(engine.batches(asked))
    assert sorted(sorted(batch.rows) for batch in batches) == [[0, 3], [1, 5], [2, 4]]
    assert len(measured) == 3 and len(loop.graphs) == 3
    for batch in batches:
        for row, hypotheses in zip(batch.rows, batch.hypotheses, strict=True):
            assert [one.tokens for one in hypotheses] == [one.tokens for one in expected[row]]
            assert [one.score for one in hypotheses] == pytest.approx([one.score for one in expected[row]], abs=1e-4)


@pytest.mark.parametrize("kind", ["transformer", "feeding"])
@torch.no_grad()
def test_sources_of_a_transformer_are_padded_to_few_lengths(kind: str) -> None:
    model, device = neural(kind, vocabulary=9), torch.device("cpu")
    assert not is_on_gpu(model, device) and is_on_gpu(model, torch.device("cuda"))
    batch = Ragged.of([[3, 7, 5], [4]])
    plain = Execution(model, device).encode(batch)
    rounded = RecordedExecution(model, EagerLoop(device)).encode(batch)
    for ours, expected in zip(leaves(rounded), leaves(plain), strict=True):
        same_size = tuple(slice(size) for size in expected.shape)
        torch.testing.assert_close(ours[same_size], expected)
        assert (ours.shape == expected.shape) == (kind == "feeding" or 3 not in expected.shape)


def test_observed_steps_are_not_prefetched(copier: Translator) -> None:
    engine = TorchEngine(copier.model, copier.tokenizers.target)
    engine.execution = RecordedExecution(copier.model, loop := EagerLoop(torch.device("cpu")))
    settings = copier.search_settings({"kind": "greedy"})
    assert engine.begin(TranslationRequest(sources=[[3, 2]], settings=settings)) is not None
    observed = TranslationRequest(sources=[[3, 2]], settings=settings, observer=object())  # type: ignore[arg-type]
    assert engine.begin(observed) is None and engine.idle_event() is loop.idle


@pytest.mark.parametrize("max_lengths", [[], [1], [31, 32], [33, 7], [64], [100, 65]])
def test_the_longest_output_is_rounded_up(max_lengths: list[int]) -> None:
    device = torch.device("cpu")
    assert not is_gpu_search(max_lengths, device) and is_gpu_search(max_lengths, torch.device("cuda"))
    plain, rounded = longest_output(max_lengths, device), rounded_longest_output(max_lengths, device)
    assert plain == max(max_lengths, default=0)
    assert rounded % HISTORY_MULTIPLE == 0 and plain <= rounded < plain + HISTORY_MULTIPLE
