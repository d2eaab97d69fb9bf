"""Attention over tokens as attention over words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.evaluation.alignment import groups, links_from_weights, merge_weights
from weft.text import specials
from weft.text import word_splitting as words
from weft.text.tokenizer import Tokenizer
from weft.text.words import Word
from weft.translation.results import WordMap

NULL_WEIGHT = 0.15
"""A target word whose largest weight is below this has no counterpart."""


def word_map(
    source: Tokenizer,
    target: Tokenizer,
    read: tuple[str, Sequence[int]],
    said: tuple[str, Sequence[int]],
    weights_TS: np.ndarray,
) -> WordMap:
    """Attention over tokens merged to words, of a source and a target (text, ids); the source's end mark stays as the
    last column."""
    source_words, source_groups = group_words(source, read[1], read[0])
    target_words, target_groups = group_words(target, said[1], said[0])
    source_groups[-1] = len(source_words)
    merged_TS = merge_weights(
        weights_TS, source_groups, target_groups, source_words=len(source_words) + 1, target_words=len(target_words)
    )
    return WordMap(merged_TS, [*source_words, specials.SPECIALS[specials.END]], target_words)


def word_links(found: WordMap) -> list[tuple[int, int]]:
    """Links between words; the end mark and weak weights stand for "no counterpart"."""
    if not len(found.target):
        return []
    return links_from_weights(found.weights_TS, threshold=NULL_WEIGHT, null_column=len(found.source) - 1)


def group_words(tokenizer: Tokenizer, ids: Sequence[int], text: str) -> tuple[list[str], list[int]]:
    """The words of a text, and the word that each of its ids belongs to.

    Places are those of ``tokenizer.spans``, which hold for the text itself as long as an unknown is as long as what
    it stands for: one character. An unknown word is not, so words are counted instead.
    """
    spans = tokenizer.spans(ids)
    if isinstance(tokenizer, Word):
        pieces = words.split(text) if tokenizer.split_punctuation else words.chunks(text)
        if len(pieces) == sum(id not in (specials.BEGIN, specials.END) for id in ids):
            spans = [(piece.start, piece.end) for piece in pieces] + [(len(text), len(text))] * (len(ids) - len(pieces))
        else:  # symbols are cut elsewhere, and the text of an output that was cut off is not cut as it was made
            text = tokenizer.decode(ids)
    elif len(said := tokenizer.decode(ids)) != len(text):
        text = said
    found = words.split(text)
    return [word.text for word in found], groups([(word.start, word.end) for word in found], spans)
