"""To which formats a recipe's model can be exported, in words."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from weft.interop.portability import export_lines, portability
from weft.recipe import Recipe, make_recipe

STACK = {"kind": "transformer"}
T5 = {"kind": "transformer", "positions": "relative", "norm": "rms", "scale_embedding": False}


def recipe(stack: dict[str, Any], tokenizer: dict[str, Any] | None = None, **model: Any) -> Recipe:
    tree = {"embedding": 512, "tie": "all", "encoder": stack, "decoder": stack, **model}
    return make_recipe({"tokenizer": tokenizer or {}, "model": tree})


def test_a_model_that_goes_everywhere() -> None:
    assert export_lines(recipe(STACK)) == [
        "exports to: CTranslate2, ONNX, Hugging Face (PegasusForConditionalGeneration)"
    ]
    two = recipe(STACK, {"joint": False}, tie="target")
    assert export_lines(two) == ["exports to: CTranslate2, ONNX, Hugging Face (PegasusForConditionalGeneration)"]


def test_a_model_without_a_class() -> None:
    assert export_lines(recipe({**STACK, "positions": "rotary"})) == [
        "exports to: CTranslate2, ONNX",
        "no export to Hugging Face: model.encoder.positions: 'rotary': transformers has no sequence-to-sequence model "
        "with them; set model.encoder.positions and model.decoder.positions to 'sinusoidal' for one",
    ]


def test_a_model_that_goes_nowhere() -> None:
    lines = export_lines(recipe(STACK, copy=True))
    assert [line.split(": model.copy: ")[0] for line in lines] == [
        "no export to CTranslate2",
        "no export to ONNX",
        "no export to Hugging Face",
    ]


UNITS: dict[str, tuple[dict[str, Any], str | None]] = {
    "bpe": ({"symbols": ["<2de>"]}, None),
    "words": ({"kind": "word", "split_punctuation": False}, None),
    "punctuation": (
        {"kind": "word"},
        "a source tokenizer of kind 'word' that splits punctuation cannot be written as a tokenizer.json; with "
        "tokenizer.split_punctuation = false it can",
    ),
    "symbols": (
        {"kind": "word", "split_punctuation": False, "symbols": ["<n>"]},
        "the source tokenizer knows tags, symbols, protected patterns or decomposed characters, which a tokenizer.json "
        "of words does not",
    ),
    "characters": ({"kind": "character"}, None),
    "tags": (
        {"kind": "character", "tags": True},
        "the source tokenizer knows tags, symbols, protected patterns or decomposed characters, which a tokenizer.json "
        "of characters does not",
    ),
    "another file": ({"kind": "word", "file": "tokenizer.json"}, None),
}


@pytest.mark.parametrize("case", UNITS)
def test_units(case: str) -> None:
    tokenizer, refusal = UNITS[case]
    stated = {entry.format: entry for entry in portability(recipe(STACK, tokenizer))}
    assert stated["huggingface"].refusal == refusal
    assert stated["huggingface"].name == "Hugging Face (PegasusForConditionalGeneration)"
    assert stated["ctranslate2"].refusal is stated["onnx"].refusal is None


def test_a_target_of_another_kind() -> None:
    """Tags belong to the side of characters."""
    two = {"kind": "bpe", "target_kind": "character", "joint": False, "tags": True}
    *_, huggingface = portability(recipe(STACK, two, tie="target"))
    assert huggingface.refusal is not None and huggingface.refusal.startswith("the target tokenizer knows tags")


def test_t5_has_no_padding_token() -> None:
    *_, huggingface = portability(recipe(T5))
    assert huggingface.refusal == "a padding token cannot be added: T5 has no bias that rules it out as an output"
    start = {"training": {"start": "runs/imported"}}
    tree = {"tie": "all", "embedding": 512, "encoder": T5, "decoder": T5}
    *_, huggingface = portability(make_recipe({"model": tree, **start}))
    assert huggingface.refusal is None  # an imported tokenizer may have one


def test_no_torch_is_imported() -> None:
    program = "import sys, weft.interop.portability; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
