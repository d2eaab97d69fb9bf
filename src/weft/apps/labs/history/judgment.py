"""The claims that the history makes, judged from what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any, NamedTuple

from weft.apps.labs.history.models import BY_KEY
from weft.apps.labs.history.task import LENGTHS, LONGEST, MAX_WORDS
from weft.apps.labs.intervals import mean_points, percent, points
from weft.apps.labs.verdicts import Verdict, above, judge

Results = dict[str, list[dict[str, Any]]]
"""Measurements by model and seed."""


class JudgedClaim(NamedTuple):
    """A claim and whether it held."""

    claim: str
    verdict: Verdict


def judge_history(results: Results, diagonal: Sequence[float]) -> list[JudgedClaim]:
    """Every claim whose models were measured."""
    claims = []
    if {"cho2014", "bahdanau2015"} <= set(results):
        claims.append(_bottleneck(results))
    if attending := [key for key, rows in results.items() if rows[0]["error"] is not None]:
        claims.append(_alignment(results, attending, diagonal))
    if {"luong2015", "transformer2017"} <= set(results):
        claims.append(
            _compared(
                "After the same number of updates, the Transformer does better than recurrent attention",
                results,
                "luong2015",
                "transformer2017",
            )
        )
    if {"transformer2017", "today"} <= set(results):
        claims.append(
            _compared(
                "After the same number of updates, today's parts do better than those of 2017",
                results,
                "transformer2017",
                "today",
            )
        )
    return claims


def _bottleneck(results: Results) -> JudgedClaim:
    """Attention helps, and more so on long sentences."""
    at_shortest, at_longest = _gains(results, 0), _gains(results, LONGEST)
    short, long = mean_points(at_shortest), mean_points(at_longest)
    checks = [
        above(f"gain of attention at {MAX_WORDS} words, in points", long, 5.0),
        above(f"how much larger it is than at {LENGTHS[0]} words, in points", points(at_shortest, at_longest)),
    ]
    sentence = (
        f"Attention (Bahdanau 2015 less Cho 2014) changes exact match by {short.text('points')} at {LENGTHS[0]} words "
        f"and by {long.text('points')} at {MAX_WORDS} words."
    )
    return JudgedClaim(
        "Attention does better than one vector, and gains more on longer sentences", judge(checks, sentence)
    )


def _gains(results: Results, index: int) -> list[float]:
    """The gain of attention at a length, by seed."""
    pairs = zip(results["cho2014"], results["bahdanau2015"], strict=True)
    return [after["exact"][index] - before["exact"][index] for before, after in pairs]


def _alignment(results: Results, keys: list[str], diagonal: Sequence[float]) -> JudgedClaim:
    """Every attention agrees with the word links better than the diagonal."""
    gains = {key: points([row["error"] for row in results[key]], diagonal) for key in keys}
    checks = [
        above(f"error rate of the diagonal less {BY_KEY[key].name}, in points", gain) for key, gain in gains.items()
    ]
    rates = {BY_KEY[key].name: percent([row["error"] for row in results[key]]) for key in keys}
    listed = ", ".join(f"{name} {rate.text('%')}" for name, rate in rates.items())
    sentence = f"Alignment error rates: the diagonal {fmean(diagonal):.1f} %, {listed}; all should beat the diagonal."
    return JudgedClaim(
        "Every attention, the mean over its heads, aligns words better than the diagonal", judge(checks, sentence)
    )


def _compared(claim: str, results: Results, first: str, second: str) -> JudgedClaim:
    """Whether one model is more accurate than another with the same number of updates."""
    means = [[fmean(row["exact"]) for row in results[key]] for key in (first, second)]
    gain = points(*means)
    names = BY_KEY[second].name, BY_KEY[first].name
    check = above(f"exact match of {names[0]} less {names[1]}, mean over lengths, in points", gain)
    sentence = f"Exact match of {names[0]} less {names[1]}, after the same number of updates: {gain.text('points')}."
    return JudgedClaim(claim, judge([check], sentence))
