"""Links between words: taken from attention weights, read, written, and scored against gold links.

A link is (source, target), both zero-based. A word may stand in several links (one-to-many, many-to-one) or in none
(null). Gold links may be sure, where annotators agreed, or merely possible.

The way from a model to a score: `groups` says which word each sub-word piece belongs to, `merge_weights` makes a
matrix over words of one over pieces, `links_from_weights` reads links off it, `alignment_error_rate` scores them.
Symmetrization of two directions is not here: attention gives a single direction, from target to source.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from weft import __version__
from weft.errors import DataError

Links = frozenset[tuple[int, int]]


class GoldLinks(NamedTuple):
    """The links of one sentence pair as annotated; every sure link is possible too."""

    sure: Links
    possible: Links


class AlignmentScore(NamedTuple):
    """How well links agree with gold links over a corpus, in per cent."""

    precision: float
    recall: float
    error_rate: float
    signature: str


def links_from_weights(
    weights_TS: np.ndarray,
    *,
    threshold: float = 0.0,
    null_column: int | None = None,
    fraction: float | None = None,
) -> list[tuple[int, int]]:
    """For each target position, the source position with the most weight; ties go to the first.

    A target position has no link if most of its weight is on `null_column` (the source's end mark), or if that
    weight is zero or under `threshold`. The default threshold of 0 links every position that looks at a word, which
    is how attention is usually scored: what counts as a high weight differs between models (a mean over eight heads
    is flatter than one head), so no other number is right for all. A threshold trades recall for precision.

    With `fraction`, a target position is also linked to every other source position holding at least that fraction
    of the row's maximum (one-to-many): 0.5 is a sound start, 1 adds exact ties only.
    """
    _check_matrix(weights_TS)
    targets, sources = weights_TS.shape
    if fraction is not None and not 0 < fraction <= 1:
        raise DataError(f"fraction of the largest weight is {fraction}, expected more than 0 and at most 1")
    if null_column is not None and not -sources <= null_column < sources:
        raise DataError(f"null column {null_column} is outside the weights, which have {sources} source positions")
    if not targets or not sources:
        return []
    best_T = weights_TS.argmax(axis=1)
    most_T = weights_TS[np.arange(targets), best_T]
    chosen_TS = np.arange(sources)[None, :] == best_T[:, None]
    if fraction is not None:
        chosen_TS |= weights_TS >= fraction * most_T[:, None]
    chosen_TS &= (weights_TS > 0) & (weights_TS >= threshold)
    if null_column is not None:
        null = null_column % sources
        chosen_TS[best_T == null] = False
        chosen_TS[:, null] = False
    return sorted((int(source), int(target)) for target, source in zip(*np.nonzero(chosen_TS), strict=True))


def merge_weights(
    weights_TS: np.ndarray,
    source_groups: Sequence[int],
    target_groups: Sequence[int],
    *,
    source_words: int | None = None,
    target_words: int | None = None,
) -> np.ndarray:
    """Weights over words from weights over pieces: summed over a source word's pieces, averaged over a target word's.

    w(t, s) = 1/|t| Σ_{i ∈ t} Σ_{j ∈ s} w(i, j): what the pieces of t, on average, give to all pieces of s.

    A group is a word's number, or −1 for a piece to drop. Dropping the end mark loses the null link; to keep it,
    give it a group of its own after the last word and pass that as `null_column` to `links_from_weights`. The
    result has `target_words` rows and `source_words` columns, by default the highest group plus one; a word without
    pieces gets zeros.
    """
    _check_matrix(weights_TS)
    if weights_TS.shape != (len(target_groups), len(source_groups)):
        raise DataError(
            f"weights have {weights_TS.shape[0]} target and {weights_TS.shape[1]} source positions, "
            f"but there are groups for {len(target_groups)} and {len(source_groups)}"
        )
    target_WT = _membership(target_groups, target_words)
    source_WS = _membership(source_groups, source_words)
    pieces_W = np.maximum(target_WT.sum(axis=1, keepdims=True), 1)
    return (target_WT / pieces_W) @ weights_TS @ source_WS.T


def groups(word_spans: Sequence[tuple[int, int]], piece_spans: Sequence[tuple[int, int]]) -> list[int]:
    """Which word each piece belongs to: the one it shares most characters with, the first of equals, −1 if none.

    A span is (start, end) in the characters of one line. Special tokens, whose span is empty, come out as −1.
    """
    if not word_spans or not piece_spans:
        return [-1] * len(piece_spans)
    words_W2, pieces_P2 = np.asarray(word_spans), np.asarray(piece_spans)
    ends_PW = np.minimum(pieces_P2[:, 1:], words_W2[:, 1])
    starts_PW = np.maximum(pieces_P2[:, :1], words_W2[:, 0])
    shared_PW = ends_PW - starts_PW
    return [int(word) for word in np.where(shared_PW.max(axis=1) > 0, shared_PW.argmax(axis=1), -1)]


def write_pharaoh(links: Iterable[tuple[int, int]], possible: Iterable[tuple[int, int]] = ()) -> str:
    """Links as ``0-0 1-2``, sorted; those of `possible` that are not among the links as ``1p3``."""
    sure = set(links)
    marks = {link: "-" if link in sure else "p" for link in sure | set(possible)}
    return " ".join(f"{source}{mark}{target}" for (source, target), mark in sorted(marks.items()))


def read_pharaoh(line: str, *, one_based: bool = False, reverse: bool = False) -> GoldLinks:
    """Links written ``i-j`` (sure) or ``ipj`` (possible), as zero-based (source, target).

    `one_based`: the line counts words from 1. `reverse`: it names the target word first.
    """
    first = 1 if one_based else 0
    sure, possible = set(), set()
    for item in line.split():
        match = re.fullmatch(r"([0-9]+)([-p])([0-9]+)", item)
        if match is None:
            raise DataError(f"link {item!r} is not of the form 'i-j' or 'ipj'")
        source, target = int(match[1]) - first, int(match[3]) - first
        if source < 0 or target < 0:
            raise DataError(f"link {item!r} counts from 0, but words were said to be counted from 1")
        link = (target, source) if reverse else (source, target)
        possible.add(link)
        if match[2] == "-":
            sure.add(link)
    return GoldLinks(frozenset(sure), frozenset(possible))


def alignment_error_rate(
    predicted: Sequence[Collection[tuple[int, int]]],
    sure: Sequence[Collection[tuple[int, int]]],
    possible: Sequence[Collection[tuple[int, int]]],
) -> AlignmentScore:
    """Precision, recall and alignment error rate over a corpus, one collection of links for each sentence pair.

    precision = |A ∩ P| / |A|      recall = |A ∩ S| / |S|
    AER = 1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|), where S ⊆ P      Och and Ney 2003, section 6

    Counts are summed over the corpus before dividing. Sure links are possible ones whether or not `possible` repeats
    them. Precision with nothing predicted, and recall with nothing sure, are 0.
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
        f"version:weft {__version__}",
    )


def _membership(groups_of_pieces: Sequence[int], words: int | None) -> np.ndarray:
    """membership[w, i] = 1 where piece i belongs to word w."""
    group_P = np.asarray(groups_of_pieces, dtype=int)
    highest = int(group_P.max(initial=-1))
    if words is None:
        words = highest + 1
    if highest >= words:
        raise DataError(f"a piece belongs to word {highest}, but there are only {words} words")
    return (np.arange(words)[:, None] == group_P[None, :]).astype(float)


def _check_matrix(weights_TS: np.ndarray) -> None:
    if weights_TS.ndim != 2:
        raise DataError(f"attention weights have {weights_TS.ndim} axes, expected 2: target × source")
    if not np.isfinite(weights_TS).all():
        raise DataError("attention weights are not all finite")
