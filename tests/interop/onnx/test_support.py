"""Models of which there are no graphs; test_exporting.py has the refusals of runs."""

from __future__ import annotations

from typing import Any

import pytest

from weft.interop.onnx.support import unsupported
from weft.recipe import ModelSettings

LSTM, TRANSFORMER = {"kind": "lstm"}, {"kind": "transformer"}
CASES: dict[str, tuple[dict[str, Any], str | None]] = {
    "recurrent": ({"encoder": LSTM, "decoder": LSTM}, None),
    "rotary": ({"encoder": TRANSFORMER, "decoder": {**TRANSFORMER, "positions": "rotary"}}, None),
    "language model": ({"kind": "language_model", "decoder": TRANSFORMER}, "model.kind: 'language_model' is not"),
    "columns": (
        {"encoder": TRANSFORMER, "decoder": TRANSFORMER, "sources": {"count": 2, "attention": "parallel"}},
        "model.sources.attention: 'parallel' is not exported to ONNX with a Transformer decoder",
    ),
    "copying": ({"encoder": LSTM, "decoder": LSTM, "copy": True}, "model.copy: copying is not exported to ONNX"),
}


@pytest.mark.parametrize("case", CASES)
def test_models(case: str) -> None:
    model, message = CASES[case]
    reason = unsupported(ModelSettings.model_validate(model))
    assert reason is None if message is None else (reason or "").startswith(message)
