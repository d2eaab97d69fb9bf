"""The operations of a worker with the other engines of a CPU: eight-bit products and CTranslate2."""

from __future__ import annotations

import io
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import weft
from weft.serve import operations
from weft.serve.worker import Worker
from weft.translation.translator import Translator

LINES = ["a b c", "b", "d a a", "c d", "a b c d a b", "d d", "b c", "a"]


def loaded(run: Path, **config: Any) -> Translator:
    """What a worker of a service loads."""
    one = Worker(io.BytesIO(), io.BytesIO())
    one.config = {"runs": [str(run)], "device": "cpu", "threads": 1, **config}
    return one._load()


def texts(translator: Translator, lines: list[str], **payload: Any) -> list[str]:
    request = {"texts": lines, "search": {}, "n_best": 1, **payload}
    return [json.loads(record)["text"] for record in operations.translate(translator, request)]


def test_eight_bits_in_two_threads(transformer_run: Path) -> None:
    """As `weft translate --precision int8`, and no search disturbs another."""
    translator = loaded(transformer_run, precision="int8", engine="torch")
    own = weft.load(transformer_run, device="cpu", precision="int8", engine="torch")
    expected = [one.text for one in own.translate_lines(LINES)]
    with ThreadPoolExecutor(2) as pool:
        answers = [pool.submit(texts, translator, LINES) for _ in range(6)]
        assert [answer.result() for answer in answers] == [expected] * 6


def test_ctranslate2(transformer_run: Path) -> None:
    """As `weft translate --engine ctranslate2`; what has to show its steps, or begins with a prefix, by PyTorch."""
    pytest.importorskip("ctranslate2")
    translator = loaded(transformer_run, engine="ctranslate2")
    own = weft.load(transformer_run, device="cpu", engine="ctranslate2")
    search = {"stop": "finished", "size": 2, "no_loops": False}
    assert texts(translator, LINES, search=search) == [one.text for one in own.translate_lines(LINES, **search)]
    events: list[tuple[str, Any]] = []
    payload = {"texts": ["a b c"], "search": search, "n_best": 1}
    operations.stream(translator, payload, lambda name, data: events.append((name, data)), lambda: False)
    assert [name for name, _ in events][:2] == ["start", "step"]
    [text] = texts(translator, ["a b c"], search=search)
    assert events[-1][1]["translation"]["text"] == text
    [prefixed] = texts(translator, ["a b c"], search=search, prefix="d")
    assert prefixed.startswith("d")
    [traced] = operations.translate(translator, {**payload, "trace": True})
    assert json.loads(traced)["trace"]["steps"]
