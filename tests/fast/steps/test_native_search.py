"""Greedy search in one call of compiled code against the plain one."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import Any

import pytest
import torch

from fixtures.one_sentence import model_of, request_of
from weft.fast.cpu import compiled
from weft.fast.steps import native_search
from weft.fast.steps.native_search import find_native_search, is_native_greedy
from weft.runtime.replaceable import plain_only
from weft.search.beam import BeamOptions, beam_search
from weft.search.constraints import NoLoops
from weft.search.sampling import greedy_search

pytestmark = pytest.mark.skipif(compiled.find_compiler() is None, reason="needs a C compiler")


@pytest.fixture(autouse=True)
def _compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_NATIVE", "1")
    monkeypatch.setattr(compiled, "loaded", None)
    assert compiled.library(wait=True) is not None


def greedy_of(model: Any, longest: int, *constraints: Any) -> tuple[Any, Any]:
    """The output of greedy search, and of the plain one."""
    request = replace(request_of(model), return_attention=False, max_lengths=[longest], constraints=constraints)
    with plain_only():
        [[expected]] = greedy_search(model, request)
    assert is_native_greedy(model, request)
    [[found]] = greedy_search(model, request)
    return found, expected


@pytest.mark.parametrize("longest", [1, 2, 40, 10**7])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary"])
@torch.no_grad()
def test_greedy_searches_of_any_length(longest: int, positions: str) -> None:
    settings = [f"positions={positions}", *(["max_positions=300"] if positions == "learned" else [])]
    model = model_of(settings, "model.embedding=12")
    model.output.bias_V[2] = 1.0 if longest > 40 else 0.0  # so that it ends
    found, expected = greedy_of(model, longest, NoLoops())
    assert found.tokens == expected.tokens
    assert found.token_scores == pytest.approx(expected.token_scores, abs=1e-5)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@torch.no_grad()
def test_logits_that_are_not_numbers(bad: float) -> None:
    model = model_of([], "model.embedding=12")
    model.output.bias_V[5] = bad
    found, expected = greedy_of(model, 5)
    assert found.tokens == expected.tokens
    assert found.token_scores == pytest.approx(expected.token_scores, nan_ok=True, abs=1e-5)
    beam_search(model, request_of(model), BeamOptions(size=4))


@torch.no_grad()
def test_weights_replaced_during_a_search_stay_alive() -> None:
    model = model_of([], "model.embedding=12")
    request = replace(request_of(model), return_attention=False, max_lengths=[9])
    first, second = (find_native_search(model, request, rows=1) for _ in range(2))
    assert first is not None and second is not None
    expected_T, _ = native_search._call(*first)
    for parameter in model.parameters():
        parameter.data = torch.full_like(parameter, torch.nan)
    tokens_T, log_probs_T = native_search._call(*second)
    assert tokens_T.equal(expected_T) and log_probs_T.isfinite().all()


@torch.no_grad()
def test_models_without_a_decoder_that_c_can_step() -> None:
    model = model_of([], "model.embedding=12")
    request = replace(request_of(model), return_attention=False, max_lengths=[9])
    assert find_native_search(model, request, rows=1) is not None
    assert find_native_search(model, replace(request, begin=17), rows=1) is None
    assert find_native_search(model, replace(request, max_lengths=[0]), rows=1) is None
    no_model: Any = object()
    assert find_native_search(no_model, request, rows=1) is None


@torch.no_grad()
def test_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of([], "model.embedding=12")
    request = replace(request_of(model), return_attention=False, max_lengths=[9])
    found = find_native_search(model, request, rows=1)
    assert found is not None
    decoder, fields = found
    monkeypatch.setattr(decoder, "search", lambda *given: -1)
    assert isinstance(fields, ctypes.Structure)
    with pytest.raises(MemoryError, match="no memory"):
        native_search._call(decoder, fields)
