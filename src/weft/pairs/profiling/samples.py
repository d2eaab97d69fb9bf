"""Samples of pairs of any number: evenly spaced ones, and all pairs of some sources."""

from __future__ import annotations

from dataclasses import dataclass, field

from weft.data.pairs import text_hashes
from weft.data.splitting import Part, SplitShares, source_hashes

SAMPLE_PAIRS = 10_000
SAMPLE_CHARACTERS = 4_000_000


@dataclass
class EvenSample:
    """Every k-th pair in order; k doubles when there are too many, so that any number of pairs is covered evenly."""

    max_pairs: int = SAMPLE_PAIRS
    max_characters: int = SAMPLE_CHARACTERS
    pairs: list[tuple[str, str]] = field(default_factory=list)
    seen: int = 0
    _stride: int = 1
    _characters: int = 0

    def add(self, source: str, target: str) -> None:
        if self.seen % self._stride == 0:
            self.pairs.append((source, target))
            self._characters += len(source) + len(target)
            while len(self.pairs) > 1 and (len(self.pairs) > self.max_pairs or self._characters > self.max_characters):
                self.pairs = self.pairs[::2]
                self._stride *= 2
                self._characters = sum(len(first) + len(second) for first, second in self.pairs)
        self.seen += 1


@dataclass
class SourceSample:
    """All pairs of some sources: those with the smallest hashes. Half of them go when there are too many pairs.

    The hashes are those that corpora are split by (`weft.data.splitting`).
    """

    max_pairs: int = 4 * SAMPLE_PAIRS
    limit: int = 1 << 64
    """Sources with a smaller hash are kept."""
    seen: int = 0
    """All pairs that were added, kept or not."""
    targets: dict[int, list[int]] = field(default_factory=dict)
    """The hashes of the targets of each source."""
    _pairs: int = 0

    def add(self, source: str, target: str) -> None:
        self.seen += 1
        source_hash = source_hashes((source,))[0]
        if source_hash >= self.limit:
            return
        self.targets.setdefault(source_hash, []).append(text_hashes((target,))[0])
        self._pairs += 1
        while self._pairs > self.max_pairs and len(self.targets) > 1:
            self.limit //= 2
            self.targets = {key: values for key, values in self.targets.items() if key < self.limit}
            self._pairs = sum(map(len, self.targets.values()))

    @property
    def duplicates(self) -> float:
        """The share of pairs that repeat an earlier pair."""
        return sum(len(values) - len(set(values)) for values in self.targets.values()) / max(1, self._pairs)

    @property
    def several_targets(self) -> float:
        """The share of sources that have more than one different target."""
        return sum(len(set(values)) > 1 for values in self.targets.values()) / max(1, len(self.targets))

    @property
    def targets_per_source(self) -> float:
        return sum(len(set(values)) for values in self.targets.values()) / max(1, len(self.targets))

    def part_sizes(self, shares: SplitShares) -> dict[Part, int]:
        """The number of added pairs in each part: exact, as long as the held-out ones were kept."""
        sizes: dict[Part, int] = {"train": 0, "valid": 0, "test": 0}
        if sum(shares) * 2**64 > self.limit:
            sizes |= {"valid": round(shares.valid * self.seen), "test": round(shares.test * self.seen)}
        else:
            for source_hash, targets in self.targets.items():
                sizes[shares.part_of(source_hash)] += len(targets)
        sizes["train"] = self.seen - sizes["valid"] - sizes["test"]
        return sizes

    def overlap(self, other: SourceSample) -> float:
        """The share of the pairs of another sample whose source is in this one; of the sources that both would keep."""
        limit = min(self.limit, other.limit)
        compared = {key: len(values) for key, values in other.targets.items() if key < limit}
        return sum(count for key, count in compared.items() if key in self.targets) / max(1, sum(compared.values()))

    def target_overlap(self, other: SourceSample) -> float | None:
        """The share of the pairs of another sample whose target is in this one; None if this is not of all pairs."""
        if self.limit < 1 << 64:
            return None
        known = {target for targets in self.targets.values() for target in targets}
        compared = [target in known for targets in other.targets.values() for target in targets]
        return sum(compared) / max(1, len(compared))
