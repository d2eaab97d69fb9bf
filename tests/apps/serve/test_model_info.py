"""What a service says about a model, of every architecture; none is trained."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from weft.apps.serve.model_info import describe, examples, model_info
from weft.fast.steps.quantization import quantize
from weft.models.build import build_model
from weft.recipe import Recipe

Tiny = Callable[[dict[str, Any]], Recipe]
STACK = {"kind": "transformer", "layers": 2, "hidden": 6, "heads": 3, "feed_forward": 5}


def stacks(*sides: str, **changes: Any) -> dict[str, Any]:
    values = {f"model.{side}.{name}": value for side in sides for name, value in {**STACK, **changes}.items()}
    return {"model.embedding": 6, **values}


RECURRENT = {"model.encoder.hidden": 6, "model.decoder.hidden": 5, "model.encoder.layers": 1, "model.decoder.layers": 1}
MODELS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "recurrent": (
        RECURRENT | {"model.attention.score": "additive"},
        {"architecture": "recurrent", "positions": None, "copies": False, "editable": True, "attends": True,
         "has_walk": True, "reads": "text",
         "heads_of": {"encoder": None, "decoder": None, "cross": [1, 1], "copy": None}, "heads": True},
    ),
    "without attention": (
        RECURRENT | {"model.attention.score": "none"},
        {"architecture": "recurrent", "editable": False, "attends": False, "heads": False},
    ),
    "hard attention": (
        RECURRENT | {"model.attention.hard": "first"},
        {"architecture": "hard_attention", "copies": False, "attends": True, "has_walk": False},
    ),
    "copying": (RECURRENT | {"model.copy": True, "tokenizer.joint": True}, {"copies": True}),
    "transformer": (
        stacks("encoder", "decoder", positions="learned"),
        {"architecture": "transformer", "positions": "learned", "has_source": True, "heads": True,
         "heads_of": {"encoder": [2, 3], "decoder": [2, 3], "cross": [2, 3], "copy": None}},
    ),
    "language model": (
        stacks("decoder", positions="rotary") | {"model.kind": "language_model"},
        {"architecture": "language_model", "has_source": False, "attends": False, "positions": "rotary",
         "editable": False},
    ),
}  # fmt: skip


def translator(recipe: Recipe, folder: Path | None = None) -> Any:
    model = build_model(recipe.model, source_size=11, target_size=13)
    tokenizers = SimpleNamespace(source=SimpleNamespace(size=11), target=SimpleNamespace(size=13))
    engine = SimpleNamespace(name="torch", precision="fp32")
    device = torch.device("cpu")
    return SimpleNamespace(
        recipe=recipe, model=model, tokenizers=tokenizers, source_columns=1, engine=engine, device=device, folder=folder
    )


@pytest.mark.parametrize("name", MODELS)
def test_every_architecture(tiny: Tiny, name: str) -> None:
    changes, expected = MODELS[name]
    recipe = tiny(changes)
    served = translator(recipe)
    info = model_info(served)
    assert {key: info[key] for key in expected} == expected
    assert info["parameters"] == sum(weight.numel() for weight in served.model.parameters())
    assert info["vocabulary"] == {"source": 11, "target": 13}
    assert info["search"] == recipe.search.model_dump()
    assert (info["engine"], info["precision"], info["device"]) == ("torch", "fp32", "cpu")
    assert json.dumps(info)


def test_a_quantized_model_is_reported_like_the_model_it_was_made_of(tiny: Tiny) -> None:
    served = translator(tiny(stacks("encoder", "decoder")))
    expected = model_info(served)
    served.model = quantize(served.model)
    found = model_info(served)
    for name in ("architecture", "heads_of", "heads", "editable", "positions"):
        assert found[name] == expected[name]


@pytest.mark.parametrize(("summary", "title"), [("Turns words around.", "Turns words around."), ("", "reverser")])
def test_the_title_is_the_summary_or_the_name(tiny: Tiny, summary: str, title: str) -> None:
    recipe = tiny(RECURRENT).model_copy(update={"summary": summary, "name": "reverser"})
    assert model_info(translator(recipe))["title"] == title


@pytest.mark.parametrize(
    ("changes", "description"),
    [
        (RECURRENT | {"model.encoder.kind": "gru", "model.decoder.kind": "lstm", "model.attention.score": "additive"},
         "GRU encoder, 1 × 6; LSTM decoder, 1 × 5; additive attention"),
        (RECURRENT | {"model.encoder.kind": "gru", "model.decoder.kind": "gru", "model.attention.score": "none"},
         "GRU encoder, 1 × 6; GRU decoder, 1 × 5"),
        (stacks("encoder", "decoder"), "Transformer encoder, 2 × 6; Transformer decoder, 2 × 6"),
        (stacks("decoder") | {"model.kind": "language_model"}, "Transformer decoder, 2 × 6"),
        (RECURRENT | {"model.kind": "ctc"}, "LSTM encoder, 1 × 6; CTC"),
    ],
)  # fmt: skip
def test_a_model_in_a_few_words(tiny: Tiny, changes: dict[str, Any], description: str) -> None:
    assert describe(translator(tiny(changes))) == description


def test_examples_are_those_of_the_folder_unless_they_are_switched_off(tiny: Tiny, tmp_path: Path) -> None:
    (tmp_path / "examples.json").write_text('["a b", "c"]')
    recipe = tiny(RECURRENT)
    assert examples(translator(recipe, tmp_path)) == [{"source": "a b"}, {"source": "c"}]
    assert examples(translator(recipe)) == []
    assert examples(translator(tiny(RECURRENT | {"serve.examples": False}), tmp_path)) == []
