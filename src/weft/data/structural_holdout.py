"""Training pairs that are held out for their structure: combinations of source tokens, and long targets.

Pairs that are held out by chance are like those that are trained on, and say nothing about sources whose parts are
known but not together, nor about longer outputs. A structural cut removes *all* pairs with some combinations of
adjacent source tokens, and all pairs with the longest targets (Lake & Baroni 2018; Csordás et al. 2021). Which
combinations these are, their hashes decide: the cut is the same on every machine, whatever the order of the pairs.

Tokens are what is between white space. Sources of one token have no combinations, and targets of one token no lengths.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from weft.data.pairs import Pair, text_hashes

SIZES = (2, 3)
"""Adjacent tokens in a combination."""
LEARNED_FROM = 100_000
"""Pairs that a cut is learned from: the first of a corpus."""
KEPT_USES = 0.5
"""The share of the pairs with a token that must be left to train on."""
_KEY = b"weft structure"

Combination = tuple[str, ...]


def combinations(tokens: Sequence[str]) -> set[Combination]:
    """The combinations of adjacent tokens in a text."""
    return {tuple(tokens[start : start + size]) for size in SIZES for start in range(len(tokens) - size + 1)}


class StructuralCut(NamedTuple):
    """The rule for pairs that are held out for their structure."""

    combinations: frozenset[Combination] = frozenset()
    """Sources that contain one of these are held out."""
    max_target: int | None = None
    """Targets of more tokens are held out; None: of any length are trained on."""

    def holds_out(self, pair: Pair) -> bool:
        """Whether a pair is not to be trained on."""
        if self.max_target is not None and len(pair.target.split()) > self.max_target:
            return True
        return bool(self.combinations) and not self.combinations.isdisjoint(combinations(pair.source.split()))


NO_CUT = StructuralCut()
"""Nothing is held out."""


def learn_cut(pairs: Iterable[Pair], share: float) -> StructuralCut:
    """A cut that holds out at most ``share`` of the pairs: one half for their combinations, one for their lengths."""
    sample = list(islice(pairs, LEARNED_FROM))
    limit = int(share / 2 * len(sample))
    chosen = frozenset(_choose(_uses(pair.source.split() for pair in sample), limit))
    return StructuralCut(chosen, _longest_kept([len(pair.target.split()) for pair in sample], limit))


def _longest_kept(lengths: Sequence[int], limit: int) -> int | None:
    """The smallest length that at most ``limit`` texts exceed; None if no text does."""
    ordered = sorted(lengths, reverse=True)
    longest = ordered[limit] if limit < len(ordered) else 0
    return longest if ordered and ordered[0] > longest else None


class _Uses(NamedTuple):
    """The texts of each combination, and the number of texts of each token."""

    texts: dict[Combination, list[int]]
    tokens: Counter[str]


def _uses(texts: Iterable[Sequence[str]]) -> _Uses:
    uses = _Uses({}, Counter())
    for number, tokens in enumerate(texts):
        uses.tokens.update(set(tokens))
        for combination in combinations(tokens):
            uses.texts.setdefault(combination, []).append(number)
    return uses


def _choose(uses: _Uses, limit: int) -> Iterator[Combination]:
    """Combinations in the order of their hashes, as long as at most ``limit`` texts have one of them.

    One is passed over if too few texts with one of its tokens would be left, or if it is in a single text: nothing
    about that text is known to be a combination that recurs.
    """
    held_out: set[int] = set()
    lost: Counter[str] = Counter()
    recurring = [combination for combination, texts in uses.texts.items() if len(texts) > 1]
    hashes = dict(zip(recurring, text_hashes(map(" ".join, recurring), _KEY), strict=True))
    for combination in sorted(recurring, key=lambda known: (hashes[known], known)):
        texts = uses.texts[combination]
        new = [number for number in texts if number not in held_out]
        if len(held_out) + len(new) > limit:
            continue
        if any(lost[token] + len(new) > (1 - KEPT_USES) * uses.tokens[token] for token in combination):
            continue
        held_out.update(new)
        lost.update({token: len(new) for token in combination})
        yield combination
