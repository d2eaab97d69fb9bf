"""Steps of one sentence on a CPU against the plain steps: logits, attention weights, and whole searches."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fixtures.one_sentence import COVERED, SOURCE, PlainSteps, model_of, outputs, request_of
from weft.fast.cpu import compiled
from weft.fast.steps.one_sentence_transformer import FIRST_CAPACITY, SentenceSteps, find_one_sentence_steps
from weft.fast.steps.quantization import quantize
from weft.ragged import Ragged
from weft.search.beam import BeamOptions, beam_search
from weft.search.sampling import greedy_search
from weft.translation.engines.torch import StartedModel


@pytest.fixture(autouse=True)
def _not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "loaded", None)


def steps_of(model: Any, memory: Any, rows: int, *, return_attention: bool = True) -> Any:
    return find_one_sentence_steps(model, memory, rows=rows, return_attention=return_attention)


@pytest.mark.parametrize("name", COVERED)
@pytest.mark.parametrize("rows", [1, 3])
@torch.no_grad()
def test_equal_to_plain_steps(name: str, rows: int) -> None:
    model = model_of(COVERED[name])
    memory = model.encode(Ragged.of(SOURCE))
    torch.testing.assert_close(outputs(steps_of(model, memory, rows), memory, rows, 4), outputs(model, memory, rows, 4))


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary", "relative", "alibi"])
@torch.no_grad()
def test_outputs_longer_than_the_first_pool(positions: str) -> None:
    model = model_of([f"positions={positions}"])
    memory = model.encode(Ragged.of(SOURCE))
    count = 2 * FIRST_CAPACITY + 1
    fast, plain = outputs(steps_of(model, memory, 2), memory, 2, count), outputs(model, memory, 2, count)
    torch.testing.assert_close(fast[-2:], plain[-2:])


@pytest.mark.parametrize("start", [(), (5, 7)])
@torch.no_grad()
def test_searches_find_the_same(start: tuple[int, ...]) -> None:
    model = model_of([])
    request = request_of(model, n_best=3)
    fast, plain = (StartedModel(one, start) for one in (model, PlainSteps(model)))
    assert find_one_sentence_steps(fast, request.memory, rows=3, return_attention=True) is not None
    assert find_one_sentence_steps(plain, request.memory, rows=3, return_attention=True) is None
    options = BeamOptions(size=4)
    for search in (lambda one: beam_search(one, request, options), lambda one: greedy_search(one, request_of(model))):
        for ours, theirs in zip(search(fast)[0], search(plain)[0], strict=True):
            assert ours.tokens == theirs.tokens
            assert ours.token_scores == pytest.approx(theirs.token_scores, abs=1e-5)
            torch.testing.assert_close(ours.attention_TS, theirs.attention_TS)


@torch.no_grad()
def test_attention_weights_on_request() -> None:
    model = model_of([])
    memory = model.encode(Ragged.of(SOURCE))
    steps = steps_of(model, memory, 1, return_attention=False)
    assert steps.step(torch.tensor([1]), steps.start(memory), memory).attention_RS is None


@torch.no_grad()
def test_which_searches_are_covered() -> None:
    model = model_of([])
    memory = model.encode(Ragged.of(SOURCE))
    assert isinstance(steps_of(model, memory, 8), SentenceSteps)
    assert steps_of(model, memory, 9) is None
    assert steps_of(model, model.encode(Ragged.of([*SOURCE, [4, 2]])), 1) is None
    assert steps_of(model, model.encode(Ragged.of([[3] * 12 + [2]])), 1) is None  # longer than 2 d
    for other in (
        model_of([], "model.attention.normalizer=sparsemax"),
        model_of([]).double(),
        quantize(model_of([])),
    ):
        assert steps_of(other, other.encode(Ragged.of(SOURCE)), 1) is None
    with torch.enable_grad():
        assert steps_of(model, memory, 1) is None
