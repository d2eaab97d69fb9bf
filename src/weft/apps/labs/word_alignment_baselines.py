"""A baseline for the alignment of attention besides IBM Model 1 (`weft.evaluation.ibm1`): the diagonal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.evaluation.ibm1 import Links
from weft.text.word_splitting import words

if TYPE_CHECKING:
    import weft


def diagonal_links(pair: weft.Pair) -> Links:
    """Each target word linked to the source word at the same place of its sentence."""
    sources, targets = len(words(pair.source)), len(words(pair.target))
    return [((2 * target + 1) * sources // (2 * targets), target) for target in range(targets)]
