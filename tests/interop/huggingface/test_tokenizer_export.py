"""Tokenizers that can be written as files of transformers, and those that cannot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fixtures.pretrained_models import KINDS
from fixtures.pretrained_tokenizers import FAIRSEQ, T5
from fixtures.tokenizers import learn
from weft.errors import RecipeError
from weft.interop.huggingface.tokenizer_export import check_tokenizer, isolated_split, save_tokenizers
from weft.interop.huggingface.tokenizers import read_tokenizers
from weft.text.tokenizer import Tokenizers

LINES = ["the old king reads ü", "a book <X>"]
CHARACTERS: dict[str, tuple[dict[str, Any], bool]] = {
    "plain": ({}, True),
    "lower case": ({"lowercase": True}, True),
    "tags": ({"tags": True}, False),
    "decomposed": ({"decompose": True}, False),
    "symbols": ({"symbols": ["<X>"]}, False),
    "protected": ({"protect": ["<[A-Z]>"]}, False),
}


@pytest.mark.parametrize("case", CHARACTERS)
def test_characters(case: str) -> None:
    options, can_be_written = CHARACTERS[case]
    tokenizer = learn("character", LINES, **options)
    if can_be_written:
        check_tokenizer("tiny", "source", tokenizer)
        return
    with pytest.raises(RecipeError, match=r"^tiny: the target tokenizer knows tags, symbols, protected patterns or"):
        check_tokenizer("tiny", "target", tokenizer)


def test_settings(tmp_path: Path) -> None:
    """tokenizer_config.json names the special tokens and the longest source; a joint tokenizer is written once."""
    tokenizer = learn("bpe", LINES, size=40)
    save_tokenizers(tmp_path, Tokenizers(tokenizer, tokenizer), "marian", padding=tokenizer.size, longest=77)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tokenizer.json", "tokenizer_config.json"]
    assert json.loads((tmp_path / "tokenizer_config.json").read_text("utf-8")) == {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": "<unk>",
        "eos_token": "</s>",
        "pad_token": "<pad>",
        "model_max_length": 77,
        "clean_up_tokenization_spaces": False,
    }


@pytest.mark.parametrize("kind", ["bpe", "unigram", "character"])
def test_a_gap_before_the_padding_token(kind: str, tmp_path: Path) -> None:
    """Two tokenizers have one padding token, so the smaller one gets tokens that are never used."""
    tokenizer = learn(kind, LINES, **({} if kind == "character" else {"size": 40}))
    size = tokenizer.size
    save_tokenizers(tmp_path, Tokenizers(tokenizer, tokenizer), "marian", padding=size + 2, longest=77)
    content = json.loads((tmp_path / "tokenizer.json").read_text("utf-8"))
    vocabulary = content["model"]["vocab"]
    names = sorted(vocabulary, key=vocabulary.get) if isinstance(vocabulary, dict) else [name for name, _ in vocabulary]
    assert names[size:] == [f"<unused_{size}>", f"<unused_{size + 1}>", "<pad>"]


IMPORTED: dict[str, tuple[str, dict[str, Any]]] = {
    "marian": (
        "marian",
        {
            "tokenizer_class": "MarianTokenizer",
            "separate_vocabs": False,
            "source_lang": "source",
            "target_lang": "target",
        },
    ),
    "m2m100": ("m2m_100", {"tokenizer_class": "M2M100Tokenizer", "src_lang": "en", "tgt_lang": "fr"}),
    "nllb": ("m2m_100", {"tokenizer_class": "NllbTokenizer", "additional_special_tokens": ["eng_Latn", "fra_Latn"]}),
    "t5": ("t5", {"tokenizer_class": "T5Tokenizer", "extra_ids": 100}),
    "byt5": ("t5", {"tokenizer_class": "ByT5Tokenizer", "extra_ids": 125}),
    "bart": ("bart", {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "<pad>", "eos_token": "</s>"}),
    "mbart-25": ("mbart", {"tokenizer_class": "MBartTokenizer", "src_lang": "en_XX", "tgt_lang": "ro_RO"}),
    "mbart-50": ("mbart", {"tokenizer_class": "MBart50Tokenizer", "src_lang": "en_XX", "tgt_lang": "fr_XX"}),
    "pegasus": ("pegasus", {"tokenizer_class": "PegasusTokenizer", "offset": 103}),
}


@pytest.mark.parametrize("kind", IMPORTED)
def test_imported_tokenizers(kind: str, tmp_path: Path) -> None:
    """Back as the files of their family; read again, they give the same ids."""
    family, settings = IMPORTED[kind]
    rows, languages = KINDS[kind].rows, KINDS[kind].languages
    roles = FAIRSEQ if family in ("bart", "mbart", "m2m_100") else T5
    config = {"model_type": family, **roles, **KINDS[kind].config}
    KINDS[kind].tokenizer(tmp_path / "original")
    ours = read_tokenizers(tmp_path / "original", config, rows=(rows, rows), languages=languages)
    (tmp_path / "export").mkdir()
    save_tokenizers(tmp_path / "export", ours, family, padding=0, longest=77)
    written = json.loads((tmp_path / "export" / "tokenizer_config.json").read_text("utf-8"))
    assert {**written, **settings, "model_max_length": 77} == written
    again = read_tokenizers(tmp_path / "export", config, rows=(rows, rows), languages=languages)
    assert again.source.encode_batch(LINES) == ours.source.encode_batch(LINES)
    assert again.source.external_ids == ours.source.external_ids and again.frame == ours.frame


SPLIT = {"type": "Split", "pattern": {"String": "x"}, "behavior": "MergedWithPrevious", "invert": False}
STEPS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "before": (SPLIT, {"pattern": {"Regex": "[^x]*x|[^x]+"}, "behavior": "Isolated"}),
    "after": (
        {**SPLIT, "behavior": "MergedWithNext"},
        {"pattern": {"Regex": "x[^x]*|[^x]+"}, "behavior": "Isolated"},
    ),
    "isolated": ({**SPLIT, "behavior": "Isolated"}, {}),
    "punctuation": ({"type": "Punctuation", "behavior": "MergedWithPrevious"}, {}),
    "bytes": ({"type": "ByteLevel", "add_prefix_space": False}, {}),
}


@pytest.mark.parametrize("case", STEPS)
def test_splits_for_transformers_js(case: str) -> None:
    step, changes = STEPS[case]
    assert isolated_split(step) == {**step, **changes}
