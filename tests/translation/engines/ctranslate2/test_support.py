"""What CTranslate2 cannot hold or search is said in one line that names the setting."""

from __future__ import annotations

from typing import Any

import pytest

from weft.recipe import ModelSettings, SearchSettings
from weft.translation.engines.ctranslate2.support import unsupported_model, unsupported_search

STACK: dict[str, Any] = {"kind": "transformer", "hidden": 24, "layers": 2, "heads": 4, "feed_forward": 20}


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ({}, "model.encoder.kind: 'lstm' is recurrent"),
        ({"encoder": STACK}, "model.decoder.kind: 'lstm' is recurrent"),
        ({"kind": "language_model", "decoder": STACK}, "model.kind: 'language_model'"),
        ({"kind": "prefix_lm", "decoder": STACK}, "model.kind: 'prefix_lm'"),
        (
            {"encoder": {**STACK, "kind": "attention", "norm_placement": "post"}, "decoder": STACK},
            "model.encoder.norm_placement: 'post' with model.encoder.kind = 'attention'",
        ),
        (
            {"encoder": {**STACK, "norm_epsilon": 1e-6}, "decoder": STACK},
            "model.encoder.norm_epsilon: 1e-06 is not that of the decoder",
        ),
        (
            {"encoder": STACK, "decoder": {**STACK, "positions": "relative", "relative_per_layer": True}},
            "model.decoder.relative_per_layer: CTranslate2 has one table of biases for all layers",
        ),
        (
            {"encoder": STACK, "decoder": {**STACK, "alignment_heads": [[0, 1], [1, 1]]}},
            "model.decoder.alignment_heads: CTranslate2 aligns words by heads of one layer; set it to []",
        ),
        (
            {"encoder": STACK, "decoder": {**STACK, "key_value_heads": 2, "alignment_heads": [[0, 1]]}},
            "model.decoder.alignment_heads: CTranslate2 cannot choose among heads that share keys; set it to []",
        ),
    ],
)
def test_models(model: dict[str, Any], said: str) -> None:
    reason = unsupported_model(ModelSettings.model_validate(model))
    assert reason is not None and reason.startswith(said) and "\n" not in reason


def test_several_sources_are_refused() -> None:
    model = {"encoder": STACK, "decoder": STACK, "sources": {"count": 3}}
    reason = unsupported_model(ModelSettings.model_validate(model))
    assert reason == "model.sources.count: 3 sources are not known to CTranslate2; it has one"


def test_copying_is_refused() -> None:
    reason = unsupported_model(ModelSettings.model_validate({"encoder": STACK, "decoder": STACK, "copy": True}))
    assert reason == "model.copy: copying is not known to CTranslate2"


def test_sparse_outputs() -> None:
    reason = unsupported_model(ModelSettings.model_validate({"encoder": STACK, "decoder": STACK}), loss="entmax15")
    assert reason == "training.loss: CTranslate2 has no output layer for 'entmax15'; only for 'cross_entropy'"


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"kind": "sample"}, "search.kind"),
        ({"kind": "mbr"}, "search.kind"),
        ({"stop": "provable"}, "search.stop"),
        ({"groups": 5}, "search.groups"),
        ({"coverage_penalty": 0.1}, "search.coverage_penalty"),
        ({"normalization": "gnmt"}, "search.normalization"),
        ({"size": 1, "finish": 3}, "search.finish"),
        ({"no_repeat_ngram": 3}, "search.no_repeat_ngram"),
        ({"repetition_penalty": 1.2}, "search.repetition_penalty"),
        ({"min_length": 2}, "search.min_length"),
        ({"prefix": "a"}, "search.prefix"),
        ({"banned": ["a"]}, "search.banned"),
        ({"required": ["a"]}, "search.required"),
    ],
)
def test_settings_of_a_search(settings: dict[str, Any], name: str) -> None:
    reason = unsupported_search(SearchSettings(**settings))
    assert reason is not None and reason.startswith(f"{name}: ") and "\n" not in reason


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"kind": "greedy", "stop": "steps"},
        {"normalization": "none"},
        {"kind": "greedy", "coverage_penalty": 0.1},
        {"max_length": 7},
    ],
)
def test_what_is_supported(settings: dict[str, Any]) -> None:
    assert unsupported_search(SearchSettings(**settings)) is None
