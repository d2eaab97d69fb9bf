"""The suspicion of each pair, and its kind.

By rules, which need no statistics:

    blank        a side is empty
    copied       the sides are equal, or nearly, where few pairs of the corpus are
    duplicate    the pair occurred before
    script       the letters of a side are of another script than those of nearly all pairs
    numbers      the numbers differ, where they seldom do

By numbers, each of which becomes a robust z-score among all pairs of the corpus:

    misaligned   the sides say little about each other's words (`weft.pairs.cleaning.word_evidence`)
    cut          one side is short for the other, or the last words of one have no counterparts

The suspicion is the sum of the positive z-scores, and what the rule adds. A kind that more than a fifth of the corpus
has is how its pairs are, and not suspicious: copies in a corpus of spelling corrections, for example.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from weft.data.filtering.unicode_scripts import SCRIPTS, code_points, letter_scripts
from weft.data.pairs import Pair, is_blank
from weft.pairs.cleaning.word_evidence import word_evidence

RULES = {"blank": 100.0, "copied": 30.0, "duplicate": 6.0, "script": 12.0, "numbers": 4.0}
"""The suspicion that each rule adds."""
KINDS = (*RULES, "misaligned", "cut")
USUAL = 0.2
"""The share of pairs from which on a rule is off."""
TAIL = 0.4
"""The share of the words of a side that are its end."""
COPIED = 0.8
"""The share of words in common of a copy."""
LARGEST = 10.0
"""The largest z-score that counts."""
NUMBER = re.compile(r"\d+")


class Suspect(NamedTuple):
    """A pair with its suspicion."""

    number: int
    """The position of the pair in the corpus, from 0."""
    suspicion: float
    kind: str
    """The first rule that it breaks, otherwise the kind with the larger score."""
    reason: str


def rank_suspects(
    pairs: Sequence[Pair], *, seed: int = 1, on_progress: Callable[[str], None] = lambda _: None
) -> list[Suspect]:
    """All pairs, the most suspicious first."""
    if not pairs:
        return []
    by_rule = _rules(pairs)
    forward, backward = word_evidence(pairs, seed=seed, on_progress=on_progress)
    evidence = np.array([[_mean(row) for row in side] for side in (forward, backward)])
    tails = np.array([[_mean(row[-math.ceil(TAIL * len(row)) :]) for row in side] for side in (forward, backward)])
    ratios = np.array([math.log((len(pair.target) + 3) / (len(pair.source) + 3)) for pair in pairs])
    scores = {
        "misaligned": sum(_z_scores(-side) for side in evidence),
        "cut": _z_scores(np.abs(ratios - np.median(ratios))) + _z_scores(-tails.min(0)),
    }
    reasons = {
        "misaligned": lambda row: f"log-likelihood ratio per word {evidence[0][row]:.2f} and {evidence[1][row]:.2f}",
        "cut": lambda row: (
            f"length ratio {math.exp(ratios[row]):.2f}, that of the corpus {math.exp(np.median(ratios)):.2f}"
        ),
    }
    suspects: list[Suspect] = []
    for row, rules in enumerate(by_rule):
        parts = {name: float(values[row]) for name, values in scores.items()}
        parts |= {name: RULES[name] for name in rules}
        kind = next((name for name in RULES if name in rules), max(parts, key=parts.__getitem__))
        reason = rules[kind] if kind in rules else reasons[kind](row)
        suspects.append(Suspect(row, sum(parts.values()), kind, reason))
    return sorted(suspects, key=lambda suspect: (-suspect.suspicion, suspect.number))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _z_scores(values: np.ndarray) -> np.ndarray:
    """Robust z-scores, from 0 to `LARGEST`: by the median and the median absolute deviation."""
    median = np.median(values)
    scale = 1.4826 * np.median(np.abs(values - median))
    scores: np.ndarray = np.clip((values - median) / (scale or 1.0), 0.0, LARGEST)
    return scores


def _rules(pairs: Sequence[Pair]) -> list[dict[str, str]]:
    """The rules that each pair breaks, with the reason; rules that the corpus as a whole breaks are off."""
    sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
    scripts = [np.array([_script(text) for text in side]) for side in (sources, targets)]
    usual = [np.bincount(side[side > 0], minlength=1).argmax() for side in scripts]
    seen: dict[tuple[str, str], int] = {}
    broken: list[dict[str, str]] = []
    for row, pair in enumerate(pairs):
        rules: dict[str, str] = {}
        if is_blank(pair):
            rules["blank"] = "a side is empty"
        elif _similarity(pair) >= COPIED:
            rules["copied"] = f"{_similarity(pair):.0%} of the words of a side are in the other"
        first = seen.setdefault((pair.source, pair.target), row)
        if first != row:
            rules["duplicate"] = f"equal to pair {first + 1:,}"
        for side, expected, name in zip(scripts, usual, ("source", "target"), strict=True):
            if expected and side[row] and side[row] != expected:
                rules["script"] = f"the {name} is {SCRIPTS[side[row]]}, not {SCRIPTS[expected]}"
        if sorted(NUMBER.findall(pair.source)) != sorted(NUMBER.findall(pair.target)):
            rules["numbers"] = "the numbers differ"
        broken.append(rules)
    off = {name for name in RULES if sum(name in rules for rules in broken) > USUAL * len(pairs)} - {"blank"}
    return [{name: reason for name, reason in rules.items() if name not in off} for rules in broken]


def _script(text: str) -> int:
    """The index of the script of most letters; 0 if there are none."""
    scripts = letter_scripts(code_points(text[:200]))
    scripts = scripts[scripts > 0]
    return int(np.bincount(scripts).argmax()) if len(scripts) else 0


def _similarity(pair: Pair) -> float:
    """The share of words of the longer side that are in the other."""
    source, target = set(pair.source.casefold().split()), set(pair.target.casefold().split())
    return len(source & target) / max(len(source), len(target), 1)
