"""Translation memories: pairs that were translated before, in which sources are looked up.

A source that is in the memory is not translated again: its target is the output. For any other, the pairs with the most
similar sources are returned beside the output. Sources are compared by their words (in scripts without spaces, by
characters), in any case:

    similarity(x, y) = 1 − d(x, y) / max(|x|, |y|)             d: the fewest words to insert, delete or substitute

An inverted index keeps this quick in a million pairs. A pair of similarity ≥ s shares at least s |x| words with x, so
at least one of the |x| − ⌈s |x|⌉ + 1 rarest of x: only their pairs are candidates (prefix filtering, Chaudhuri et al.
2006), of the rarest first, until there are `MAX_CANDIDATES`. Those that share the most words are compared
(`MAX_COMPARED`), all of them at once.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from weft.data.pairs import Pair
from weft.data.reading.glossary import UNIT
from weft.data.reading.pair_files import read_pairs
from weft.data.reading.text_files import display_name
from weft.errors import DataError

MIN_SIMILARITY = 0.5
MAX_MATCHES = 3
MAX_CANDIDATES = 50_000
"""Pairs that have one of the rarest words: no further word is looked up once there are so many."""
MAX_COMPARED = 256
"""Candidates whose distance from a source is computed."""
MAX_WORDS = 200
"""Words of a source that are compared."""


class MemoryMatch(NamedTuple):
    """A pair of a translation memory whose source is similar to one that is translated."""

    source: str
    target: str
    similarity: float
    exact: bool
    """Whether the sources are equal, spaces aside."""


class TranslationMemory:
    """Pairs with an index of their sources: `TranslationMemory.read` or `TranslationMemory.of`."""

    def __init__(self, pairs: Iterable[Pair], name: str = "memory") -> None:
        """Pairs with a blank side are left out; of several targets of a source, the most frequent counts."""
        self.name = name
        targets: dict[str, str | Counter[str]] = {}
        for pair in pairs:
            source, target = " ".join(pair.source.split()), pair.target.strip()
            if not source or not target:
                continue
            known = targets.get(source)
            if isinstance(known, Counter):
                known[target] += 1
            else:
                targets[source] = target if known is None else Counter([known, target])
        if not targets:
            raise DataError(f"{name}: no pairs; expected lines of a source, a tab and its translation")
        self.sources = list(targets)
        self.targets = [known if isinstance(known, str) else known.most_common(1)[0][0] for known in targets.values()]
        self._rows = {source: row for row, source in enumerate(self.sources)}
        self._index = _Index(self.sources)

    @classmethod
    def read(cls, path: Path | str, *, sources: int = 1) -> TranslationMemory:
        """The pairs of a tab-separated file; ``sources``: the number of source columns."""
        return cls(read_pairs(path, sources=sources), display_name(path))

    @classmethod
    def parse(cls, text: str) -> TranslationMemory:
        """The pairs of the lines of a text: source, tab, target."""
        pairs: list[Pair] = []
        for number, line in enumerate(text.splitlines(), start=1):
            source, tab, target = line.partition("\t")
            if line.strip() and not tab:
                raise DataError(f"memory:{number}: expected a source, a tab and its translation")
            pairs.append(Pair(source, target))
        return cls(pairs)

    @classmethod
    def of(cls, value: MemoryLike) -> TranslationMemory:
        """A memory, the file of one, sources with their targets, or pairs."""
        if isinstance(value, TranslationMemory):
            return value
        if isinstance(value, str | Path):
            return cls.read(value)
        items = value.items() if isinstance(value, Mapping) else value
        pairs: list[Pair] = []
        for item in items:
            if len(item) < 2 or not (isinstance(item[0], str) and isinstance(item[1], str)):
                raise DataError(f"memory: {item!r}; expected pairs of a source and its translation (str)")
            pairs.append(Pair(item[0], item[1]))
        return cls(pairs)

    def __len__(self) -> int:
        return len(self.sources)

    @cached_property
    def digest(self) -> str:
        """A hash of the pairs."""
        digest = hashlib.sha256()
        for source, target in zip(self.sources, self.targets, strict=True):
            digest.update(f"{source}\t{target}\n".encode("utf-8", "surrogatepass"))
        return digest.hexdigest()

    def find(self, source: str, count: int = MAX_MATCHES) -> tuple[MemoryMatch, ...]:
        """The pairs with the most similar sources, the best first; only one that is equal, if there is one."""
        row = self._rows.get(" ".join(source.split()))
        if row is not None:
            return (MemoryMatch(self.sources[row], self.targets[row], 1.0, True),)
        return tuple(
            MemoryMatch(self.sources[row], self.targets[row], similarity, False)
            for row, similarity in self._index.find(source, count)
        )

    def similar_target(self, source: str, min_similarity: float = MIN_SIMILARITY) -> str:
        """The target of the pair with the most similar source that is not the same; empty if none is similar enough."""
        row = self._rows.get(" ".join(source.split()))
        for other, similarity in self._index.find(source, 2):
            if other != row and similarity >= min_similarity:
                return " ".join(self.targets[other].split())
        return ""


MemoryLike = TranslationMemory | Mapping[str, str] | Iterable[Pair | tuple[str, str]] | Path | str


class _Index:
    """The words of texts as ids, by text and by word."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._ids: dict[str, int] = {}
        rows = [[self._ids.setdefault(word, len(self._ids)) for word in _words(text)] for text in texts]
        self._lengths = np.fromiter(map(len, rows), np.int32, len(rows))
        self._ends = np.cumsum(self._lengths, dtype=np.int64)
        self._words = np.fromiter((word for row in rows for word in row), np.int32, int(self._ends[-1]))
        order = np.argsort(self._words, kind="stable")
        self._texts_by_word = np.repeat(np.arange(len(rows), dtype=np.int32), self._lengths)[order]
        self._counts = np.bincount(self._words, minlength=len(self._ids))
        self._word_ends = np.cumsum(self._counts)

    def find(self, text: str, count: int) -> list[tuple[int, float]]:
        """The rows of the most similar texts, with their similarities."""
        ids = np.array([self._ids.get(word, -1) for word in _words(text)], dtype=np.int64)
        candidates = self._candidates(ids)
        if not len(candidates):
            return []
        lengths = self._lengths[candidates]
        known = np.zeros(len(self._ids) + 1, dtype=bool)
        known[ids[ids >= 0]] = True
        positions, texts = self._positions(candidates)
        shared = np.bincount(texts, known[self._words[positions]], len(candidates))
        bounds = np.minimum(shared, len(ids)) / np.maximum(lengths, len(ids))
        best = np.argsort(-bounds, kind="stable")[:MAX_COMPARED]
        best = best[bounds[best] >= MIN_SIMILARITY]
        rows = [self._words[self._ends[row] - self._lengths[row] : self._ends[row]] for row in candidates[best]]
        if not rows:
            return []
        similarities = 1 - word_distances(ids, rows) / np.maximum(lengths[best], len(ids))
        order = np.lexsort((candidates[best], -similarities))[:count]
        return [
            (int(candidates[best[index]]), float(similarities[index]))
            for index in order
            if similarities[index] >= MIN_SIMILARITY
        ]

    def _candidates(self, ids: np.ndarray) -> np.ndarray:
        """The rows of texts of a similar length that share one of the rarest words."""
        fewest = math.ceil(MIN_SIMILARITY * len(ids))
        frequencies = np.where(ids >= 0, self._counts[ids] if len(self._counts) else 0, 0)
        rarest = ids[np.argsort(frequencies, kind="stable")[: len(ids) - fewest + 1]]
        parts: list[np.ndarray] = []
        for word in dict.fromkeys(rarest[rarest >= 0].tolist()):
            parts.append(self._texts_by_word[self._word_ends[word] - self._counts[word] : self._word_ends[word]])
            if sum(map(len, parts)) >= MAX_CANDIDATES:
                break
        if not parts:
            return np.zeros(0, np.int64)
        rows = np.concatenate(parts)[:MAX_CANDIDATES]
        lengths = self._lengths[rows]
        return np.unique(rows[(lengths >= fewest) & (lengths * MIN_SIMILARITY <= len(ids))]).astype(np.int64)

    def _positions(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where the words of some texts are, and which of these texts each belongs to."""
        lengths = self._lengths[rows]
        texts = np.repeat(np.arange(len(rows)), lengths)
        first = np.cumsum(lengths) - lengths
        return (self._ends[rows] - lengths - first)[texts] + np.arange(len(texts)), texts


def word_distances(words: np.ndarray, rows: Sequence[np.ndarray]) -> np.ndarray:
    """The Levenshtein distances of a text from several others, as ids of words; all at once.

    d(i, j) = min( d(i−1, j) + 1,  d(i, j−1) + 1,  d(i−1, j−1) + [x_i ≠ y_j] )

    The second of the three runs along a row: with e(i, j) = d(i, j) − j it is a cumulative minimum.
    """
    longest = max(map(len, rows))
    others = np.full((len(rows), longest), -2, np.int64)  # neither a word nor an unknown one
    for row, other in enumerate(rows):
        others[row, : len(other)] = other
    columns = np.arange(longest + 1)
    distances = np.broadcast_to(columns, (len(rows), longest + 1)).copy()
    for number, word in enumerate(words.tolist(), 1):
        substituted = distances[:, :-1] + ((others != word) | (word < 0))
        best = np.concatenate([np.full((len(rows), 1), number), np.minimum(distances[:, 1:] + 1, substituted)], axis=1)
        distances = np.minimum.accumulate(best - columns, axis=1) + columns
    return distances[np.arange(len(rows)), [len(row) for row in rows]]


def _words(text: str) -> list[str]:
    return UNIT.findall(text.casefold())[:MAX_WORDS]
