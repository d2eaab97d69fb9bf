"""Recurrent decoders over whole targets in their faster versions against the plain loop over steps."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from weft.attention.attention import Attention
from weft.attention.scores import Score, ScoreOptions
from weft.fast.steps.quantization import quantize
from weft.models.build import build_model
from weft.models.recurrent_decoder import RecurrentDecoder
from weft.models.seq2seq import Seq2Seq
from weft.ragged import Ragged
from weft.recipe import ModelSettings
from weft.recipe.choices import CELLS, SCORES
from weft.runtime.replaceable import fast_versions, plain_only

SOURCES = Ragged.of([[3, 7, 5], [11], [4, 9, 3, 12, 6], [8, 2]])
TARGETS = Ragged.of([[1, 5], [1, 9, 4, 6, 10], [1], [1, 3, 7]])
PARTS: dict[str, dict[str, dict[str, Any]]] = {
    "none": {"attention": {"score": "none"}},
    "after": {"attention": {"placement": "after"}},
    "after+summary": {"decoder": {"feed_summary": True}},
    "feeding": {"decoder": {"input_feeding": True}},
    "feeding+summary": {"decoder": {"input_feeding": True, "feed_summary": True}},
    "before": {"attention": {"placement": "before"}},
    "before+summary": {"attention": {"placement": "before"}, "decoder": {"feed_summary": True}},
    "coverage": {"attention": {"score": "additive", "coverage": "fertility"}},
    "window": {"attention": {"window": "predictive"}, "decoder": {"input_feeding": True}},
    "columns": {"sources": {"count": 2, "attention": "parallel"}, "decoder": {"input_feeding": True}},
}


def make(parts: dict[str, dict[str, Any]], kind: str = "lstm", **decoder: Any) -> Seq2Seq:
    """A small model in double precision whose biases are not zero."""
    settings = ModelSettings.model_validate(
        {
            "embedding": 6,
            "dropout": 0.0,
            "encoder": {"hidden": 6, "kind": kind},
            **{name: part for name, part in parts.items() if name == "sources"},
            "decoder": {"hidden": 6, "kind": kind, **parts.get("decoder", {}), **decoder},
            "attention": {"score": "general", "size": 7, **parts.get("attention", {})},
        }
    )
    model = build_model(settings, source_size=13, target_size=13, seed=7)
    assert isinstance(model, Seq2Seq)
    torch.manual_seed(8)
    for name, parameter in model.named_parameters():
        if "bias" in name:
            nn.init.normal_(parameter)
    return model.double()


def version_of(model: Seq2Seq, *, return_attention: bool = False) -> str | None:
    """The version of `RecurrentDecoder.run` that is used."""
    decoder = model.decoder
    assert isinstance(decoder, RecurrentDecoder)
    arguments = (decoder, model.target_embedding.ragged(TARGETS), model.encode(SOURCES), return_attention)
    versions = fast_versions("models.recurrent_decoder.RecurrentDecoder.run")
    return next((str(version.fast.partition(":")[2]) for version in versions if version.applies(*arguments)), None)


def run(model: Seq2Seq) -> tuple[Tensor, Tensor | None, tuple[Tensor, ...]]:
    """Logits, attention weights at target tokens, and the gradients of all weights by both."""
    output = model(SOURCES, TARGETS, return_attention=True)
    probe = torch.linspace(-1, 1, output.logits_NV.numel(), dtype=torch.float64).view_as(output.logits_NV)
    total = (output.logits_NV * probe).sum()
    weights_NS = None
    if output.attention:
        weights_NS = TARGETS.from_padded(output.attention[-1].weights_BHTS[:, 0]).values
        total = total + weights_NS.square().sum()
    return output.logits_NV, weights_NS, torch.autograd.grad(total, list(model.parameters()))


@pytest.mark.parametrize("connections", ["plain", "residual", "dense"])
@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize("name", PARTS)
def test_states_weights_and_gradients(name: str, kind: str, connections: str) -> None:
    model = make(PARTS[name], kind, layers=2, connections=connections)
    expected_version = "whole_layers" if name in ("none", "after", "after+summary") else "deferred_steps"
    assert version_of(model) == expected_version
    with plain_only():
        expected = run(model)
    torch.testing.assert_close(run(model), expected)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("placement", ["feeding", "before"])
def test_scores(placement: str, score: str) -> None:
    parts = {**PARTS[placement], "attention": {**PARTS[placement].get("attention", {}), "score": score}}
    model = make(parts, "gru")
    assert version_of(model) == "deferred_steps"
    with plain_only():
        expected = run(model)
    torch.testing.assert_close(run(model), expected)


class Distance(Score):
    """−‖q − k‖, a user's score: it calls a function of PyTorch that deferred keys do not have."""

    same_size = True

    def forward(self, queries_BTD: Tensor, keys_BSD: Tensor) -> Tensor:
        assert keys_BSD.shape[0] == queries_BTD.shape[0]
        return -torch.cdist(queries_BTD, keys_BSD)


@pytest.mark.parametrize("placement", ["feeding", "before"])
def test_a_score_of_a_user_takes_tensors(placement: str) -> None:
    parts = {**PARTS[placement], "attention": {**PARTS[placement].get("attention", {}), "score": "dot"}}
    model = make(parts, "gru")
    assert isinstance(model.decoder, RecurrentDecoder) and isinstance(model.decoder.attention, Attention)
    model.decoder.attention.score = Distance(ScoreOptions(1, 1, 1, 1.0))
    with plain_only():
        expected = run(model)
    torch.testing.assert_close(run(model), expected)


@torch.no_grad()
def test_eight_bit_products_run_the_plain_loop() -> None:
    """Their weights are not those of a layer."""
    for name in ("feeding", "before"):
        model = make(PARTS[name], layers=2).float()
        quantized = quantize(model)
        assert isinstance(quantized, Seq2Seq) and version_of(quantized) is None
        torch.testing.assert_close(
            quantized(SOURCES, TARGETS).logits_NV, model(SOURCES, TARGETS).logits_NV, rtol=0, atol=0.2
        )
