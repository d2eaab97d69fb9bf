"""The suspicion of each pair, and its kind.

By rules, which need no statistics:

    blank        a side is empty
    copied       the sides are equal, or nearly, where few pairs of the corpus are
    duplicate    the pair occurred before
    script       the letters of a side are of another script than those of nearly all pairs
    numbers      the numbers differ, where they seldom do

By the models of `weft.pairs.cleaning.damages`, which give the log-odds of each kind:

    misaligned   the sides say little about each other's words
    cut          one side is short for the other, or the last words of one have no counterparts

The suspicion of a pair that breaks no rule is the logarithm of the sum of these odds: 0 where it looks as much like a
damaged pair as like the others. Rules add to it, the more the fewer pairs break them; one that more than a fifth of the
corpus breaks is off: copies are normal in a corpus of spelling corrections, for example.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from weft.data.filtering.unicode_scripts import SCRIPTS, code_points, letter_scripts
from weft.data.pairs import Pair, is_blank
from weft.pairs.cleaning.damages import DAMAGES, damage_scores
from weft.pairs.cleaning.word_evidence import judged_halves, shortened

RULES = {"blank": 100.0, "copied": 30.0, "duplicate": 6.0, "script": 12.0, "numbers": 4.0}
"""The most that each rule adds to the suspicion."""
WRONG = ("blank", "copied")
"""Rules whose pairs are wrong for certain. The others add log(`USUAL` / share of pairs that break them): the rarer, the
more telling."""
KINDS = (*RULES, *DAMAGES)
USUAL = 0.2
"""The share of pairs from which on a rule is off."""
COPIED = 0.8
"""The share of words in common of a copy."""
JAPANESE = [SCRIPTS.index(name) for name in ("Han", "Hiragana", "Katakana")]
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
    pairs: Sequence[Pair], *, seed: int = 1, on_progress: Callable[[], None] = lambda: None
) -> list[Suspect]:
    """All pairs, the most suspicious first. ``on_progress``: called before each of four models."""
    if not pairs:
        return []
    by_rule = _rules(pairs)
    added = _added(by_rule)
    scores = _damage_scores(pairs, by_rule, seed, on_progress)
    ratios = np.array([math.log((len(pair.target) + 3) / (len(pair.source) + 3)) for pair in pairs])
    usual = math.exp(np.median(ratios))
    suspects: list[Suspect] = []
    for row, rules in enumerate(by_rule):
        misaligned, cut = scores[row].tolist()
        learned = float(np.logaddexp(misaligned, cut))
        if rules:
            kind = next(name for name in RULES if name in rules)
            suspicion, reason = learned + sum(added[name] for name in rules), rules[kind]
        elif misaligned >= cut:
            suspicion, kind, reason = learned, "misaligned", "the sides say little about each other's words"
        else:
            ratio = f"length ratio {math.exp(ratios[row]):.2f}, that of the corpus {usual:.2f}"
            suspicion, kind, reason = learned, "cut", f"words at the end of a side lack counterparts; {ratio}"
        suspects.append(Suspect(row, suspicion, kind, reason))
    return sorted(suspects, key=lambda suspect: (-suspect.suspicion, suspect.number))


def _added(by_rule: Sequence[dict[str, str]]) -> dict[str, float]:
    """The suspicion that each rule adds."""
    shares = {name: sum(name in rules for rules in by_rule) / len(by_rule) for name in RULES}
    rarity = {name: math.log(USUAL / share) if share else math.inf for name, share in shares.items()}
    return {name: most if name in WRONG else min(most, max(rarity[name], 0.0)) for name, most in RULES.items()}


def _damage_scores(
    pairs: Sequence[Pair], by_rule: Sequence[dict[str, str]], seed: int, on_progress: Callable[[], None]
) -> np.ndarray:
    """(pairs, 2) the log-odds of each damage; nothing is learned from blank pairs and copies."""
    short = [shortened(pair) for pair in pairs]
    trusted_N = np.array([not rules.keys() & set(WRONG) for rules in by_rule])
    scores = np.zeros((len(pairs), len(DAMAGES)))
    for rows, judge in judged_halves(short, trusted_N, seed=seed, on_progress=on_progress):
        scores[rows] = damage_scores(short, rows, rows[trusted_N[rows]], judge, seed)
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
    """The index of the script of most letters, Japanese ones together; 0 if there are none."""
    scripts = letter_scripts(code_points(text[:200]))
    scripts = scripts[scripts > 0]
    scripts[np.isin(scripts, JAPANESE)] = JAPANESE[0]
    return int(np.bincount(scripts).argmax()) if len(scripts) else 0


def _similarity(pair: Pair) -> float:
    """The share of words of the longer side that are in the other."""
    source, target = set(pair.source.casefold().split()), set(pair.target.casefold().split())
    return len(source & target) / max(len(source), len(target), 1)
