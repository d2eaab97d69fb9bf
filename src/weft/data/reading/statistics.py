"""What is in a corpus: lengths, scripts, duplicates and a few samples, of a stream of pairs of any length.

Memory is bounded: histograms of lengths, one counter for each character of Unicode, and eight bytes a pair and a
source for finding duplicates, up to a number of pairs (20 million: 320 MB); from there on duplicates are no longer
counted, and the description says so. All else is exact. Samples are those pairs whose text, hashed with the seed,
comes first: the same for any order of the corpus, and no pair twice.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from weft.data.filtering.unicode_scripts import SCRIPTS, code_points, letter_scripts
from weft.data.hashing import pair_hashes, text_hashes
from weft.data.pairs import Pair
from weft.data.reading.length_histogram import PERCENTILES, Lengths

Encode = Callable[[list[str]], Sequence[Sequence[int]]]
EXACT_UP_TO = 20_000_000
HUNDREDTHS = 100
"""Length ratios are counted in hundredths, rounded."""


class Sample(NamedTuple):
    """A pair and where it stands: ``train.tsv:17``; "" where that is not known."""

    where: str
    pair: Pair


@dataclass
class SideDescription:
    """One side of a corpus."""

    blank: int = 0
    words: Lengths = field(default_factory=Lengths)
    characters: Lengths = field(default_factory=Lengths)
    tokens: Lengths | None = None
    seen: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    """How often each character is there, by its code point."""

    def add(self, texts: list[str], encode: Encode | None) -> np.ndarray:
        """Count some texts; gives how many words each has."""
        words = np.fromiter((len(text.split()) for text in texts), np.int64, len(texts))
        self.blank += int((words == 0).sum())
        self.words.add(words)
        self.characters.add(np.fromiter(map(len, texts), np.int64, len(texts)))
        found = np.bincount(code_points("".join(texts)))
        if len(found) > len(self.seen):
            self.seen = np.concatenate([self.seen, np.zeros(len(found) - len(self.seen), np.int64)])
        self.seen[: len(found)] += found
        if encode is not None:
            self.tokens = self.tokens or Lengths()
            self.tokens.add(np.fromiter(map(len, encode(texts)), np.int64, len(texts)))
        return words

    def scripts(self) -> dict[str, float]:
        """Each script with its share of the letters, the largest first."""
        codes = np.flatnonzero(self.seen)
        counts = np.bincount(letter_scripts(codes), weights=self.seen[codes], minlength=len(SCRIPTS))
        counts[0] = 0  # no letters, or letters of no one script
        order = np.argsort(-counts, kind="stable")
        return {SCRIPTS[place]: float(counts[place] / counts.sum()) for place in order if counts[place]}

    def foreign(self, most: int = 10) -> dict[str, int]:
        """The most frequent letters that are not of the main script, and how often each is there."""
        codes = np.flatnonzero(self.seen)
        scripts = letter_scripts(codes)
        main = next(iter(self.scripts()), "")
        others = codes[(scripts > 0) & (scripts != SCRIPTS.index(main))] if main else codes[:0]
        order = np.argsort(-self.seen[others], kind="stable")[:most]
        return {chr(code): int(self.seen[code]) for code in others[order]}

    def record(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return {
            "blank": self.blank,
            "words": self.words.record(),
            "characters": self.characters.record(),
            **({"tokens": self.tokens.record()} if self.tokens else {}),
            "distinct_characters": int(np.count_nonzero(self.seen)),
            "scripts": {name: round(share, 6) for name, share in self.scripts().items()},
            "foreign_letters": self.foreign(),
        }


class Description:
    """Counts pairs as they come (`add`), says at any moment what was there.

    encode_source, encode_target    a tokenizer's way from texts to ids, if lengths in tokens are wanted
    """

    def __init__(
        self,
        *,
        samples: int = 5,
        seed: int = 1,
        exact_up_to: int = EXACT_UP_TO,
        encode_source: Encode | None = None,
        encode_target: Encode | None = None,
    ) -> None:
        self.pairs = 0
        self.identical = 0
        self.source, self.target = SideDescription(), SideDescription()
        self.exact_up_to = exact_up_to
        self._encoders = (encode_source, encode_target)
        self._ratios = Lengths()
        self._key = str(seed).encode()
        self._pair_hashes, self._source_hashes = array("Q"), array("Q")
        self._most_samples = samples
        self._samples: dict[int, Sample] = {}

    def add(self, pairs: Sequence[Pair], *, name: str = "", lines: Sequence[int] = ()) -> None:
        """Count some more pairs; of the file `name`, at these `lines` of it, if the samples are to say so."""
        sources, targets = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        source_words = self.source.add(sources, self._encoders[0])
        target_words = self.target.add(targets, self._encoders[1])
        shorter, longer = np.minimum(source_words, target_words), np.maximum(source_words, target_words)
        both = shorter > 0
        self._ratios.add(np.rint(longer[both] * HUNDREDTHS / shorter[both]).astype(np.int64))
        self.identical += sum(a.strip() == b.strip() for a, b in zip(sources, targets, strict=True))
        hashes = pair_hashes(pairs, self._key)
        room = max(0, self.exact_up_to - self.pairs)
        self._pair_hashes.extend(hashes[:room])
        self._source_hashes.extend(text_hashes(sources[:room]))
        self._sample(pairs, hashes, name, lines)
        self.pairs += len(pairs)

    @property
    def compared(self) -> int:
        """So many pairs, from the first on, were looked at for duplicates."""
        return len(self._pair_hashes)

    def duplicate_pairs(self) -> int:
        """Pairs that were there before, among those compared."""
        return _repeated(self._pair_hashes)

    def duplicate_sources(self) -> int:
        """Sources that were there before, with the same target or another."""
        return _repeated(self._source_hashes)

    def ratio(self, percent: float) -> float:
        """So many percent of the pairs have a longer side that is at most this many times the shorter, in words."""
        return self._ratios.percentile(percent) / HUNDREDTHS

    @property
    def mean_ratio(self) -> float:
        """The mean of longer side over shorter side, of pairs without a blank side."""
        return self._ratios.mean / HUNDREDTHS

    @property
    def largest_ratio(self) -> float:
        """The largest of them."""
        return self._ratios.largest / HUNDREDTHS

    def samples(self) -> list[Sample]:
        """A few pairs."""
        return [self._samples[number] for number in sorted(self._samples)]

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
                "max": self.largest_ratio,
            },
            "source": self.source.record(),
            "target": self.target.record(),
            "samples": [
                {"where": where, "source": pair.source, "target": pair.target} for where, pair in self.samples()
            ],
        }

    def _sample(self, pairs: Sequence[Pair], hashes: list[int], name: str, lines: Sequence[int]) -> None:
        """Keep the pairs with the smallest hashes."""
        bound = max(self._samples) if len(self._samples) >= self._most_samples and self._samples else 1 << 64
        for place, number in enumerate(hashes):
            if number < bound and self._most_samples:
                where = f"{name}:{lines[place]}" if lines else name
                self._samples.setdefault(number, Sample(where, pairs[place]))
                if len(self._samples) > self._most_samples:
                    del self._samples[max(self._samples)]
                    bound = max(self._samples)


def _repeated(hashes: array[int]) -> int:
    """How many numbers are not the first of their value. Sorts them where they lie: their order does not matter."""
    if not hashes:
        return 0
    numbers = np.frombuffer(hashes, np.uint64)
    numbers.sort()
    step = 1 << 20
    return sum(
        int(np.count_nonzero(np.diff(numbers[start : start + step + 1]) == 0)) for start in range(0, len(numbers), step)
    )
