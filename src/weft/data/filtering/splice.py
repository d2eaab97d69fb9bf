"""New words from two words: the first part of one and the last part of another, on both sides of a pair.

    (u c v, u' c' v')  and  (w c z, w' c' z')   →   (u c z, u' c' z')        station, table  →  stable

c → c' are `context` units of the source and the units of the target that they are aligned with: the same ones in both
words, so that neither part has neighbors there that it did not have. Pronunciations and transcriptions follow their
sources unit by unit, and most of what decides about a unit is near it. With few pairs, most combinations of known
parts are missing.

A unit of a source is a character, of syllables of Hangul a letter. The alignment is the most likely one that is
monotonic and gives each source unit up to `MOST_UNITS` target units, by expectation-maximization with the single best
alignment in place of the expectation ("hard EM"):

    p(c' | c) = (n(c, c') + δ) / (n(c) + δ |·|)         n: counts in the alignments of the round before

In the first round, alignments near the diagonal are preferred.
"""

from __future__ import annotations

import math
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import lru_cache
from random import Random
from typing import ClassVar, Literal

from pydantic import Field

from weft.data.filtering.steps import Kept, Step, Unit
from weft.data.pairs import Pair, pair_hashes
from weft.recipe.base import Count, Probability

MOST_UNITS = 3
"""Target units that a source unit is aligned with at most."""
TRIES = 5
"""Places that are drawn at most for a word that is not one of the corpus."""
ROUNDS = 8
SMOOTHING, OUTCOMES = 0.02, 100
"""δ, and the number of outcomes |·| that share it."""
DIAGONAL, OTHER_THAN_ONE = 4.0, 0.5
"""Costs in the first round: of a distance from the diagonal as a share of the target, and of a number of target units
other than one."""
MANY_UNITS = 1.0
"""The cost of the largest number of target units, in all other rounds."""

UNSEEN = ("unseen",) * (MOST_UNITS + 1)
"""A key that no target units of an alignment have."""
NEVER_ALIGNED = {UNSEEN: 0.0}
"""Costs of a unit that is in no alignment: it may be aligned with anything."""

Chunk = tuple[str, tuple[str, ...]]
"""A unit of a source, and the target units that it is aligned with."""


class Splice(Step):
    """Put the last part of another pair in the place of that of a pair, where both have the same aligned units."""

    is_random: ClassVar[bool] = True
    makes_pairs: ClassVar[bool] = True
    kind: Literal["splice"] = Field("splice", description="join the parts of two words where both have the same units")
    probability: Probability = Field(0.5, description="probability that a pair gets the last part of another")
    context: Count = Field(2, description="units at which two words are joined, equal in both")
    unit: Unit = Field("words", description="units of the target: words, or characters")

    def __str__(self) -> str:
        return f"splice: words joined at {self.context} equal units, with probability {self.probability:g}"

    def apply(self, pairs: Sequence[Pair], key: bytes) -> Kept:
        texts = tuple((pair.source, pair.target) for pair in pairs)
        aligned, joints = _joints(texts, self.context, self.unit)
        known, random = {source for source, _ in texts}, Random()
        changed: Kept = []
        for pair, seed, chunks in zip(pairs, pair_hashes(pairs, key), aligned, strict=True):
            random.seed(seed)
            tries = TRIES if chunks is not None and random.random() < self.probability else 0
            drawn = (self._spliced(chunks, joints, aligned, random) for _ in range(tries))
            changed.append(next((Pair(*other) for other in drawn if other and other[0] not in known), pair))
        return changed

    def _spliced(
        self,
        chunks: tuple[Chunk, ...] | None,
        joints: dict[tuple[Chunk, ...], list[tuple[int, int]]],
        aligned: Sequence[tuple[Chunk, ...] | None],
        random: Random,
    ) -> tuple[str, str] | None:
        """The texts of a new pair; None if the words do not differ after the joint that was drawn."""
        if chunks is None or len(chunks) < self.context + 2:
            return None
        start = random.randrange(1, len(chunks) - self.context)
        row, joint = random.choice(joints[chunks[start : start + self.context]])
        other = aligned[row]
        assert other is not None
        if other is chunks or len(other) == joint + self.context:
            return None
        return _texts((*chunks[:start], *other[joint:]), " " if self.unit == "words" else "")


@lru_cache(2)
def _joints(
    texts: tuple[tuple[str, str], ...], context: int, unit: Unit
) -> tuple[list[tuple[Chunk, ...] | None], dict[tuple[Chunk, ...], list[tuple[int, int]]]]:
    """The aligned pairs, and where (row and position) each sequence of ``context`` units is."""
    aligned = align([(_letters(source), target.split() if unit == "words" else [*target]) for source, target in texts])
    joints: dict[tuple[Chunk, ...], list[tuple[int, int]]] = defaultdict(list)
    for row, chunks in enumerate(aligned):
        for start in range(len(chunks or ()) - context + 1):
            joints[chunks[start : start + context]].append((row, start))  # type: ignore[index]
    return aligned, dict(joints)


def _letters(text: str) -> list[str]:
    """The characters of a text, syllables of Hangul as their letters."""
    return [*unicodedata.normalize("NFD", text)]


def _texts(chunks: Sequence[Chunk], separator: str) -> tuple[str, str]:
    source = unicodedata.normalize("NFC", "".join(unit for unit, _ in chunks))
    return source, separator.join(unit for _, units in chunks for unit in units)


def align(pairs: Sequence[tuple[Sequence[str], Sequence[str]]]) -> list[tuple[Chunk, ...] | None]:
    """The most likely monotonic alignment of each pair; None if the target is too long for its source."""
    aligned = [_best_path(source, tuple(target), None) for source, target in pairs]
    for _ in range(ROUNDS - 1):
        costs = _costs(aligned)
        aligned = [_best_path(source, tuple(target), costs) for source, target in pairs]
    return aligned


def _costs(aligned: Sequence[tuple[Chunk, ...] | None]) -> dict[str, dict[tuple[str, ...], float]]:
    """−log p(units | unit) for each unit and what it was aligned with; under `UNSEEN` that of anything else."""
    counts: dict[str, Counter[tuple[str, ...]]] = defaultdict(Counter)
    for chunks in aligned:
        for unit, units in chunks or ():
            counts[unit][units] += 1
    costs = {}
    for unit, seen in counts.items():
        total = math.log(seen.total() + SMOOTHING * OUTCOMES)
        costs[unit] = {units: total - math.log(count + SMOOTHING) for units, count in seen.items()}
        costs[unit][UNSEEN] = total - math.log(SMOOTHING)
    return costs


def _best_path(
    source: Sequence[str], target: tuple[str, ...], costs: dict[str, dict[tuple[str, ...], float]] | None
) -> tuple[Chunk, ...] | None:
    """The cheapest alignment of a pair, by the dynamic program over positions (i, j) of both sides.

    ``costs``: None in the first round.
    """
    best = {0: 0.0}
    steps: list[dict[int, int]] = []
    for i, unit in enumerate(source, 1):
        following: dict[int, float] = {}
        taken: dict[int, int] = {}
        of_unit = None if costs is None else costs.get(unit, NEVER_ALIGNED)
        for j, before in best.items():
            for end in range(j, min(j + MOST_UNITS, len(target)) + 1):
                if of_unit is None:
                    distance = abs(end / max(1, len(target)) - i / len(source))
                    cost = before + DIAGONAL * distance + OTHER_THAN_ONE * (end != j + 1)
                else:
                    cost = before + of_unit.get(target[j:end], of_unit[UNSEEN]) + MANY_UNITS * (end == j + MOST_UNITS)
                if cost < following.get(end, math.inf):
                    following[end], taken[end] = cost, j
        best = following
        steps.append(taken)
    if len(target) not in best or not source:
        return None
    chunks: list[Chunk] = []
    end = len(target)
    for unit, taken in zip(reversed(source), reversed(steps), strict=True):
        chunks.append((unit, target[taken[end] : end]))
        end = taken[end]
    return tuple(reversed(chunks))
