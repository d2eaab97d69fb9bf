"""What an operation would cost, and that it is refused before it begins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import weft
from apps.serve.servers import Running
from weft.apps.serve import worker
from weft.apps.serve.costs import CostError, check_heads, check_search, source_length
from weft.translation.translator import Translator

LONG = "a b c d e " * 490


@pytest.fixture(scope="module")
def transformer(transformer_run: Path) -> Translator:
    return weft.load(transformer_run, device="cpu")


def test_heads(transformer: Translator) -> None:
    """Two layers of two heads: of the encoder S², of the decoder T², across S·T."""
    tokens = source_length(transformer, "a b c")
    payload: dict[str, Any] = {"texts": ["a b c"], "target_ids": [5, 6]}
    weights = 4 * (tokens**2 + 3**2 + 3 * tokens)
    check_heads(transformer, payload, {"max_weights": weights})
    with pytest.raises(CostError, match=rf"{tokens} source and 3 target tokens: about {weights} attention weights; at"):
        check_heads(transformer, payload, {"max_weights": weights - 1})
    for given in ({"target": "a b"}, {}):
        check_heads(transformer, {"texts": ["a b c"], **given}, {"max_weights": 12 * (tokens + 3) ** 2})
        with pytest.raises(CostError):
            check_heads(transformer, {"texts": ["a b c"], **given}, {"max_weights": 3})


@pytest.mark.parametrize(
    ("payload", "limits", "error"),
    [
        ({}, {"max_weights": 1, "max_exact_tokens": 1}, None),
        ({"attention": True, "n_best": 3}, {"max_weights": 3 * 2 * 9}, None),
        (
            {"attention": True, "n_best": 3},
            {"max_weights": 3 * 2 * 9 - 1},
            "3 outputs for 6 tokens: about 54",
        ),
        ({"search": {"kind": "exact"}}, {"max_exact_tokens": 3}, None),
        (
            {"search": {"kind": "exact"}},
            {"max_exact_tokens": 2},
            "exact: a text of 3 tokens; at most 2 are",
        ),
        ({"search": {"kind": "exact"}}, {}, None),
    ],
)
def test_searches(transformer: Translator, payload: Any, limits: Any, error: str | None) -> None:
    assert source_length(transformer, "a b") == 3, "with the end token"
    payload = {"texts": ["a b", "c d"], **payload}
    if error is None:
        check_search(transformer, payload, limits)
    else:
        with pytest.raises(CostError, match=error):
            check_search(transformer, payload, limits)


def test_the_status() -> None:
    assert worker.status_of(CostError("a")) == (413, "a")


def test_what_a_service_refuses(running: Running) -> None:
    """Each with the reason and the limit, and at once; others in the same batch are answered."""
    for path, body, words in (
        ("/api/heads", {"text": LONG, "model": "transformer"}, "at most 5,000,000 are computed"),
        ("/api/translate", {"text": LONG, "search": {"kind": "exact"}}, "at most 200 are searched exactly"),
        (
            "/api/translate",
            {"text": LONG, "n_best": 64, "search": {"size": 64}, "attention": True},
            "at most 5,000,000",
        ),
    ):
        assert words in running.error(413, path, **body)
    [(name, error)] = [
        one for one in running.events(text=LONG, search={"size": 64}, n_best=64) if one[0] not in ("start", "progress")
    ]
    assert name == "error" and "attention weights" in error["error"]
    assert running.translate("a b", search={"kind": "exact"}) and running.translate("a b", attention=True, n_best=4)
