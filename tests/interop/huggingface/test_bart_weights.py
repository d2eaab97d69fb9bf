"""config.json and the names of weights of BART and its relatives: what each setting changes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from weft.interop.huggingface.bart_weights import configuration, weights
from weft.models.build import build_model
from weft.models.positions import sinusoids
from weft.recipe import ModelSettings
from weft.runs.weights import model_tensors

STACK: dict[str, Any] = {"kind": "transformer", "hidden": 12, "layers": 1, "heads": 3, "feed_forward": 7}


def make_settings(stack: dict[str, Any] | None = None, **model: Any) -> ModelSettings:
    stacks = {"encoder": {**STACK, **(stack or {})}, "decoder": {**STACK, **(stack or {})}}
    return ModelSettings.model_validate({"embedding": 12, "tie": "all", "dropout": 0.0, **stacks, **model})


PLAIN = {
    "d_model": 12,
    "encoder_layers": 1,
    "encoder_attention_heads": 3,
    "encoder_ffn_dim": 7,
    "decoder_layers": 1,
    "decoder_attention_heads": 3,
    "decoder_ffn_dim": 7,
    "activation_function": "relu",
    "max_position_embeddings": 1024,
    "scale_embedding": True,
    "dropout": 0.0,
    "attention_dropout": 0.0,
    "activation_dropout": 0.0,
    "tie_word_embeddings": True,
}
LEARNED = {"positions": "learned", "max_positions": 50}
ENTRIES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "nothing": ({}, {}),
    "width": ({"embedding": 15}, {"d_model": 15}),
    "encoder": (
        {"encoder": {**STACK, "layers": 2, "heads": 4, "feed_forward": 9}},
        {"encoder_layers": 2, "encoder_attention_heads": 4, "encoder_ffn_dim": 9},
    ),
    "decoder": (
        {"decoder": {**STACK, "layers": 2, "heads": 4, "feed_forward": 9}},
        {"decoder_layers": 2, "decoder_attention_heads": 4, "decoder_ffn_dim": 9},
    ),
    "activation": ({"decoder": {**STACK, "activation": "gelu_tanh"}}, {"activation_function": "gelu_pytorch_tanh"}),
    "positions": (
        {"encoder": {**STACK, **LEARNED}, "decoder": {**STACK, **LEARNED, "max_positions": 40}},
        {"max_position_embeddings": 40},
    ),
    "positions of the encoder": ({"encoder": {**STACK, **LEARNED}}, {"max_position_embeddings": 50}),
    "scale": ({"decoder": {**STACK, "scale_embedding": False}}, {"scale_embedding": False}),
    "dropout": ({"dropout": 0.25}, {"dropout": 0.25}),
    "attention dropout": ({"decoder": {**STACK, "attention_dropout": 0.2}}, {"attention_dropout": 0.2}),
    "activation dropout": ({"decoder": {**STACK, "activation_dropout": 0.3}}, {"activation_dropout": 0.3}),
    "inputs": ({"tie": "inputs"}, {"tie_word_embeddings": False}),
    "target": ({"tie": "target"}, {}),
    "none": ({"tie": "none"}, {"tie_word_embeddings": False}),
}


@pytest.mark.parametrize("case", ENTRIES)
def test_configuration(case: str) -> None:
    settings, entries = ENTRIES[case]
    assert configuration("pegasus", make_settings(**settings)) == {**PLAIN, **entries}


@pytest.mark.parametrize(("tie", "shared"), [("all", True), ("inputs", True), ("target", False), ("none", False)])
def test_embeddings_of_marian(tie: str, shared: bool) -> None:
    """Only Marian has two embeddings, and an entry that says so."""
    config = configuration("marian", make_settings(tie=tie))
    assert config["share_encoder_decoder_embeddings"] is shared


def converted(kind: str, settings: ModelSettings) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """The weights of a network by weft's names, and by those of transformers."""
    network = build_model(settings, source_size=11, target_size=11, seed=3)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_()
    tensors = model_tensors(network)
    return tensors, weights(kind, settings, tensors)


EMBEDDINGS = {
    "all": {"model.shared.weight": "source_embedding.weight_VE"},
    "inputs": {
        "model.shared.weight": "source_embedding.weight_VE",
        "model.encoder.embed_tokens.weight": "source_embedding.weight_VE",
        "model.decoder.embed_tokens.weight": "source_embedding.weight_VE",
        "lm_head.weight": "output.weight_VD",
    },
    "target": {
        "model.encoder.embed_tokens.weight": "source_embedding.weight_VE",
        "model.decoder.embed_tokens.weight": "target_embedding.weight_VE",
    },
    "none": {
        "model.encoder.embed_tokens.weight": "source_embedding.weight_VE",
        "model.decoder.embed_tokens.weight": "target_embedding.weight_VE",
        "lm_head.weight": "output.weight_VD",
    },
}


@pytest.mark.parametrize("tie", EMBEDDINGS)
def test_embeddings(tie: str) -> None:
    own, theirs = converted("marian", make_settings({"sinusoids": "halves"}, tie=tie))
    names = {name for name in theirs if not name.startswith(("model.encoder.", "model.decoder.")) or "embed_t" in name}
    assert names == {*EMBEDDINGS[tie], "final_logits_bias"}
    for name, original in EMBEDDINGS[tie].items():
        torch.testing.assert_close(theirs[name], own[original], rtol=0, atol=0)
    torch.testing.assert_close(theirs["final_logits_bias"], own["output.bias_V"][None], rtol=0, atol=0)


def test_m2m100_has_no_bias_and_makes_its_positions() -> None:
    _, theirs = converted("m2m_100", make_settings({"sinusoids": "tensor2tensor"}))
    assert not any("embed_positions" in name or name == "final_logits_bias" for name in theirs)


TABLES: dict[str, tuple[str, dict[str, Any], int]] = {
    "marian": ("marian", {"sinusoids": "halves"}, 0),
    "a first position": ("marian", {"sinusoids": "tensor2tensor", "first_position": 3}, 0),
    "bart": ("bart", {"sinusoids": "halves"}, 2),
    "mbart": ("mbart", {"sinusoids": "halves"}, 2),
}


@pytest.mark.parametrize("case", TABLES)
def test_tables_of_sinusoids(case: str) -> None:
    """BART and mBART skip two rows."""
    kind, stack, skipped = TABLES[case]
    _, theirs = converted(kind, make_settings(stack))
    table_PD = sinusoids(1024, 12, layout=stack["sinusoids"], first=stack.get("first_position", 0)).float()
    expected_PD = torch.cat([torch.zeros(skipped, 12), table_PD])
    for side in ("encoder", "decoder"):
        torch.testing.assert_close(theirs[f"model.{side}.embed_positions.weight"], expected_PD, rtol=0, atol=0)


def test_interleaved_sinusoids() -> None:
    """Hidden dimensions are reordered, even ones first, so that positions are those of transformers."""
    own, theirs = converted("marian", make_settings())
    order = [0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11]
    torch.testing.assert_close(
        theirs["model.shared.weight"], own["source_embedding.weight_VE"][:, order], rtol=0, atol=0
    )
    table_PD = sinusoids(1024, 12, layout="halves", first=0).float()
    torch.testing.assert_close(theirs["model.decoder.embed_positions.weight"], table_PD, rtol=0, atol=0)


def test_an_odd_width_is_not_reordered() -> None:
    stack = {"hidden": 15}
    own, theirs = converted("marian", make_settings(stack, embedding=15))
    torch.testing.assert_close(theirs["model.shared.weight"], own["source_embedding.weight_VE"], rtol=0, atol=0)
    table_PD = sinusoids(1024, 15, layout="interleaved", first=0).float()
    torch.testing.assert_close(theirs["model.decoder.embed_positions.weight"], table_PD, rtol=0, atol=0)
