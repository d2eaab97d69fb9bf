"""Word alignment from attention: weights over tokens merged to weights over words, and links read off them.

`word_indices` says which word each token belongs to, `merge_weights` makes a matrix over words of one over tokens, and
`links_from_weights` reads links off it; `weft.evaluation.alignment` scores them. Two directions are not symmetrized:
attention gives a single one, from target to source.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from weft.data.reading.glossary import CLOSE, OPEN
from weft.errors import DataError
from weft.text import specials
from weft.text.id_rows import Sentence
from weft.text.tokenizer import Tokenizer, Tokenizers
from weft.text.words import WordTokenizer, chunks, split
from weft.translation.results import Translation, WordAttention

NULL_THRESHOLD = 0.15
"""A target word whose largest weight is below this is not aligned."""


def merge_to_words(tokenizers: Tokenizers, source: Sentence, target: Sentence, weights_TS: np.ndarray) -> WordAttention:
    """Attention over tokens merged to words; the last column is the source's end token, with all else around it."""
    source_words, source_groups = split_words(tokenizers.source, source)
    target_words, target_groups = split_words(tokenizers.target, target)
    for index, id in enumerate(source.ids):
        is_frame = index < source.before or index >= len(source.ids) - source.after
        if id == specials.END or is_frame:  # also between the columns of a source
            source_groups[index] = len(source_words)
    merged_TS = merge_weights(
        weights_TS, source_groups, target_groups, source_words=len(source_words) + 1, target_words=len(target_words)
    )
    return WordAttention(merged_TS, [*source_words, specials.SPECIALS[specials.END]], target_words)


def align_words(attention: WordAttention) -> list[tuple[int, int]]:
    """Links between words; a word whose weight is small, or on the end token, is not aligned."""
    if not attention.target:
        return []
    return links_from_weights(attention.weights_TS, threshold=NULL_THRESHOLD, null_column=len(attention.source) - 1)


def show_sources(translations: list[Translation], sources: Sequence[str]) -> list[Translation]:
    """The translations as those of other sources: without the terms and similar translations in them."""
    for best, source in zip(translations, sources, strict=True):
        for translation in (best, *best.alternatives):
            vars(translation)["source"] = source
            if translation.word_attention is not None:
                words = without_added(translation.word_attention, len(split(source)))
                vars(translation).update(word_attention=words, links=align_words(words))
    return translations


def without_added(attention: WordAttention, count: int) -> WordAttention:
    """Attention over the first ``count`` words that are not between marks of terms.

    The weights of a term in marks are added to those of the word before it, those of a further column to the end token.
    """
    merged_TS = np.zeros((len(attention.weights_TS), count + 1), attention.weights_TS.dtype)
    words: list[str] = []
    inside = False
    for column, word in enumerate(attention.source[:-1]):
        inside = inside or word == OPEN
        if not inside and len(words) < count:
            words.append(word)
            merged_TS[:, len(words) - 1] += attention.weights_TS[:, column]
        else:
            merged_TS[:, len(words) - 1 if inside and words else count] += attention.weights_TS[:, column]
        inside = inside and word != CLOSE
    merged_TS[:, count] += attention.weights_TS[:, -1]
    return WordAttention(merged_TS, [*words, *[""] * (count - len(words)), attention.source[-1]], attention.target)


class AttentionView(NamedTuple):
    """Attention to show, over words or over tokens, and the links that it gives."""

    attention: WordAttention
    links: list[tuple[int, int]]
    unit: str
    """"words" or "tokens"."""


def attention_view(translation: Translation, *, tokens: bool = False) -> AttentionView | None:
    """The attention of a translation over words; None if it has none.

    Over tokens on request, and where a side is a single word of several tokens, as in grapheme-to-phoneme conversion
    and in scripts without spaces: words would make one cell of it.
    """
    if translation.attention is None:
        return None
    words = translation.word_attention
    if words is not None and not tokens:
        source_is_word = len(words.source) - 1 == 1 < len(translation.source_tokens) - 1  # without the end token
        target_is_word = len(words.target) == 1 < len(translation.tokens)
        tokens = source_is_word or target_is_word
    if words is not None and not tokens:
        return AttentionView(words, translation.links, "words")
    over_tokens = WordAttention(translation.attention, translation.source_tokens, translation.tokens)
    if words is not None and _is_all_text(translation, words):
        links = links_from_weights(over_tokens.weights_TS, threshold=NULL_THRESHOLD) if over_tokens.target else []
        return AttentionView(over_tokens, links, "tokens")
    return AttentionView(over_tokens, align_words(over_tokens) if words is not None else [], "tokens")


def _is_all_text(translation: Translation, words: WordAttention) -> bool:
    """Whether a source has no end token, nor anything else around its text, as in models of OpenNMT-py."""
    ends = translation.source_tokens[-1:] == [specials.SPECIALS[specials.END]]
    return not ends and not words.weights_TS[:, -1].any()


def split_words(tokenizer: Tokenizer, sentence: Sentence) -> tuple[list[str], list[int]]:
    """The words of a text, and the index of the word that each of its tokens belongs to.

    Tokens are located by ``tokenizer.spans``, which is right for the text itself as long as an unknown token stands for
    one character. An unknown word does not, so a word tokenizer's tokens are located by counting words instead, and so
    are those of another tokenizer with as many tokens as there are words between spaces.
    """
    text, ids = sentence.text, sentence.ids
    if specials.END in ids[:-1] and hasattr(tokenizer, "column_tokenizer"):
        return _split_words_of_columns(tokenizer, sentence)
    spans = tokenizer.spans(ids)
    if isinstance(tokenizer, WordTokenizer):
        units = split(text) if tokenizer.split_punctuation else chunks(text)
        if len(units) == sum(id not in (specials.BEGIN, specials.END) for id in ids):
            spans = [(unit.start, unit.end) for unit in units] + [(len(text), len(text))] * (len(ids) - len(units))
        else:  # protected symbols are split differently, and so may be the text of an output that was cut off
            text = tokenizer.decode(ids)
    elif len(decoded := tokenizer.decode(ids)) != len(text):
        between_spaces, end = chunks(text), len(ids) - sentence.after
        if specials.UNKNOWN in ids and len(between_spaces) == end - sentence.before:  # a token for each word
            located = [(chunk.start, chunk.end) for chunk in between_spaces]
            spans = [(0, 0)] * sentence.before + located + [(len(text), len(text))] * sentence.after
        else:
            text = decoded
    words = split(text)
    return [word.text for word in words], word_indices([(word.start, word.end) for word in words], spans)


def _split_words_of_columns(tokenizer: Tokenizer, sentence: Sentence) -> tuple[list[str], list[int]]:
    """Words and groups of a source of several columns."""
    from weft.text.columns import ColumnTokenizer, split_ids

    assert isinstance(tokenizer, ColumnTokenizer)
    words: list[str] = []
    groups: list[int] = []
    for text, ids in zip(tokenizer.split(sentence.text), split_ids(sentence.ids), strict=True):
        column_words, column_groups = split_words(tokenizer.column_tokenizer, Sentence(text, ids))
        groups += [len(words) + group if group >= 0 else -1 for group in column_groups] + [-1]
        words += column_words
    return words, groups[: len(sentence.ids)]


def links_from_weights(
    weights_TS: np.ndarray,
    *,
    threshold: float = 0.0,
    null_column: int | None = None,
    fraction: float | None = None,
) -> list[tuple[int, int]]:
    """Links from each target position to the source position of largest weight; ties go to the first.

    A target position has no link if its largest weight is on ``null_column`` (the source's end token), is zero, or is
    below ``threshold``. The default of 0 links every other position, which is how attention is usually scored: what
    counts as a large weight differs between models (a mean over eight heads is flatter than one head), so no other
    default suits all. A threshold trades recall for precision.

    With ``fraction``, a target position is also linked to every other source position with at least that fraction of
    the row's maximum (one-to-many): 0.5 is a reasonable start, 1 adds exact ties only.
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
    largest_T = weights_TS[np.arange(targets), best_T]
    chosen_TS = np.arange(sources)[None, :] == best_T[:, None]
    if fraction is not None:
        chosen_TS |= weights_TS >= fraction * largest_T[:, None]
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
    """Weights over words from weights over tokens: summed over a source word's tokens, averaged over a target word's.

        w(t, s) = 1/|t| Σ_{i ∈ t} Σ_{j ∈ s} w(i, j)

    ``source_groups`` and ``target_groups`` give the word index of every token, −1 for a token to drop. Dropping the end
    token loses the null link; to keep it, give it a separate index after the last word, and pass that as
    ``null_column`` to `links_from_weights`. The result has ``target_words`` rows and ``source_words`` columns, by
    default the largest index plus one; a word without tokens gets zeros.
    """
    _check_matrix(weights_TS)
    if weights_TS.shape != (len(target_groups), len(source_groups)):
        raise DataError(
            f"weights have {weights_TS.shape[0]} target and {weights_TS.shape[1]} source positions, "
            f"but there are groups for {len(target_groups)} and {len(source_groups)}"
        )
    target_WT = _membership(target_groups, target_words)
    source_WS = _membership(source_groups, source_words)
    tokens_W = np.maximum(target_WT.sum(axis=1, keepdims=True), 1)
    return (target_WT / tokens_W) @ weights_TS @ source_WS.T


def word_indices(word_spans: Sequence[tuple[int, int]], token_spans: Sequence[tuple[int, int]]) -> list[int]:
    """The index of the word that each token belongs to: the one it shares most characters with, −1 if none.

    A span is (start, end) in the characters of one line. Special tokens, whose span is empty, get −1.
    """
    if not word_spans or not token_spans:
        return [-1] * len(token_spans)
    words_W2, tokens_N2 = np.asarray(word_spans), np.asarray(token_spans)
    ends_NW = np.minimum(tokens_N2[:, 1:], words_W2[:, 1])
    starts_NW = np.maximum(tokens_N2[:, :1], words_W2[:, 0])
    shared_NW = ends_NW - starts_NW
    return [int(word) for word in np.where(shared_NW.max(axis=1) > 0, shared_NW.argmax(axis=1), -1)]


def _membership(groups: Sequence[int], words: int | None) -> np.ndarray:
    """membership[w, i] = 1 where token i belongs to word w."""
    groups_N = np.asarray(groups, dtype=int)
    highest = int(groups_N.max(initial=-1))
    if words is None:
        words = highest + 1
    if highest >= words:
        raise DataError(f"a token belongs to word {highest}, but there are only {words} words")
    return (np.arange(words)[:, None] == groups_N[None, :]).astype(float)


def _check_matrix(weights_TS: np.ndarray) -> None:
    if weights_TS.ndim != 2:
        raise DataError(f"attention weights have {weights_TS.ndim} axes, expected 2: target × source")
    if not np.isfinite(weights_TS).all():
        raise DataError("attention weights are not all finite")
