"""Whole searches of recurrent decoders in one call of compiled code against the plain searches."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from weft.fast.cpu import compiled
from weft.fast.steps import native_search
from weft.fast.steps.native_beam import native_beam_search
from weft.fast.steps.native_recurrent import NativeRecurrentDecoder, native_recurrent_decoder
from weft.fast.steps.native_search import native_greedy_search
from weft.fast.steps.quantization import quantize
from weft.models.build import build_model
from weft.ragged import Ragged
from weft.recipe import make_recipe
from weft.runtime.replaceable import plain_only
from weft.search.beam import BeamOptions, beam_search
from weft.search.constraints import NoLoops
from weft.search.interface import SearchRequest
from weft.search.sampling import greedy_search

pytestmark = pytest.mark.skipif(compiled.find_compiler() is None, reason="needs a C compiler")
GRU = ["encoder.kind=gru", "decoder.kind=gru"]
COVERED = {
    "none": ["attention.score=none"],
    "after": ["attention.score=dot"],
    "after, of another width": ["attention.score=general", "encoder.hidden=10"],
    "fed": ["attention.score=scaled_general", "decoder.input_feeding=true", "decoder.layers=2"],
    "before": ["attention.score=additive", "attention.placement=before"],
    "before, with concatenation": ["attention.score=concat", "attention.placement=before", "decoder.layers=2"],
    "projected": ["attention.score=dot", "attention.project=true", "encoder.hidden=10"],
    "gru": [*GRU, "attention.score=additive", "attention.size=9", "decoder.layers=3"],
    "gru, before": [*GRU, "attention.score=general", "attention.placement=before"],
    "summary": [*GRU, "attention.score=none", "decoder.feed_summary=true"],
    "rnn": ["encoder.kind=rnn", "decoder.kind=rnn", "attention.score=dot"],
}
REFUSED = {
    "residual": ["decoder.layers=2", "decoder.connections=residual"],
    "dense": ["decoder.layers=2", "decoder.connections=dense"],
    "norm": ["decoder.layer_norm=true"],
    "cosine": ["attention.score=cosine"],
    "scaled": ["attention.score=scaled_dot"],
    "sparse": ["attention.score=general", "attention.normalizer=sparsemax"],
    "window": ["attention.score=general", "attention.window=monotonic"],
    "coverage": ["attention.score=additive", "attention.coverage=sum"],
}


@pytest.fixture(autouse=True)
def _compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_NATIVE", "1")
    monkeypatch.setattr(compiled, "loaded", None)
    assert compiled.library(wait=True) is not None


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The results of the calls of C."""
    found: list[int] = []
    plain = NativeRecurrentDecoder.search

    def search(*arguments: Any) -> int:
        found.append(plain(*arguments))
        return found[-1]

    monkeypatch.setattr(NativeRecurrentDecoder, "search", search)
    return found


def model_of(settings: list[str]) -> Any:
    sizes = ["embedding=11", "encoder.hidden=14", "decoder.hidden=14"]
    given = {setting.partition("=")[0] for setting in settings}
    changes = [*(size for size in sizes if size.partition("=")[0] not in given), *settings]
    recipe = make_recipe({}, [f"model.{change}" for change in changes])
    return build_model(recipe.model, source_size=13, target_size=17, seed=3).eval()


def request_of(model: Any, longest: int = 9, **options: Any) -> SearchRequest:
    memory = model.encode(Ragged.of([[3, 4, 5, 6, 2]]))
    return SearchRequest(memory=memory, max_lengths=[longest], begin=1, end=2, **options)


def assert_same(model: Any, request: SearchRequest, size: int, tolerance: float = 1e-5) -> None:
    """``size``: of a beam; 0: greedy search."""
    options = BeamOptions(size=size or 1)
    found = native_beam_search(model, request, options) if size else native_greedy_search(model, request)
    with plain_only():
        expected = beam_search(model, request, options) if size else greedy_search(model, request)
    assert len(found) == len(expected) == 1 and len(found[0]) == len(expected[0])
    for ours, theirs in zip(found[0], expected[0], strict=True):
        assert (ours.tokens, ours.ended) == (theirs.tokens, theirs.ended)
        assert ours.token_scores == pytest.approx(theirs.token_scores, abs=tolerance)


@pytest.mark.parametrize("name", COVERED)
@torch.no_grad()
def test_equal_to_plain_search(name: str, counts: list[int]) -> None:
    model = model_of(COVERED[name])
    with torch.no_grad():
        for parameter in model.decoder.parameters():
            parameter.mul_(2)  # states that are not near zero
    for size in (0, 1, 3, 8):
        for longest in (1, 9, 30):
            assert_same(model, request_of(model, longest), size)
    assert len(counts) == 12 and all(count > 0 for count in counts)


@pytest.mark.parametrize("name", ["none", "fed", "before", "gru", "gru, before", "rnn"])
@torch.no_grad()
def test_eight_bit_weights(name: str, counts: list[int]) -> None:
    model = quantize(model_of(COVERED[name]))
    for size in (0, 4):
        assert_same(model, request_of(model), size, tolerance=0.05)
    assert len(counts) == 2 and all(count > 0 for count in counts)


@torch.no_grad()
def test_an_output_that_ends(counts: list[int]) -> None:
    model = model_of(COVERED["fed"])
    model.output.bias_V[2] += 2.0
    for size in (0, 4):
        assert_same(model, request_of(model, 40), size)
    assert all(0 < count < 40 for count in counts)


@torch.no_grad()
def test_a_loop_is_left_to_plain_search(counts: list[int]) -> None:
    model = model_of(COVERED["after"])
    model.output.bias_V[7] += 30.0  # nothing but this token
    for size in (0, 3):
        assert_same(model, request_of(model, 30, constraints=(NoLoops(),)), size)
    assert counts == [30, -2]


@pytest.mark.parametrize("name", REFUSED)
@torch.no_grad()
def test_refused_models(name: str, counts: list[int]) -> None:
    model = model_of(REFUSED[name])
    for size in (0, 3):
        assert_same(model, request_of(model), size)
    assert not counts


def _with_hook(model: Any) -> None:
    model.decoder.readout.register_forward_hook(lambda *_: None)


def _with_half_embedding(model: Any) -> None:
    model.target_embedding.bfloat16()


def _with_narrow_readout(model: Any) -> None:
    model.decoder.readout = torch.nn.Linear(9, 14)


def _in_training(model: Any) -> None:
    model.decoder.train()


@pytest.mark.parametrize("change", [_with_hook, _with_half_embedding, _with_narrow_readout, _in_training])
@torch.no_grad()
def test_changed_models_are_refused(change: Any) -> None:
    model = model_of(COVERED["fed"])
    memory = model.encode(Ragged.of([[3, 4, 5]]))
    assert native_recurrent_decoder(model, memory, rows=3) is not None
    assert native_recurrent_decoder(model, memory, rows=17) is None
    assert native_recurrent_decoder(model, model.encode(Ragged.of([[3, 4], [5]])), rows=3) is None
    change(model)
    assert native_recurrent_decoder(model, memory, rows=3) is None


def test_no_gradients() -> None:
    model = model_of(COVERED["fed"])
    assert native_recurrent_decoder(model, model.encode(Ragged.of([[3, 4, 5]])), rows=3) is None


@torch.no_grad()
def test_a_first_token_outside_the_vocabulary_is_left_to_plain_search() -> None:
    model = model_of(COVERED["fed"])
    request = request_of(model)
    assert native_search.find_native_search(model, request, rows=2) is not None
    request = SearchRequest(memory=request.memory, max_lengths=[9], begin=17, end=2)
    assert native_search.find_native_search(model, request, rows=2) is None
