"""Compiled steps of one sentence against the plain steps: logits, attention weights, and whole searches."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fixtures.one_sentence import COVERED, SOURCE, PlainSteps, model_of, outputs, request_of
from weft.fast.cpu import compiled
from weft.fast.steps.native_transformer import FIRST_CAPACITY, MAX_ROWS, NativeSteps, native_steps
from weft.fast.steps.one_sentence_transformer import SentenceSteps, find_one_sentence_steps
from weft.fast.steps.quantization import quantize
from weft.ragged import Ragged
from weft.search.beam import BeamOptions, beam_search
from weft.search.sampling import greedy_search
from weft.translation.engines.torch import StartedModel

pytestmark = pytest.mark.skipif(compiled.find_compiler() is None, reason="needs a C compiler")
ACTIVATIONS = {name: [f"activation={name}"] for name in ("gelu", "gelu_tanh", "silu", "geglu", "geglu_tanh")}


@pytest.fixture(autouse=True)
def _compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_NATIVE", "1")
    monkeypatch.setattr(compiled, "loaded", None)
    assert compiled.library(wait=True) is not None


def steps_of(model: Any, memory: Any, rows: int, *, return_attention: bool = True) -> Any:
    return native_steps(model, memory, rows=rows, return_attention=return_attention)


@pytest.mark.parametrize("name", [*COVERED, *ACTIVATIONS])
@pytest.mark.parametrize("rows", [1, 3, 8])
@torch.no_grad()
def test_equal_to_plain_steps(name: str, rows: int) -> None:
    model = model_of((COVERED | ACTIVATIONS)[name])
    memory = model.encode(Ragged.of(SOURCE))
    torch.testing.assert_close(outputs(steps_of(model, memory, rows), memory, rows, 4), outputs(model, memory, rows, 4))


@pytest.mark.parametrize("name", ["pre", "rotary", "relative"])
@pytest.mark.parametrize("rows", [1, 3])
@torch.no_grad()
def test_eight_bit_weights(name: str, rows: int) -> None:
    model = quantize(model_of(COVERED[name]))
    memory = model.encode(Ragged.of(SOURCE))
    fast, plain = outputs(steps_of(model, memory, rows), memory, rows, 4), outputs(model, memory, rows, 4)
    # an input that falls between two integers is rounded either way: one level of one product
    torch.testing.assert_close(fast, plain, rtol=0.0, atol=0.02)
    assert float((fast[0] - plain[0]).abs().mean()) < 1e-3


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary", "relative", "alibi"])
@torch.no_grad()
def test_outputs_longer_than_the_first_pool(positions: str) -> None:
    model = model_of([f"positions={positions}"])
    memory = model.encode(Ragged.of(SOURCE))
    count = 2 * FIRST_CAPACITY + 1
    fast, plain = outputs(steps_of(model, memory, 2), memory, 2, count), outputs(model, memory, 2, count)
    torch.testing.assert_close(fast[-2:], plain[-2:])


@pytest.mark.parametrize("threads", [1, 2])
@torch.no_grad()
def test_wide_layers_on_several_threads(threads: int) -> None:
    sizes = ["model.encoder.hidden=160", "model.decoder.hidden=160", "model.decoder.feed_forward=330"]
    model = model_of(["heads=4"], *sizes, "model.encoder.heads=4")
    memory = model.encode(Ragged.of([[5, 4, 3] * 70 + [2]]))
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        fast = outputs(steps_of(model, memory, 5), memory, 5, 9)
    finally:
        torch.set_num_threads(before)
    torch.testing.assert_close(fast, outputs(model, memory, 5, 9), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("start", [(), (5, 7)])
@torch.no_grad()
def test_searches_find_the_same(start: tuple[int, ...]) -> None:
    model = model_of([])
    request = request_of(model, n_best=3)
    fast, plain = (StartedModel(one, start) for one in (model, PlainSteps(model)))
    found = find_one_sentence_steps(fast, request.memory, rows=3, return_attention=True)
    assert isinstance(found, StartedModel) and isinstance(found.model, NativeSteps)
    options = BeamOptions(size=4)
    for search in (lambda one: beam_search(one, request, options), lambda one: greedy_search(one, request_of(model))):
        for ours, theirs in zip(search(fast)[0], search(plain)[0], strict=True):
            assert ours.tokens == theirs.tokens
            assert ours.token_scores == pytest.approx(theirs.token_scores, abs=1e-5)
            torch.testing.assert_close(ours.attention_TS, theirs.attention_TS)


@torch.no_grad()
def test_which_searches_are_covered(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of([])
    memory = model.encode(Ragged.of(SOURCE))
    assert isinstance(steps_of(model, memory, MAX_ROWS), NativeSteps)
    assert steps_of(model, memory, MAX_ROWS + 1) is None
    assert steps_of(model, model.encode(Ragged.of([*SOURCE, [4, 2]])), 1) is None
    for other in (model_of([], "model.attention.normalizer=sparsemax"), model_of([]).double()):
        assert steps_of(other, other.encode(Ragged.of(SOURCE)), 1) is None
    with torch.enable_grad():
        assert steps_of(model, memory, 1) is None
    assert (
        steps_of(model, memory, 1, return_attention=False)
        .step(torch.tensor([1]), torch.zeros(1, 0, dtype=torch.int64), memory)
        .attention_RS
        is None
    )
    monkeypatch.setattr(compiled, "loaded", None)
    assert isinstance(find_one_sentence_steps(model, memory, rows=1, return_attention=True), SentenceSteps)


SMALL = {
    "one head, odd widths": ["hidden=7", "heads=1", "feed_forward=3"],
    "gated, odd widths": ["hidden=9", "heads=3", "feed_forward=5", "activation=swiglu"],
    "one unit": ["hidden=1", "heads=1", "feed_forward=1"],
    "wider than a vector": ["hidden=33", "heads=3", "feed_forward=67"],
}


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("source", [[2], [3] * 33])
@torch.no_grad()
def test_any_width(name: str, source: list[int]) -> None:
    model = model_of(SMALL[name], f"model.encoder.{SMALL[name][0]}", f"model.encoder.{SMALL[name][1]}")
    for one in (model, quantize(model)):
        memory = one.encode(Ragged.of([source]))
        fast, plain = (outputs(steps, memory, MAX_ROWS, 3) for steps in (steps_of(one, memory, MAX_ROWS), one))
        atol = 1e-5 if one is model else 0.02
        torch.testing.assert_close(fast, plain, rtol=0.0 if one is not model else 1e-5, atol=atol)


@torch.no_grad()
def test_beams_larger_than_the_vocabulary() -> None:
    model = model_of([])
    options = BeamOptions(size=16)
    for ours, theirs in zip(
        *(beam_search(one, request_of(model), options)[0] for one in (model, PlainSteps(model))), strict=True
    ):
        assert ours.tokens == theirs.tokens
