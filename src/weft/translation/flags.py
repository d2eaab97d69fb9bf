"""Flags: names for what is suspicious about an output, so that a program can filter by them.

    untranslated       the output is the source, or three quarters of its words are copied from there
    cut                the output did not end by itself: a length limit or constraints ended it
    repeats            a phrase occurs three times in a row, or one of three or more words twice
    skipped-source     the output is shorter for its source than nearly all references are; or, where attention was
                       returned, a stretch of the source has received none
    unlike-training    the source is longer than nearly all others, or has more pairs of neighboring tokens that are new
    unknown-tokens     the source or the output has tokens that the vocabulary does not
    numbers-differ     a number of the source is not in the output, or the reverse
    placeholder-lost   a placeholder, tag, URL or e-mail address of the source is not exactly as often in the output
    term-missing       the source has a term of the glossary, and the output none of its target variants

An output of a translation memory has no flag but ``from-memory`` (`weft.translation.translation_memory`).

What is normal depends on the pairs: inflected forms may equal their lemmas, and dates change their numbers. So
`weft.evaluation.flag_rules` learns `FlagRules`, and confidence.json has them: a flag that more than `MAX_RATE` of the
validation references would have is off, and the limits of lengths and of new pairs of tokens are quantiles. Without a
calibration, only flags are given that are right for any pairs: `ALWAYS`. Torch is not imported here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.data.reading.glossary import is_missing
from weft.search.repetition import runs
from weft.text import specials
from weft.text.words import words
from weft.translation.neighbors import NO_NEIGHBORS, Names, Neighbors, read_neighbors

if TYPE_CHECKING:
    from weft.search.ranking import HypothesisArrays
    from weft.text.id_rows import IdRows
    from weft.translation.results import Translation

FLAGS = (
    *("untranslated", "cut", "repeats", "skipped-source"),
    *("unlike-training", "unknown-tokens", "numbers-differ", "placeholder-lost", "term-missing"),
)
ALWAYS = ("cut", "unknown-tokens", "placeholder-lost", "term-missing")
"""Flags that need no calibration."""
MAX_RATE = 0.02
"""The share of validation references that may have a flag that is meaningful for a run."""
COPIED_SHARE = 0.75
MIN_STRETCH = 3
"""Source tokens that a stretch without attention has, at least."""
BY_END = 0
"""`weft.search.ranking.BY_END`, which is not imported: that imports torch."""
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
PLACEHOLDER = re.compile(
    r"\{[A-Za-z_]?[\w.:!\[\]-]*\}"  # {name}, {0:.2f}, {}
    r"|%\(\w+\)[#0 +-]*+\d*+(?:\.\d++)?[diouxXeEfFgGcrsa]"  # %(name)s
    r"|%[#0+-]*+\d*+(?:\.\d++)?[diouxXeEfFgGcrsa]\b"  # %s, %5.2f
    r"|</?[A-Za-z][^<>]{0,200}>"  # <x id="1"/>, </b>
    r"|https?://[^\s<>\"']+[^\s<>\"'.,;:!?)]"
    r"|(?<![\w.+-])[\w.+-]{1,64}+@[\w-]+(?:\.[\w-]+)+"
)
"""Text that must come out as it went in."""
PLACEHOLDER_MARK = re.compile("[{%<@:]")
"""A character that every placeholder has one of."""
REPETITION = re.compile(r"(..?)\1\1|(.{3,})\2", re.DOTALL)
"""A repeated phrase in a text that has one character for each word."""
MAX_LETTERS = 0xD000
"""Different words that have a character each, fewer than there are before the surrogates."""
UNKNOWN = specials.SPECIALS[specials.UNKNOWN]

TextRule = Callable[[str, str], bool]
"""Whether a source and an output have a flag."""


@dataclass(frozen=True)
class FlagRules:
    """Rules for normal outputs of a run."""

    off: tuple[str, ...] = tuple(name for name in FLAGS if name not in ALWAYS)
    """Flags that are not given."""
    least_ratio: float = 0.0
    """The fewest output tokens per source token."""
    least_attention: float = 0.0
    """The least attention of a stretch of source tokens, relative to an even distribution."""
    longest: int = 1_000_000
    """The most source tokens."""
    novelty: float = 1.0
    """The largest share of neighboring source tokens that are not neighbors in the training data."""
    neighbors: Neighbors = NO_NEIGHBORS
    """Those of the sources of the training data."""


NO_RULES = FlagRules()
"""Those of a run that is not calibrated."""


def flags_of(translation: Translation, rules: FlagRules, of_tokens: Iterable[str] | None = None) -> tuple[str, ...]:
    """The flags of an output, in the order of `FLAGS`; ``of_tokens``: `flags_of_tokens`, if they are known."""
    others = flags_of_tokens(translation, rules) if of_tokens is None else of_tokens
    text, terms = translation.text, translation.terms
    if terms and is_missing(terms, text):
        others = (*others, "term-missing")
    return all_flags(translation.source, text, rules, others)


def all_flags(source: str, text: str, rules: FlagRules, others: Iterable[str]) -> tuple[str, ...]:
    """The flags of two texts and other ones, in the order of `FLAGS`, without those that are off."""
    flags = {*others, *text_flags(source, text, off=rules.off)}
    return tuple(name for name in FLAGS if name in flags and name not in rules.off) if flags else ()


def flags_of_tokens(translation: Translation, rules: FlagRules) -> set[str]:
    """The flags that are read off the tokens of source and output, and off attention."""
    flags = {
        "cut": translation.ended != "end",
        "skipped-source": skips_source(translation, rules),
        "unlike-training": is_unlike_training(translation, rules),
        "unknown-tokens": UNKNOWN in translation.source_tokens or specials.UNKNOWN in translation.ids,
    }
    return {name for name, is_set in flags.items() if is_set}


def flags_of_batch(
    hypotheses: HypothesisArrays, sources: IdRows, names: Names, rules: FlagRules
) -> list[tuple[str, ...]]:
    """`flags_of_tokens` of the best hypotheses of a batch without attention; ``names``: the tokens of source ids."""
    flags = {
        "cut": hypotheses.ended_BN[:, 0] != BY_END,
        "skipped-source": (1 + hypotheses.token_counts_BN[:, 0]) / (1 + sources.lengths_B) < rules.least_ratio,
        "unlike-training": (sources.lengths_B > rules.longest)
        | (rules.neighbors.novelties(sources, names) > rules.novelty),
        "unknown-tokens": batch_unknown(hypotheses, sources) > 0,
    }
    rows = np.column_stack(list(flags.values())).tolist()
    return [tuple(name for name, is_set in zip(flags, row, strict=True) if is_set) for row in rows]


def batch_unknown(hypotheses: HypothesisArrays, sources: IdRows) -> np.ndarray:
    """The unknown tokens of each source and its best hypothesis."""
    tokens_BT = hypotheses.tokens_BNT[:, 0]
    unknown_BT = (tokens_BT == specials.UNKNOWN) & (np.arange(tokens_BT.shape[1]) < hypotheses.token_counts_BN[:, :1])
    row_of_token_N = np.repeat(np.arange(len(sources)), sources.lengths_B)
    unknown_B = np.bincount(row_of_token_N[sources.ids_N == specials.UNKNOWN], minlength=len(sources))
    counts_B: np.ndarray = unknown_B + unknown_BT.sum(1)
    return counts_B


def text_flags(source: str, text: str, *, off: Sequence[str] = ()) -> set[str]:
    """The flags that two texts have whatever was searched: also those of a reference."""
    return {name for name, rule in _text_rules(tuple(off)) if rule(source, text)}


@lru_cache(maxsize=16)
def _text_rules(off: tuple[str, ...]) -> tuple[tuple[str, TextRule], ...]:
    """The rules that are not off."""
    return tuple((name, rule) for name, rule in TEXT_RULES.items() if name not in off)


def is_untranslated(source: str, text: str) -> bool:
    """Whether an output is its source, or three quarters of its words (of at least four) are copied from there."""
    units, source_units = text.split(), source.split()
    if len(units) == len(source_units) and text.casefold().split() == source.casefold().split():
        return any(character.isalpha() for character in text)
    if len(units) < 2 or len(set(units).intersection(source_units)) < 2:  # most outputs: the rest takes longer
        return False
    output = [word for word in words(text.casefold()) if word.isalpha() and len(word) > 1]
    if len(output) < 4:
        return False
    given = Counter(words(source.casefold()))
    return sum((Counter(output) & given).values()) >= COPIED_SHARE * len(output)


def repeats(text: str) -> bool:
    """Whether a phrase of words occurs three times in a row, or one of three or more words twice."""
    units = text.split()
    if len(units) < 3:
        return False
    different = set(units)
    if len(different) > len(units) - 2:  # nothing occurs three times, nor three words twice
        return False
    letters = {unit: chr(number) for number, unit in enumerate(different)}
    if len(different) < MAX_LETTERS and REPETITION.search("".join(map(letters.__getitem__, units))) is None:
        return False
    for length in range(1, len(units) // 2 + 1):
        copies = 2 if length >= 3 else 3
        for start, stop in runs(units, length):
            if stop - start >= copies * length and any(map(str.isalpha, "".join(units[start : start + length]))):
                return True
    return False


def numbers_differ(source: str, text: str) -> bool:
    """Whether the numbers of two texts differ, separators, leading zeros and placeholders aside."""
    if NUMBER.findall(source) == NUMBER.findall(text):
        return False
    return _normalized_numbers(source) != _normalized_numbers(text)


def _normalized_numbers(text: str) -> list[str]:
    numbers = NUMBER.findall(PLACEHOLDER.sub(" ", text))
    return sorted(re.sub(r"[.,]", "", number).lstrip("0") or "0" for number in numbers)


def loses_placeholders(source: str, text: str) -> bool:
    """Whether a placeholder of the source is not exactly as often in the output."""
    if PLACEHOLDER_MARK.search(source) is None:
        return False
    expected = Counter(PLACEHOLDER.findall(source))
    return any(text.count(placeholder) != count for placeholder, count in expected.items())


def skips_source(translation: Translation, rules: FlagRules) -> bool:
    """Whether part of the source seems to have no counterpart in the output."""
    source_length = len(translation.source_tokens)
    if (1 + len(translation.ids)) / (1 + source_length) < rules.least_ratio:
        return True
    return stretch_attention(translation) < rules.least_attention


def stretch_attention(translation: Translation) -> float:
    """The attention of the least attended stretch of source tokens, of a uniform share 1; 1 if it is not known.

    That of a stretch is the largest of its tokens.
    """
    received = attention_received(translation)
    stretches = [received[start : start + MIN_STRETCH] for start in range(len(received) - MIN_STRETCH + 1)]
    return min(map(max, stretches), default=1.0)


def attention_received(translation: Translation) -> list[float]:
    """The attention of each source token, the end token aside; empty if it is not known.

    Its sum over all output tokens, relative to output tokens per source token.
    """
    attention = translation.attention
    if attention is None or attention.ndim != 2 or not len(attention):
        return []
    received: list[float] = (attention.sum(0)[:-1] * (attention.shape[1] / len(attention))).tolist()
    return received


def skipped_stretches(translation: Translation, rules: FlagRules) -> list[range]:
    """The stretches of source tokens that have received less attention than those of nearly all validation sources."""
    stretches: list[range] = []
    start = 0
    for position, received in enumerate([*attention_received(translation), 1.0]):
        if received >= rules.least_attention:
            stretches += [range(start, position)] if position - start >= MIN_STRETCH else []
            start = position + 1
    return stretches


def is_unlike_training(translation: Translation, rules: FlagRules) -> bool:
    """Whether a source is longer, or has more new pairs of neighboring tokens, than nearly all validation sources."""
    tokens = translation.source_tokens
    return len(tokens) > rules.longest or rules.neighbors.novelty(tokens) > rules.novelty


TEXT_RULES: dict[str, TextRule] = {
    "untranslated": is_untranslated,
    "repeats": lambda _, text: repeats(text),
    "numbers-differ": numbers_differ,
    "placeholder-lost": loses_placeholders,
}


def rules_record(rules: FlagRules) -> dict[str, Any]:
    """For JSON; `read_rules` is the inverse."""
    return {
        "off": list(rules.off),
        "least_ratio": rules.least_ratio,
        "least_attention": rules.least_attention,
        "longest": rules.longest,
        "novelty": rules.novelty,
        "neighbors": rules.neighbors.record(),
    }


def read_rules(content: Any) -> FlagRules:
    """The rules of a file; `ValueError`, `KeyError` or `TypeError` if something is wrong in it."""
    numbers = [content[name] for name in ("least_ratio", "least_attention", "longest", "novelty")]
    if any(isinstance(one, bool) or not isinstance(one, int | float) or not 0 <= one <= 1e6 for one in numbers):
        raise ValueError("flags: expected numbers from 0 to 1,000,000")
    if not isinstance(content["off"], list) or not set(content["off"]) <= set(FLAGS):
        raise ValueError(f"flags: off: expected names among {', '.join(FLAGS)}")
    neighbors = read_neighbors(content["neighbors"])
    return FlagRules(tuple(content["off"]), numbers[0], numbers[1], int(numbers[2]), numbers[3], neighbors)
