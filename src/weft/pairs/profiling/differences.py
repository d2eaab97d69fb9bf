"""How test pairs, or others, differ from the training pairs: lengths, tokens, combinations of tokens.

Every test set has something new. What chance gives is known from the training pairs alone: the share of sources that
have a token, or a combination, that no other source has. A test set with a clearly larger share asks for
generalization, and validation pairs that are held out by chance do not measure that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from weft.data.structural_holdout import Combination, combinations

MAX_COUNTED = 400_000
"""Different tokens and combinations that are counted; of a corpus with more, only lengths are compared."""
LONGER = 0.05
"""The share of pairs with a side longer than in training from which that is reported."""
BEYOND_CHANCE = 0.05, 2.0
"""New tokens or combinations are reported if their share exceeds that of chance by this much, and this many times."""


@dataclass(frozen=True)
class Novelty:
    """The share of pairs with something that no training pair has."""

    share: float
    by_chance: float
    """The share in training sources, each compared with all others."""
    example: str = ""

    @property
    def is_notable(self) -> bool:
        difference, factor = BEYOND_CHANCE
        return self.share >= self.by_chance + difference and self.share >= factor * self.by_chance


@dataclass(frozen=True)
class Longer:
    """The share of pairs whose side is longer than that of any training pair; lengths are tokens between spaces."""

    share: float
    longest: int
    longest_trained: int

    @property
    def is_notable(self) -> bool:
        return self.share >= LONGER


@dataclass(frozen=True)
class PartDifferences:
    """Differences of the pairs of a part from the training pairs."""

    longer_sources: Longer
    longer_targets: Longer
    new_tokens: Novelty | None
    """A source token that is new; None: the training pairs have too many to be counted."""
    new_combinations: Novelty | None
    """Two or three adjacent source tokens that are known, but not together."""

    def lines(self, name: str) -> list[str]:
        """A line for each notable difference; ``name``: "test pairs"."""
        lines = []
        for side, longer in (("source", self.longer_sources), ("target", self.longer_targets)):
            if longer.is_notable:
                lengths = f"up to {longer.longest:,} tokens, in training {longer.longest_trained:,}"
                lines.append(
                    f"{longer.share:.0%} of the {name} have a longer {side} than any training pair ({lengths})"
                )
        for what, novelty in (
            ("a source token that is not trained on", self.new_tokens),
            ("a new combination of known source tokens", self.new_combinations),
        ):
            if novelty is not None and novelty.is_notable:
                example = f"such as '{novelty.example}'; {novelty.by_chance:.0%} by chance"
                lines.append(f"{novelty.share:.0%} of the {name} have {what} ({example})")
        return lines

    def record(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


@dataclass
class TrainedStructures:
    """The lengths, source tokens and combinations of training pairs; each source counts once."""

    longest_source: int = 0
    longest_target: int = 0
    tokens: Counter[str] = field(default_factory=Counter)
    combinations: Counter[Combination] = field(default_factory=Counter)
    _sources: dict[str, None] = field(default_factory=dict)
    is_counted: bool = True
    """Whether there were few enough tokens and combinations to be counted."""

    def add(self, source: str, target: str) -> None:
        tokens = source.split()
        self.longest_source = max(self.longest_source, len(tokens))
        self.longest_target = max(self.longest_target, len(target.split()))
        if not self.is_counted or source in self._sources:
            return
        self._sources[source] = None
        self.tokens.update(set(tokens))
        self.combinations.update(combinations(tokens))
        if len(self.tokens) + len(self.combinations) > MAX_COUNTED:
            self.is_counted = False
            for counted in (self.tokens, self.combinations, self._sources):
                counted.clear()

    def differences(self, pairs: Iterable[tuple[str, str]]) -> PartDifferences:
        """Differences of other pairs from those that were added."""
        rows = [(source.split(), target.split()) for source, target in pairs]
        sources = [source for source, _ in rows]
        novelties: tuple[Novelty | None, Novelty | None] = None, None
        if self.is_counted:
            trained = [source.split() for source in self._sources]
            novelties = self._new_tokens(sources, trained), self._new_combinations(sources, trained)
        return PartDifferences(
            _longer([len(source) for source in sources], self.longest_source),
            _longer([len(target) for _, target in rows], self.longest_target),
            *novelties,
        )

    def _new_tokens(self, sources: Sequence[list[str]], trained: Sequence[list[str]]) -> Novelty:
        new = [[token for token in source if token not in self.tokens] for source in sources]
        single = sum(any(self.tokens[token] == 1 for token in source) for source in trained)
        return _novelty(new, single / max(1, len(trained)))

    def _new_combinations(self, sources: Sequence[list[str]], trained: Sequence[list[str]]) -> Novelty:
        """The share of texts with new combinations of tokens that are all known; the denominator is all texts."""
        new = []
        for source in sources:
            is_known = all(token in self.tokens for token in source)
            unseen = (known for known in combinations(source) if known not in self.combinations) if is_known else ()
            new.append([" ".join(words) for words in unseen])
        single = sum(
            all(self.tokens[token] > 1 for token in source)
            and any(self.combinations[known] == 1 for known in combinations(source))
            for source in trained
        )
        return _novelty(new, single / max(1, len(trained)))


def _longer(lengths: Sequence[int], longest: int) -> Longer:
    share = sum(length > longest for length in lengths) / max(1, len(lengths))
    return Longer(share, max(lengths, default=0), longest)


def _novelty(new: Sequence[Sequence[str]], by_chance: float) -> Novelty:
    """The share of texts with new items, given in ``new``; the example is the most frequent of the shortest."""
    counts = Counter(item for items in new for item in set(items))
    example = min(counts, key=lambda item: (len(item.split()), -counts[item], item), default="")
    return Novelty(sum(map(bool, new)) / max(1, len(new)), by_chance, example)
