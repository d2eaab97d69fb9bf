"""Statistics of a corpus: lengths, scripts, duplicates and a few samples, of a stream of pairs of any size.

Memory is bounded: histograms of lengths, one counter for each character of Unicode, and eight bytes per pair and
source for finding duplicates, up to a number of pairs (20 million: 320 MB); after that duplicates are no longer
counted, and the statistics say so. All else is exact. Samples are the pairs with the smallest seeded hashes: the same
for any order of the corpus, and no pair twice.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from weft.data.filtering.length_histogram import PERCENTILES, LengthHistogram
from weft.data.filtering.unicode_scripts import SCRIPTS, code_points, letter_scripts
from weft.data.pairs import Pair, pair_hashes, text_hashes

MAX_COMPARED = 20_000_000
RATIO_SCALE = 100
"""Length ratios are counted in hundredths, rounded."""
SHOWN_LETTERS = 10


class Sample(NamedTuple):
    """A pair and its location: ``train.tsv:17``; "" if it is not known."""

    where: str
    pair: Pair


@dataclass
class SideStatistics:
    """One side of a corpus."""

    blank: int = 0
    words: LengthHistogram = field(default_factory=LengthHistogram)
    characters: LengthHistogram = field(default_factory=LengthHistogram)
    character_counts: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    """Frequency of each character, by its code point."""

    def add(self, texts: list[str]) -> np.ndarray:
        """Count some texts; how many words each has."""
        words = np.fromiter((len(text.split()) for text in texts), np.int64, len(texts))
        self.blank += int((words == 0).sum())
        self.words.add(words)
        self.characters.add(np.fromiter(map(len, texts), np.int64, len(texts)))
        counts = np.bincount(code_points("".join(texts)))
        missing = len(counts) - len(self.character_counts)
        if missing > 0:
            self.character_counts = np.concatenate([self.character_counts, np.zeros(missing, np.int64)])
        self.character_counts[: len(counts)] += counts
        return words

    def scripts(self) -> dict[str, float]:
        """The share of each script among the letters, the largest first."""
        codes = np.flatnonzero(self.character_counts)
        counts = np.bincount(letter_scripts(codes), weights=self.character_counts[codes], minlength=len(SCRIPTS))
        counts[0] = 0  # not letters, or letters of several scripts
        order = np.argsort(-counts, kind="stable")
        return {SCRIPTS[script]: float(counts[script] / counts.sum()) for script in order if counts[script]}

    def foreign_letters(self) -> dict[str, int]:
        """The most frequent letters that are not of the main script, and how often each occurs."""
        codes = np.flatnonzero(self.character_counts)
        scripts = letter_scripts(codes)
        main = next(iter(self.scripts()), "")
        foreign = codes[(scripts > 0) & (scripts != SCRIPTS.index(main))] if main else codes[:0]
        order = np.argsort(-self.character_counts[foreign], kind="stable")[:SHOWN_LETTERS]
        return {chr(code): int(self.character_counts[code]) for code in foreign[order]}

    def record(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return {
            "blank": self.blank,
            "words": self.words.record(),
            "characters": self.characters.record(),
            "distinct_characters": int(np.count_nonzero(self.character_counts)),
            "scripts": {name: round(share, 6) for name, share in self.scripts().items()},
            "foreign_letters": self.foreign_letters(),
        }


class CorpusStatistics:
    """Counts pairs as they come (`add`); every statistic can be read at any time."""

    def __init__(self, *, samples: int = 5, seed: int = 1, max_compared: int = MAX_COMPARED) -> None:
        self.pairs = 0
        self.identical = 0
        self.source, self.target = SideStatistics(), SideStatistics()
        self.max_compared = max_compared
        self._ratios = LengthHistogram()
        self._key = str(seed).encode()
        self._pair_hashes, self._source_hashes = array("Q"), array("Q")
        self._max_samples = samples
        self._samples: dict[int, Sample] = {}

    def add(self, pairs: Sequence[Pair], *, name: str = "", lines: Sequence[int] = ()) -> None:
        """Count some more pairs; samples are located by the file's `name` and the `lines` of these pairs in it."""
        sources, targets = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        source_words, target_words = self.source.add(sources), self.target.add(targets)
        shorter, longer = np.minimum(source_words, target_words), np.maximum(source_words, target_words)
        not_blank = shorter > 0
        self._ratios.add(np.rint(longer[not_blank] * RATIO_SCALE / shorter[not_blank]).astype(np.int64))
        self.identical += sum(a.strip() == b.strip() for a, b in zip(sources, targets, strict=True))
        hashes = pair_hashes(pairs, self._key)
        remaining = max(0, self.max_compared - self.pairs)
        self._pair_hashes.extend(hashes[:remaining])
        self._source_hashes.extend(text_hashes(sources[:remaining]))
        self._sample(pairs, hashes, name, lines)
        self.pairs += len(pairs)

    @property
    def compared(self) -> int:
        """Number of pairs, from the first on, that were compared to find duplicates."""
        return len(self._pair_hashes)

    def duplicate_pairs(self) -> int:
        """Pairs that occurred before, among those compared."""
        return _repetitions(self._pair_hashes)

    def duplicate_sources(self) -> int:
        """Sources that occurred before, with the same target or another."""
        return _repetitions(self._source_hashes)

    def ratio(self, percent: float) -> float:
        """A percentile of the length ratios, in words: longer side over shorter side."""
        return self._ratios.percentile(percent) / RATIO_SCALE

    @property
    def mean_ratio(self) -> float:
        """The mean of longer side over shorter side, of pairs without a blank side."""
        return self._ratios.mean / RATIO_SCALE

    @property
    def max_ratio(self) -> float:
        return self._ratios.max / RATIO_SCALE

    def samples(self) -> list[Sample]:
        """A few pairs."""
        return [self._samples[value] for value in sorted(self._samples)]

    def record(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return {
            "pairs": self.pairs,
            "identical": self.identical,
            "duplicates": {
                "compared": self.compared,
                "pairs": self.duplicate_pairs(),
                "sources": self.duplicate_sources(),
            },
            "ratio": {
                "mean": round(self.mean_ratio, 3),
                **{f"p{percent}": self.ratio(percent) for percent in PERCENTILES},
                "max": self.max_ratio,
            },
            "source": self.source.record(),
            "target": self.target.record(),
            "samples": [
                {"where": where, "source": pair.source, "target": pair.target} for where, pair in self.samples()
            ],
        }

    def _sample(self, pairs: Sequence[Pair], hashes: list[int], name: str, lines: Sequence[int]) -> None:
        """Keep the pairs with the smallest hashes."""
        bound = max(self._samples) if len(self._samples) >= self._max_samples and self._samples else 1 << 64
        for index, value in enumerate(hashes):
            if value < bound and self._max_samples:
                where = f"{name}:{lines[index]}" if lines else name
                self._samples.setdefault(value, Sample(where, pairs[index]))
                if len(self._samples) > self._max_samples:
                    del self._samples[max(self._samples)]
                    bound = max(self._samples)


def _repetitions(hashes: array[int]) -> int:
    """Number of repeated values. Sorts the array in place: its order does not matter."""
    if not hashes:
        return 0
    values = np.frombuffer(hashes, np.uint64)
    values.sort()
    step = 1 << 20
    return sum(
        int(np.count_nonzero(np.diff(values[start : start + step + 1]) == 0)) for start in range(0, len(values), step)
    )
