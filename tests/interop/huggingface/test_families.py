"""Which models of Hugging Face are imported, by their config.json."""

from __future__ import annotations

import re
from typing import Any

import pytest

from weft.errors import CheckpointError
from weft.interop.huggingface.configuration import Configuration
from weft.interop.huggingface.families import FAMILIES, check_family

NEUTRAL = {"is_encoder_decoder": True, "quantization_config": None, "pruned_heads": {}, "auto_map": None}


@pytest.mark.parametrize("kind", FAMILIES)
def test_imported(kind: str) -> None:
    assert check_family(Configuration({"model_type": kind, **NEUTRAL}, "config.json")) == kind
    assert check_family(Configuration({"model_type": kind}, "config.json")) == kind


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"model_type": None}, "model_type: is missing; weft imports bart, "),
        ({"model_type": "llama"}, "model_type: 'llama' is not imported; weft imports bart, "),
        ({"model_type": ["t5"]}, "model_type: ['t5'] is not imported; weft imports bart, "),
        ({"quantization_config": {"bits": 4}}, "quantization_config: quantized weights are not imported; save the mod"),
        ({"pruned_heads": {"0": [1]}}, "pruned_heads: pruned heads are not imported"),
        ({"auto_map": {"AutoModel": "own.py"}}, "auto_map: the model comes with its own code, which weft does not run"),
        ({"is_encoder_decoder": False}, "is_encoder_decoder: false: weft imports models with an encoder and a decode"),
    ],
)
def test_refused(entries: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=f"^config.json: {re.escape(message)}"):
        check_family(Configuration({"model_type": "t5", **NEUTRAL, **entries}, "config.json"))
