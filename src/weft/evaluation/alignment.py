"""Word alignments: read and written in Pharaoh format, and scored against gold links.

A link is (source, target), both zero-based. A word may have several links (one-to-many, many-to-one) or none (null).
Gold links are sure, where annotators agreed, or merely possible. How links are extracted from attention weights:
`weft.translation.word_alignment`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from weft import __version__
from weft.errors import DataError

Links = frozenset[tuple[int, int]]


class GoldLinks(NamedTuple):
    """The annotated links of one sentence pair; every sure link is also possible."""

    sure: Links
    possible: Links


class AlignmentScore(NamedTuple):
    """The agreement of links with gold links over a corpus, in percent."""

    precision: float
    recall: float
    error_rate: float
    signature: str


def write_pharaoh(links: Iterable[tuple[int, int]], possible: Iterable[tuple[int, int]] = ()) -> str:
    """Links as ``0-0 1-2``, sorted; those of `possible` that are not among the links as ``1p3``."""
    sure = set(links)
    separators = {link: "-" if link in sure else "p" for link in sure | set(possible)}
    return " ".join(f"{source}{separator}{target}" for (source, target), separator in sorted(separators.items()))


def read_pharaoh(line: str, *, one_based: bool = False, reverse: bool = False) -> GoldLinks:
    """Links written ``i-j`` (sure) or ``ipj`` (possible), as zero-based (source, target).

    ``one_based``: words are counted from 1. ``reverse``: the target word comes first.
    """
    first = 1 if one_based else 0
    sure, possible = set(), set()
    for item in line.split():
        match = re.fullmatch(r"([0-9]+)([-p])([0-9]+)", item)
        if match is None:
            raise DataError(f"link {item!r} is not of the form 'i-j' or 'ipj'")
        source, target = int(match[1]) - first, int(match[3]) - first
        if source < 0 or target < 0:
            raise DataError(f"link {item!r} counts words from 0; expected them counted from 1")
        link = (target, source) if reverse else (source, target)
        possible.add(link)
        if match[2] == "-":
            sure.add(link)
    return GoldLinks(frozenset(sure), frozenset(possible))


def alignment_error_rate(
    predicted: Sequence[Collection[tuple[int, int]]],
    sure: Sequence[Collection[tuple[int, int]]],
    possible: Sequence[Collection[tuple[int, int]]],
    *,
    threshold: float | None = None,
) -> AlignmentScore:
    """Precision, recall and alignment error rate over a corpus, one collection of links for each sentence pair.

    precision = |A ∩ P| / |A|      recall = |A ∩ S| / |S|
    AER = 1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|), where S ⊆ P      Och and Ney 2003, section 6

    Counts are summed over the corpus before dividing. Sure links are possible ones whether or not `possible` repeats
    them. Precision with nothing predicted, and recall with nothing sure, are 0. ``threshold``: for the signature, the
    attention weight below which no link was predicted, if the links are those of attention.
    """
    if not len(predicted) == len(sure) == len(possible):
        raise DataError(
            f"links of {len(predicted)} sentence pairs were predicted, but gold links are given for "
            f"{len(sure)} (sure) and {len(possible)} (possible)"
        )
    number_predicted = number_sure = found_sure = found_possible = 0
    for predicted_links, sure_links, possible_links in zip(predicted, sure, possible, strict=True):
        a, s = set(predicted_links), set(sure_links)
        number_predicted += len(a)
        number_sure += len(s)
        found_sure += len(a & s)
        found_possible += len(a & (s | set(possible_links)))
    if number_predicted + number_sure == 0:
        raise DataError("no links to score: none predicted and none sure in the gold links")
    return AlignmentScore(
        precision=100.0 * found_possible / max(number_predicted, 1),
        recall=100.0 * found_sure / max(number_sure, 1),
        error_rate=100.0 * (1 - (found_sure + found_possible) / (number_predicted + number_sure)),
        signature=f"pairs:{len(sure)}|predicted:{number_predicted}|sure:{number_sure}|average:corpus|"
        f"{'' if threshold is None else f'threshold:{threshold:g}|'}version:weft {__version__}",
    )
