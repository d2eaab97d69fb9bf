"""Splitting a corpus into parts by a hash of the source.

The same on every machine, whatever the order of the pairs; all pairs of a source are in one part. Adding pairs moves
none of the others, as long as the shares stay the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple

from weft.data.pairs import Pair, Row, RowError, text_hashes
from weft.data.reading.corpora import Corpus, Files
from weft.data.reading.text_files import Block
from weft.data.structural_holdout import NO_CUT, StructuralCut, learn_cut

Part = Literal["train", "valid", "test", "structure"]
"""structure: pairs that are held out for their structure (structural_holdout.py), not by a hash."""
_KEY = b"weft split"
_RANGE = 1 << 64


class SplitShares(NamedTuple):
    """The shares of the validation and of the test part; the rest is for training."""

    valid: float
    test: float

    def part_of(self, source_hash: int) -> Part:
        """The part of a source by its hash (`source_hashes`): the smallest are tested on, the next validated on."""
        test_end = int(self.test * _RANGE)
        if source_hash < test_end:
            return "test"
        return "valid" if source_hash < test_end + int(self.valid * _RANGE) else "train"


def split_shares(pairs: int, *, valid: bool = True, test: bool = True) -> SplitShares:
    """Shares for a corpus of ``pairs``: a tenth each, at most 2,000 pairs, rounded to a power of two so that pairs
    rarely move between parts.

    With fewer than 10 pairs there is nothing to hold out. ``valid``, ``test``: whether the part is needed.
    """
    if pairs < 10:
        return SplitShares(0.0, 0.0)
    share = 1.0
    while share > 0.1 or share * pairs > 2_000:
        share /= 2
    return SplitShares(share if valid else 0.0, share if test else 0.0)


def source_hashes(sources: Iterable[str]) -> list[int]:
    """A number below 2^64 for each source, by which corpora are split. How much white space there is does not count."""
    return text_hashes((" ".join(source.split()) for source in sources), _KEY)


def parts_of(sources: Iterable[str], shares: SplitShares) -> list[Part]:
    """The part of each source."""
    return [shares.part_of(value) for value in source_hashes(sources)]


@dataclass(frozen=True)
class BlockPart:
    """The rows of a block that belong to one part. Rows that cannot be read belong to the training part."""

    block: Block
    part: Part
    shares: SplitShares
    cut: StructuralCut = NO_CUT

    @property
    def name(self) -> str:
        return self.block.name

    def rows(self) -> Iterator[Row]:
        rows = list(self.block.rows())
        parts = iter(pair_parts([row for _, row in rows if not isinstance(row, RowError)], self.shares, self.cut))
        for number, row in rows:
            part = "train" if isinstance(row, RowError) else next(parts)
            if part == self.part:
                yield number, row


def pair_parts(pairs: Sequence[Pair], shares: SplitShares, cut: StructuralCut = NO_CUT) -> list[Part]:
    """The part of each pair. Pairs of the cut are neither trained nor validated on; the test part stays whole."""
    parts = parts_of(map(_split_text, pairs), shares)
    if cut == NO_CUT:
        return parts
    held_out = [part != "test" and cut.holds_out(pair) for part, pair in zip(parts, pairs, strict=True)]
    return ["structure" if is_held_out else part for part, is_held_out in zip(parts, held_out, strict=True)]


@dataclass(frozen=True)
class StructuralHoldout:
    """A share of the pairs of some corpora that is held out for its structure; the cut is learned when it is needed."""

    corpora: tuple[Corpus, ...]
    share: float
    shares: SplitShares

    @cached_property
    def cut(self) -> StructuralCut:
        """Learned from the pairs that are not in the test part."""
        if not self.share:
            return NO_CUT
        return learn_cut(self._pairs(), self.share)

    def _pairs(self) -> Iterator[Pair]:
        for corpus in self.corpora:
            for block in corpus.blocks():
                pairs = [row for _, row in block.rows() if not isinstance(row, RowError)]
                parts = pair_parts(pairs, self.shares)
                yield from (pair for pair, part in zip(pairs, parts, strict=True) if part != "test")


@dataclass(frozen=True)
class CorpusPart:
    """The pairs of a corpus that belong to one part."""

    corpus: Corpus
    part: Part
    shares: SplitShares
    structural: StructuralHoldout | None = None

    def blocks(self) -> Iterator[BlockPart]:
        cut = NO_CUT if self.structural is None else self.structural.cut
        return (BlockPart(block, self.part, self.shares, cut) for block in self.corpus.blocks())

    def files(self) -> list[Path]:
        return self.corpus.files()

    def paths(self) -> Files:
        return self.corpus.paths()


def _split_text(pair: Pair) -> str:
    """The text that decides the split of a pair: its source or, without one (a language model), its target."""
    return pair.source if pair.source.strip() else pair.target
