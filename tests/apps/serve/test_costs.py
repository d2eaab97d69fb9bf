"""The declared cost of operations, and that what cannot fit is refused before it begins."""

from __future__ import annotations

from typing import Any

import pytest

from apps.serve.servers import Running
from weft.apps.serve import worker
from weft.apps.serve.costs import (
    KNOWN_BYTES,
    OVERHEAD,
    Cost,
    CostError,
    Lengths,
    Limits,
    ModelShape,
    check,
    check_time,
    estimated_lengths,
    hypotheses,
)

LONG = "a b c d e " * 490
HEADS = {"encoder": (2, 3), "decoder": (2, 3), "cross": (2, 3)}
TRANSFORMER = ModelShape(1_000, 50, 7, 11, 4, 2, recurrent=False, heads=HEADS)
RECURRENT = ModelShape(1_000, 50, 7, 0, 2, 1, recurrent=True, heads={"cross": (1, 1)})


def test_the_formulas() -> None:
    """Of the table in costs.py, for one text and numbers by hand."""
    lengths = [Lengths(source=5, longest=13, target=4)]
    encoder = Cost(4 * (5 * (8 * 7 + 11) + 2 * 3 * 25), 5 * 1_000 + 2 * 4 * 25 * 7)
    assert TRANSFORMER.encoder(lengths) == encoder
    numbers = 2 * (6 * 50 + 6 * 2 * 13 * 7 + 5 * 7 + 50 * 13)
    step = 1_000 + 50 * 7 + 2 * 4 * (5 + 4) * 7
    assert TRANSFORMER.search(lengths, 2) == encoder + Cost(4 * numbers, 2 * 4 * step + 4 * 5e6)
    states = Cost(4 * 64 * 13**2 * 2 * 7, 0)
    assert TRANSFORMER.exact_search(lengths) == TRANSFORMER.search(lengths, 64) + states
    assert TRANSFORMER.attention(lengths, 2, 3) == Cost((4 * 2 + 100 * 3) * 5 * 13, 0)
    assert TRANSFORMER.weights(lengths[0]) == 6 * (25 + 16 + 20)
    scored = TRANSFORMER.encoder([Lengths(9, 0, 0)]) + Cost(4 * 3 * 50 * 4, 4 * 50 * 7)
    assert TRANSFORMER.score(lengths) == scored
    given = {"target": "x"}
    assert TRANSFORMER.operation("heads", given, lengths) == scored + Cost(100 * 6 * 61, 0)
    assert TRANSFORMER.operation("walk", given, lengths) == TRANSFORMER.search(lengths, 1)
    exact = TRANSFORMER.operation("walk", {"search": {"kind": "exact"}}, lengths)
    assert exact == TRANSFORMER.exact_search(lengths) + TRANSFORMER.search(lengths, 1)
    assert TRANSFORMER.operation("tokens", {}, lengths) == Cost(0, 0)
    assert TRANSFORMER.operation("neighbors", {}, []).bytes == 4 * 3 * 50 * 7
    assert RECURRENT.encoder(lengths) == Cost(4 * 5 * 8 * 7, 5 * 1_000), "no weights between its tokens"
    assert RECURRENT.exact_search(lengths).bytes < TRANSFORMER.exact_search(lengths).bytes


def test_costs_grow_with_what_is_asked_for() -> None:
    """In the lengths, the beam, the outputs, and with attention."""
    small = {"search": {"kind": "beam", "size": 2}, "n_best": 1}
    lengths = [Lengths(5, 13, 4)]
    least = TRANSFORMER.operation("translate", small, lengths)
    for payload, texts in (
        (small, lengths * 2),
        (small, [Lengths(6, 13, 5)]),
        ({**small, "search": {"kind": "beam", "size": 3}}, lengths),
        ({**small, "n_best": 3}, lengths),
        ({**small, "search": {"kind": "exact"}}, lengths),
    ):
        cost = TRANSFORMER.operation("translate", payload, texts)
        assert cost.bytes > least.bytes and cost.multiplications > least.multiplications
    assert TRANSFORMER.operation("stream", {**small, "attention": True}, lengths).bytes > least.bytes
    searched = TRANSFORMER.operation("heads", small, lengths)
    assert searched.bytes > TRANSFORMER.operation("heads", {**small, "target": "x"}, lengths).bytes


@pytest.mark.parametrize(
    ("search", "n_best", "count"),
    [
        ({}, 1, 1),
        ({"kind": "greedy"}, 3, 3),
        ({"kind": "beam", "size": 5}, 1, 5),
        ({"kind": "beam", "size": 5}, 6, 6),
        ({"kind": "mbr", "samples": 9, "size": 50}, 1, 9),
        ({"kind": "sample", "samples": 9}, 2, 2),
    ],
)
def test_hypotheses_of_a_search(search: dict[str, Any], n_best: int, count: int) -> None:
    assert hypotheses(search, n_best) == count


@pytest.mark.parametrize(
    ("payload", "limits", "error"),
    [
        ({}, Limits(weights=1, exact_tokens=1), None),
        ({"attention": True, "n_best": 3}, Limits(weights=3 * 2 * 12), None),
        ({"attention": True, "n_best": 3}, Limits(weights=71), "3 outputs for 6 tokens: about 72 attention weights"),
        ({"search": {"kind": "exact"}}, Limits(exact_tokens=3), None),
        ({"search": {"kind": "exact"}}, Limits(exact_tokens=2), "exact: a text of 3 tokens; at most 2 are searched"),
        ({"search": {"kind": "exact"}}, Limits(), None),
        ({}, Limits(memory=1e9), None),
        ({}, Limits(memory=OVERHEAD), "translate: 6 source tokens would need about 8 MB; at most 8 MB are available"),
    ],
)
def test_what_is_refused(payload: Any, limits: Limits, error: str | None) -> None:
    lengths = [Lengths(3, 9, 4)] * 2
    if error is None:
        assert check("translate", payload, lengths, TRANSFORMER, limits).bytes > OVERHEAD
    else:
        with pytest.raises(CostError, match=error):
            check("translate", payload, lengths, TRANSFORMER, limits)


def test_all_heads_of_a_text() -> None:
    lengths = [Lengths(3, 9, 4)]
    weights = 6 * (9 + 16 + 12)
    check("heads", {}, lengths, TRANSFORMER, Limits(weights=weights))
    with pytest.raises(
        CostError, match="all heads for 3 source and 4 target tokens: about 222 attention weights; at m"
    ):
        check("heads", {}, lengths, TRANSFORMER, Limits(weights=weights - 1))


def test_time() -> None:
    """By the speed so far; while that is unknown, and without a limit, nothing is refused."""
    check_time("heads", Cost(0, 1e12), None, Limits(seconds=1))
    check_time("heads", Cost(0, 1e12), 1e3, Limits())
    check_time("heads", Cost(0, 1e3), 1e3, Limits(seconds=1))
    with pytest.raises(CostError, match="heads: would take about 2 seconds; a request may take 1 seconds; send less"):
        check_time("heads", Cost(0, 2e3), 1e3, Limits(seconds=1))


def test_lengths_by_characters() -> None:
    longest = lambda source: 2 * source + 10  # noqa: E731
    assert estimated_lengths(["a" * 10, ""], 0.5, {}, longest) == [Lengths(6, 22, 6), Lengths(1, 12, 1)]
    assert estimated_lengths(["a" * 10], 0.5, {"max_length": 4, "min_length": 9}, longest) == [Lengths(6, 4, 4)]
    assert estimated_lengths(["a" * 10], 0.5, {"min_length": 9}, longest) == [Lengths(6, 22, 9)]


def test_the_status() -> None:
    assert worker.status_of(CostError("a")) == (413, "a")


def test_what_a_service_refuses(running: Running) -> None:
    """Each with the reason and the limit, before it begins; others in the same batch are answered."""
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


def test_a_glossary_and_a_memory_cost_by_their_characters() -> None:
    plain = {"search": {"kind": "beam", "size": 2}, "n_best": 1}
    known = {**plain, "glossary": "a\tb", "memory": "ab\tcd"}
    lengths = [Lengths(5, 13, 4)]
    more = (
        TRANSFORMER.operation("translate", known, lengths).bytes
        - TRANSFORMER.operation("translate", plain, lengths).bytes
    )
    assert more == KNOWN_BYTES * 8
