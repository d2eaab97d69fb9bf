"""Beam search in one call of compiled code against the plain search."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fixtures.one_sentence import COVERED
from fixtures.one_sentence import model_of as projected_model_of
from weft.fast.cpu import compiled
from weft.fast.steps import native_beam
from weft.fast.steps.native_beam import is_native_beam, native_beam_search
from weft.fast.steps.quantization import quantize
from weft.ragged import Ragged
from weft.runtime.replaceable import plain_only
from weft.search.beam import BeamOptions, beam_search
from weft.search.constraints import NoLoops
from weft.search.interface import SearchRequest
from weft.search.ranking import Ranking

pytestmark = pytest.mark.skipif(compiled.find_compiler() is None, reason="needs a C compiler")


@pytest.fixture(autouse=True)
def _compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_NATIVE", "1")
    monkeypatch.setattr(compiled, "loaded", None)
    assert compiled.library(wait=True) is not None


def model_of(settings: list[str]) -> Any:
    """A model whose embeddings are as wide as its states: C embeds its tokens."""
    return projected_model_of(settings, f"model.embedding={16 if 'hidden=16' in settings else 12}")


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The results of the calls of C."""
    found: list[int] = []
    plain = native_beam._call

    def call(*arguments: Any) -> int:
        found.append(plain(*arguments))
        return found[-1]

    monkeypatch.setattr(native_beam, "_call", call)
    return found


def request_of(model: Any, longest: int = 9, **options: Any) -> SearchRequest:
    memory = model.encode(Ragged.of([[3, 4, 5, 6, 2]]))
    return SearchRequest(memory=memory, max_lengths=[longest], begin=1, end=2, **options)


def assert_same(model: Any, request: SearchRequest, options: BeamOptions, tolerance: float = 1e-5) -> None:
    found = native_beam_search(model, request, options)
    with plain_only():
        expected = beam_search(model, request, options)
    assert len(found) == len(expected) == 1 and len(found[0]) == len(expected[0])
    for ours, theirs in zip(found[0], expected[0], strict=True):
        assert (ours.tokens, ours.ended) == (theirs.tokens, theirs.ended)
        assert ours.score == pytest.approx(theirs.score, abs=tolerance)
        assert ours.token_scores == pytest.approx(theirs.token_scores, abs=tolerance)
        assert ours.gap == pytest.approx(theirs.gap, abs=tolerance)


@pytest.mark.parametrize("name", COVERED)
@pytest.mark.parametrize("size", [1, 3, 8])
@torch.no_grad()
def test_equal_to_plain_search(name: str, size: int, counts: list[int]) -> None:
    model = model_of(COVERED[name])
    for n_best, longest in ((1, 9), (size, 1), (min(size, 2), 30)):
        assert_same(model, request_of(model, longest, n_best=n_best), BeamOptions(size=size))
    assert bool(counts) == (name != "post") and all(count > 0 for count in counts), (
        "an embedding norm is left to PyTorch"
    )


@pytest.mark.parametrize("normalization", ["power", "gnmt", "none"])
@torch.no_grad()
def test_rankings(normalization: Any, counts: list[int]) -> None:
    model = model_of([])
    with torch.no_grad():
        model.output.bias_V[2] += 2.0  # outputs end
    options = BeamOptions(size=5, ranking=Ranking(normalization, 0.8), finish=2)
    assert_same(model, request_of(model, 40, n_best=2), options)
    assert 0 < counts[0] < 40


@torch.no_grad()
def test_eight_bit_weights(counts: list[int]) -> None:
    model = quantize(model_of([]))
    assert_same(model, request_of(model), BeamOptions(size=4), tolerance=0.05)
    assert counts == [9]


@torch.no_grad()
def test_a_loop_is_left_to_plain_search(counts: list[int]) -> None:
    model = model_of([])
    model.output.bias_V[7] += 30.0  # nothing but this token
    assert_same(model, request_of(model, 30, constraints=(NoLoops(),)), BeamOptions(size=3))
    assert_same(model, request_of(model, 9, constraints=(NoLoops(),)), BeamOptions(size=3))
    assert_same(model, request_of(model, 30), BeamOptions(size=3))
    assert counts == [-2, 9, 30]


@torch.no_grad()
def test_scores_that_are_no_numbers_are_left_to_plain_search(counts: list[int]) -> None:
    model = model_of([])
    model.output.bias_V[7] = float("nan")
    native_beam_search(model, request_of(model), BeamOptions(size=3))
    assert counts == [-2]


@torch.no_grad()
def test_which_searches_are_covered(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of([])
    request, options = request_of(model), BeamOptions(size=4)
    assert is_native_beam(model, request, options)
    assert not is_native_beam(model, request, BeamOptions(size=4, groups=2))
    assert not is_native_beam(model, request, BeamOptions(size=4, stop="provable"))
    assert not is_native_beam(model, request, BeamOptions(size=17))
    assert not is_native_beam(model, request_of(model, return_attention=True), options)
    assert not is_native_beam(model, request_of(model, prefixes=[[3]]), options)
    monkeypatch.setattr(compiled, "loaded", None)
    assert not is_native_beam(model, request, options)


@torch.no_grad()
def test_other_models_are_left_to_plain_search(counts: list[int]) -> None:
    for model in (model_of(["embedding_norm=true"]), projected_model_of([])):
        native_beam_search(model, request_of(model), BeamOptions(size=2))
    model = model_of([])
    native_beam_search(model, request_of(model), BeamOptions(size=9))  # 18 extensions of 17 tokens
    assert not counts
