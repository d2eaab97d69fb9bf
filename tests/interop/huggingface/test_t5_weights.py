"""config.json and the names of weights of T5 and UMT5: what each setting changes."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from weft.errors import RecipeError
from weft.interop.huggingface.t5_weights import check_biases, configuration, weights
from weft.models.build import build_model
from weft.recipe import ModelSettings
from weft.runs.weights import model_tensors

STACK: dict[str, Any] = {
    **{"kind": "transformer", "hidden": 12, "layers": 2, "heads": 3, "feed_forward": 7},
    **{"positions": "relative", "norm": "rms", "scale_embedding": False},
}


def make_settings(stack: dict[str, Any] | None = None, **model: Any) -> ModelSettings:
    stacks = {"encoder": {**STACK, **(stack or {})}, "decoder": {**STACK, **(stack or {})}}
    return ModelSettings.model_validate({"embedding": 12, "tie": "all", "dropout": 0.0, **stacks, **model})


PLAIN = {
    "d_model": 12,
    "d_kv": 4,
    "d_ff": 7,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "num_heads": 3,
    "relative_attention_num_buckets": 32,
    "relative_attention_max_distance": 128,
    "feed_forward_proj": "relu",
    "layer_norm_epsilon": 1e-5,
    "dropout_rate": 0.0,
    "tie_word_embeddings": True,
}
ENTRIES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "nothing": ({}, {}, {}),
    "width": ({}, {"embedding": 15}, {"d_model": 15}),
    "head size": ({"head_size": 5}, {}, {"d_kv": 5}),
    "feed-forward": ({"feed_forward": 9}, {}, {"d_ff": 9}),
    "encoder": ({}, {"encoder": {**STACK, "layers": 1}}, {"num_layers": 1}),
    "decoder": ({}, {"decoder": {**STACK, "layers": 1}}, {"num_decoder_layers": 1}),
    "heads": ({"heads": 4}, {}, {"num_heads": 4, "d_kv": 3}),
    "buckets": ({"relative_buckets": 16}, {}, {"relative_attention_num_buckets": 16}),
    "distance": ({"relative_max_distance": 64}, {}, {"relative_attention_max_distance": 64}),
    "activation": ({"activation": "geglu_tanh"}, {}, {"feed_forward_proj": "gated-gelu"}),
    "epsilon": ({"norm_epsilon": 1e-6}, {}, {"layer_norm_epsilon": 1e-6}),
    "dropout": ({}, {"dropout": 0.25}, {"dropout_rate": 0.25}),
    "inputs": ({}, {"tie": "inputs"}, {"tie_word_embeddings": False}),
}


@pytest.mark.parametrize("case", ENTRIES)
def test_configuration(case: str) -> None:
    stack, model, entries = ENTRIES[case]
    assert configuration(make_settings(stack, **model)) == {**PLAIN, **entries}


def converted(settings: ModelSettings) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """The weights of a network by weft's names, and by those of transformers."""
    network = build_model(settings, source_size=11, target_size=11, seed=3)
    tensors = {name: torch.randn_like(tensor) for name, tensor in model_tensors(network).items()}
    return tensors, weights(settings, tensors)


@pytest.mark.parametrize("tie", ["all", "inputs"])
def test_output_projection(tie: str) -> None:
    """Of its own, or tied: T5 then divides states by √d, and the last norm multiplies by it."""
    own, theirs = converted(make_settings(tie=tie))
    assert ("lm_head.weight" in theirs) == (tie == "inputs")
    if tie == "inputs":
        torch.testing.assert_close(theirs["lm_head.weight"], own["output.weight_VD"], rtol=0, atol=0)
    factor = math.sqrt(12) if tie == "all" else 1.0
    for side, scale in (("encoder", 1.0), ("decoder", factor)):
        norm = own[f"{side}.stack.final_norm.weight"]
        torch.testing.assert_close(theirs[f"{side}.final_layer_norm.weight"], norm * scale)


@pytest.mark.parametrize("per_layer", [False, True])
def test_tables_of_biases(per_layer: bool) -> None:
    """One of the first layer in T5, one of each in UMT5."""
    own, theirs = converted(make_settings({"relative_per_layer": per_layer}))
    tables = {name: tensor for name, tensor in theirs.items() if "relative_attention_bias" in name}
    numbers = range(2 if per_layer else 1)
    prefix, suffix = "encoder.block.", ".layer.0.SelfAttention.relative_attention_bias.weight"
    assert {name for name in tables if name.startswith("enc")} == {f"{prefix}{number}{suffix}" for number in numbers}
    for number in numbers:
        name = (
            f"encoder.stack.relative_bias.{number}.weight_KH" if per_layer else "encoder.stack.relative_bias.weight_KH"
        )
        torch.testing.assert_close(tables[f"{prefix}{number}{suffix}"], own[name], rtol=0, atol=0)


def test_projections() -> None:
    """Queries are divided by √d of a head; a gated network has two matrices on its way in."""
    own, theirs = converted(make_settings({"head_size": 5, "activation": "swiglu"}))
    query, key, value = own["decoder.stack.layers.1.self_attention.query_key_value.weight"].chunk(3)
    gate, up = own["decoder.stack.layers.1.feed_forward.linear1.weight"].chunk(2)
    block = "decoder.block.1.layer."
    for name, expected in {
        "0.SelfAttention.q": query / math.sqrt(5),
        "0.SelfAttention.k": key,
        "0.SelfAttention.v": value,
        "1.EncDecAttention.q": own["decoder.stack.layers.1.cross_attention.query.weight"] / math.sqrt(5),
        "2.DenseReluDense.wi_0": gate,
        "2.DenseReluDense.wi_1": up,
    }.items():
        torch.testing.assert_close(theirs[f"{block}{name}.weight"], expected)
    assert "encoder.block.1.layer.1.DenseReluDense.wi_0.weight" in theirs


def test_biases() -> None:
    """T5 has none: those of a model that is exported must be zero."""
    tensors = model_tensors(build_model(make_settings(), source_size=9, target_size=9))
    zeros = {name: torch.zeros_like(tensor) if "bias" in name else tensor for name, tensor in tensors.items()}
    check_biases("tiny", zeros)
    with pytest.raises(RecipeError, match=r"^tiny: .* is not zero, and T5 has no biases"):
        check_biases("tiny", {**zeros, "output.bias_V": torch.ones(9)})
