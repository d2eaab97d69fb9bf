"""Fingerprints of training pairs, which a run keeps to detect test pairs that it was trained on.

Each distinct pair is 8 bytes: 40 bits of a hash of its source, then 24 bits of one of its target, sorted. So whether a
source was trained on, with any target or with this one, is a binary search. Texts are compared character for
character, as the model sees them: after the steps of data.pipeline. A language model has no sources: its targets take
their place.

Both file and time are bounded. Of a corpus with more than `MAX_PAIRS` distinct pairs, those with the smallest hashes
are kept; of one with more than `WHOLE_BYTES` of text, only sources whose length is divisible by some power of two are
hashed at all. Only test sources with the same properties are then compared, so the counts are exact for a sample.
A source is matched wrongly with a probability of n / 2^40 if n distinct sources were trained on.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from weft.data.pairs import Pair, text_hashes
from weft.errors import CheckpointError, plural
from weft.files import parse_json, read_bounded, replacing

FORMAT = 1
NAME = "fingerprints.bin"
"""The file in a run folder, and in the folder of a prepared corpus."""
MAX_PAIRS = 1 << 20
"""Pairs in the file: 8 MiB."""
WHOLE_BYTES = 256 << 20
"""Size of the text up to which every pair is hashed."""
TARGET_BITS = np.uint64(24)
MAX_HASH_BITS, MAX_DIVISOR, MAX_HEADER = 40, 1 << 40, 1000


class Overlap(NamedTuple):
    """Numbers of test pairs that are in the training data."""

    sources: int
    """Pairs whose source is in the training data."""
    pairs: int
    """Pairs that are in it with the same target too."""
    compared: int
    """Pairs that were looked up: all, or of a large corpus a sample."""
    total: int
    has_sources: bool = True
    """False for a language model, whose texts were compared."""

    def describe(self) -> str:
        """The counts as a sentence."""
        compared = plural(self.compared, "pair" if self.has_sources else "text")
        if self.compared < self.total:
            compared += f" (a sample of {self.total:,})"
        if not self.has_sources:
            return f"{self.sources:,} of {compared} {'is' if self.sources == 1 else 'are'} in the training data"
        verb = "has" if self.sources == 1 else "have"
        return (
            f"{self.sources:,} of {compared} {verb} a source in the training data, {self.pairs:,} with the same target"
        )

    def record(self) -> dict[str, int]:
        """For JSON."""
        return {"sources": self.sources, "pairs": self.pairs, "compared": self.compared}


class Fingerprints(NamedTuple):
    """The fingerprints of the pairs of a corpus."""

    values: np.ndarray
    """uint64, sorted, distinct."""
    hash_bits: int = 0
    """The first bits of a hash that are zero in all that were kept."""
    length_divisor: int = 1
    """Divides the length of all sources that were kept."""
    sources: bool = True
    """False: those of a language model, which has targets only."""

    def overlap(self, pairs: Sequence[Pair]) -> Overlap:
        """Number of these pairs that are in the corpus."""
        fingerprints = fingerprint(pairs, sources=self.sources, length_divisor=self.length_divisor)
        fingerprints = _with_leading_zeros(fingerprints, self.hash_bits)
        known_sources = np.unique(self.values >> TARGET_BITS)
        sources = np.isin(fingerprints >> TARGET_BITS, known_sources)
        known_pairs = np.isin(fingerprints, self.values)
        return Overlap(int(sources.sum()), int(known_pairs.sum()), len(fingerprints), len(pairs), self.sources)

    def known_sources(self, pairs: Sequence[Pair]) -> list[bool | None]:
        """Whether the source of each pair is in the corpus; None where the sample does not cover it."""
        values = fingerprint(pairs, sources=self.sources)
        known = np.isin(values >> TARGET_BITS, np.unique(self.values >> TARGET_BITS))
        texts = [pair.source if self.sources else pair.target for pair in pairs]
        compared = np.array([len(text) % self.length_divisor == 0 for text in texts], bool)
        if self.hash_bits:
            compared &= values >> np.uint64(64 - self.hash_bits) == 0
        return [bool(is_known) if is_compared else None for is_known, is_compared in zip(known, compared, strict=True)]

    def merged(self, other: Fingerprints) -> Fingerprints:
        """The fingerprints of two corpora; only the other's if they were sampled in different ways."""
        if (self.length_divisor, self.sources) != (other.length_divisor, other.sources):
            return other
        collector = FingerprintCollector(sources=other.sources, length_divisor=other.length_divisor)
        collector.hash_bits = max(self.hash_bits, other.hash_bits)
        collector.add(self.values)
        collector.add(other.values)
        return collector.finish()

    def save(self, folder: Path) -> None:
        """Write the file into a folder: a line of JSON, then the values, little-endian."""
        about = {"weft_fingerprints": FORMAT, **self._asdict()}
        del about["values"]
        with replacing(folder / NAME) as file:
            file.write(json.dumps(about).encode("utf-8") + b"\n" + self.values.astype("<u8").tobytes())

    @classmethod
    def load(cls, folder: Path) -> Fingerprints | None:
        """The fingerprints of a folder; None if it has none."""
        path = folder / NAME
        if not path.is_file():
            return None
        header, _, content = read_bounded(path, max_bytes=8 * MAX_PAIRS + MAX_HEADER).partition(b"\n")
        about = parse_json(header, where=str(path))
        version = about.get("weft_fingerprints") if isinstance(about, dict) else None
        if version != FORMAT:
            raise CheckpointError(f"{path}: fingerprints of another version of weft; remove the file")
        bits, divisor = about.get("hash_bits"), about.get("length_divisor")
        if not isinstance(bits, int) or not isinstance(divisor, int) or len(content) % 8:
            raise CheckpointError(f"{path}: damaged; remove it, and overlaps are no longer counted")
        if not 0 <= bits < MAX_HASH_BITS or not 1 <= divisor <= MAX_DIVISOR:
            raise CheckpointError(f"{path}: damaged; remove it, and overlaps are no longer counted")
        return cls(np.frombuffer(content, "<u8").astype(np.uint64), bits, divisor, bool(about.get("sources")))


class FingerprintCollector:
    """Collects the fingerprints of a corpus, block by block, in memory for twice `MAX_PAIRS`."""

    def __init__(self, *, sources: bool = True, length_divisor: int = 1, max_pairs: int = MAX_PAIRS) -> None:
        self.sources = sources
        self.length_divisor = length_divisor
        self.max_pairs = max_pairs
        self.hash_bits = 0
        self._parts: list[np.ndarray] = []
        self._size = 0

    def add(self, values: np.ndarray) -> None:
        """The fingerprints of some pairs."""
        values = _with_leading_zeros(values, self.hash_bits)
        self._parts.append(values)
        self._size += len(values)
        if self._size > 2 * self.max_pairs:
            self._compact()

    def finish(self) -> Fingerprints:
        return Fingerprints(self._compact(), self.hash_bits, self.length_divisor, self.sources)

    def _compact(self) -> np.ndarray:
        """Sort what was added, without repetitions and within the limit."""
        values = np.unique(np.concatenate(self._parts)) if self._parts else np.zeros(0, np.uint64)
        while len(values) > self.max_pairs and self.hash_bits < MAX_HASH_BITS - 1:
            self.hash_bits += 1
            values = _with_leading_zeros(values, self.hash_bits)
        self._parts, self._size = [values], len(values)
        return values


def fingerprint(pairs: Sequence[Pair], *, sources: bool = True, length_divisor: int = 1) -> np.ndarray:
    """A uint64 for each pair whose source has a length that the divisor divides."""
    if not sources:
        pairs = [Pair(pair.target, "") for pair in pairs]
    if length_divisor > 1:
        pairs = [pair for pair in pairs if len(pair.source) % length_divisor == 0]
    source = np.array(text_hashes([pair.source for pair in pairs]), np.uint64)
    target = np.array(text_hashes([pair.target for pair in pairs]), np.uint64)
    return (source >> TARGET_BITS << TARGET_BITS) | (target >> (np.uint64(64) - TARGET_BITS))


def length_divisor_for(text_bytes: int) -> int:
    """1 for a text of at most `WHOLE_BYTES`, 2 for one of twice that, and so on."""
    return 1 << max((text_bytes - 1) // WHOLE_BYTES, 0).bit_length()


def _with_leading_zeros(values: np.ndarray, bits: int) -> np.ndarray:
    """The values that start with ``bits`` zero bits."""
    return values if not bits else values[values >> np.uint64(64 - bits) == 0]
