"""Which class of transformers a recipe gets, and the setting that is named if there is none."""

from __future__ import annotations

from typing import Any

import pytest

from weft.interop.huggingface.architectures import find_architecture
from weft.recipe import make_recipe

STACK: dict[str, Any] = {"kind": "transformer", "hidden": 24, "layers": 2, "heads": 4, "feed_forward": 20}
T5 = {"positions": "relative", "norm": "rms", "scale_embedding": False}
POST = {"norm_placement": "post"}
Change = dict[str, Any]


def architecture(both: Change, encoder: Change | None = None, decoder: Change | None = None, **rest: Any) -> Any:
    """Of a recipe with these settings of both stacks, of each, and of the model."""
    stacks = {"encoder": {**STACK, **both, **(encoder or {})}, "decoder": {**STACK, **both, **(decoder or {})}}
    model = {"embedding": 24, "tie": "all", **stacks, **rest.pop("model", {})}
    joint = model["tie"] in ("all", "inputs")
    return find_architecture(make_recipe({"model": model, "tokenizer": {"joint": joint}, **rest}))


CLASSES: dict[str, tuple[str, Change, Change]] = {
    "pegasus": ("pegasus", {}, {}),
    "pegasus, inputs": ("pegasus", {}, {"tie": "inputs"}),
    "pegasus, learned": ("pegasus", {"positions": "learned"}, {}),
    "pegasus, head size": ("pegasus", {"head_size": 6}, {}),
    "mbart": ("mbart", {"embedding_norm": True}, {}),
    "bart": ("bart", {**POST, "embedding_norm": True}, {}),
    "marian": ("marian", POST, {}),
    "marian, target": ("marian", POST, {"tie": "target"}),
    "marian, none": ("marian", POST, {"tie": "none"}),
    "pegasus, none": ("pegasus", {}, {"tie": "none"}),
    "bart, target": ("bart", {**POST, "embedding_norm": True}, {"tie": "target"}),
    "t5": ("t5", T5, {}),
    "t5, inputs": ("t5", T5, {"tie": "inputs"}),
    "t5, gated": ("t5", {**T5, "activation": "swiglu", "norm_epsilon": 1e-6, "head_size": 5}, {}),
    "umt5": ("umt5", {**T5, "relative_per_layer": True}, {}),
}


@pytest.mark.parametrize("case", CLASSES)
def test_classes(case: str) -> None:
    kind, stack, model = CLASSES[case]
    assert architecture(stack, model=model) == (kind, "")


def test_stacks_of_different_sizes() -> None:
    """Classes like BART have layers, heads and feed-forward sizes of each side, and positions of each."""
    other = {"layers": 1, "heads": 3, "feed_forward": 7, "positions": "learned"}
    assert architecture({}, other) == ("pegasus", "")
    assert architecture(T5, {"layers": 1}) == ("t5", "")


MODELS: dict[str, tuple[Change, Change, str]] = {
    "copying": ({}, {"copy": True}, "model.copy: copying is not known to transformers"),
    "normalizer": ({}, {"attention": {"normalizer": "sparsemax"}}, "model.attention.normalizer: 'sparsemax'"),
    "kind": ({}, {"kind": "prefix_lm"}, "model.kind: 'prefix_lm' is not exported to transformers"),
    "embedding": ({}, {"embedding": 20}, "model.embedding: 20: in transformers it is the hidden size, here 24"),
    "t5, target": (T5, {"tie": "target"}, "model.tie: 'target': T5 has one embedding for source and target"),
    "t5, none": (T5, {"tie": "none"}, "model.tie: 'none': T5 has one embedding"),
    "umt5, inputs": (
        {**T5, "relative_per_layer": True},
        {"tie": "inputs"},
        "model.tie: 'inputs': versions 4 and 5 of transformers compute different outputs of a UMT5 model",
    ),
}
STACKS: dict[str, tuple[Change, str]] = {
    "attention only": ({"kind": "attention"}, "kind: 'attention': transformers has no such sequence-to-sequence model"),
    "key-value heads": ({"key_value_heads": 2}, "key_value_heads: 2: in transformers there are as many as heads"),
    "rotary": ({"positions": "rotary"}, "positions: 'rotary': transformers has no sequence-to-sequence model"),
    "none": ({"positions": "none"}, "positions: 'none': transformers has no sequence-to-sequence model"),
    "norm": ({"norm": "rms"}, "norm: 'rms' with model.{side}.positions = 'sinusoidal'"),
    "epsilon": ({"norm_epsilon": 1e-6}, "norm_epsilon: 1e-06 with model.{side}.positions = 'sinusoidal'"),
    "head size": ({"head_size": 5}, "head_size: 5 with model.{side}.positions = 'sinusoidal'"),
    "activation": ({"activation": "swiglu"}, "activation: 'swiglu' is not known to transformers here"),
    "t5, norm": ({**T5, "norm": "layer"}, "norm: 'layer' with model.{side}.positions = 'relative'"),
    "t5, post": ({**T5, **POST}, "norm_placement: 'post' with model.{side}.positions = 'relative'"),
    "t5, embedding": ({**T5, "embedding_norm": True}, "embedding_norm: True with model.{side}.positions"),
    "t5, scale": ({**T5, "scale_embedding": True}, "scale_embedding: True with model.{side}.positions"),
    "t5, activation": ({**T5, "activation": "geglu"}, "activation: 'geglu' is not known to transformers here"),
}
SIDES: dict[str, tuple[Change, Change]] = {
    "placement": ({}, POST),
    "embedding norm": ({}, {"embedding_norm": True}),
    "scale": ({}, {"scale_embedding": False}),
    "activation": ({}, {"activation": "gelu"}),
    "t5, heads": (T5, {"heads": 3, "head_size": 6}),
    "t5, head size": (T5, {"head_size": 5}),
    "t5, feed-forward": (T5, {"feed_forward": 7}),
    "t5, activation": (T5, {"activation": "gelu"}),
    "t5, epsilon": (T5, {"norm_epsilon": 1e-6}),
    "t5, buckets": (T5, {"relative_buckets": 16}),
    "t5, distance": (T5, {"relative_max_distance": 64}),
    "t5, tables": (T5, {"relative_per_layer": True}),
}


@pytest.mark.parametrize("case", MODELS)
def test_refused_models(case: str) -> None:
    stack, model, message = MODELS[case]
    kind, reason = architecture(stack, model=model)
    assert kind is None and reason.startswith(message)


def test_refused_losses() -> None:
    assert architecture({}, training={"loss": "entmax15", "label_smoothing": 0.0}) == (
        None,
        "training.loss: transformers has no output layer for 'entmax15'; only for 'cross_entropy'",
    )


@pytest.mark.parametrize("case", STACKS)
def test_refused_stacks(case: str) -> None:
    """Either side can be at fault; the encoder alone can be of kind attention."""
    changes, message = STACKS[case]
    common = T5 if case.startswith("t5") else {}
    for side in ("encoder",) if case == "attention only" else ("encoder", "decoder"):
        kind, reason = architecture(common, **{side: changes})
        assert kind is None and reason.startswith(f"model.{side}." + message.replace("{side}", side))


def test_refused_decoders() -> None:
    kind, reason = architecture({}, decoder={"hidden": 20})
    assert kind is None and reason == "model.embedding: 24: in transformers it is the hidden size, here 20"


@pytest.mark.parametrize("case", SIDES)
def test_refused_differences_of_sides(case: str) -> None:
    """One entry of config.json is for both sides."""
    common, change = SIDES[case]
    name = next(iter(change))
    kind, reason = architecture(common, change)
    assert kind is None and reason.startswith(f"model.encoder.{name}: ") and "is not that of the decoder" in reason


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_relative_positions_of_one_side(side: str) -> None:
    """T5 has them in both."""
    kind, reason = architecture({"scale_embedding": False}, **{side: T5})
    assert kind is None and reason.startswith("model.encoder.positions: ") and "is not that of the decoder" in reason
