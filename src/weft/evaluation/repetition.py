"""Repetition: whether outputs loop, how much they repeat, and how a loop reinforces itself.

    find_loop      the longest repetition of a phrase in a sequence
    repetition     over a set of outputs: how many have a loop, and rep-n, the fraction of n-grams that occurred
                   before in the same output
                       rep-n = 1 − distinct n-grams / n-grams              Welleck et al. 2020 (seq-rep-n)
    repeat_curve   the mean log-probability of the first, second, … copy of a repeated phrase; it rises with each copy:
                   what was repeated often is likely to be repeated again  Holtzman et al. 2020, figure 4

Here rep-n is summed over the corpus; the paper takes the mean over outputs, which is the same if they are equally long.
The constraint that keeps a search from looping is `weft.search.constraints.NoLoops`; it forbids a loop a little later
than this module counts one (`MIN_TOKENS`), so that short repetitions stay possible.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Generic, NamedTuple, TypeVar

from weft import __version__
from weft.errors import DataError
from weft.evaluation.metrics import MetricScore, ngrams
from weft.search.repetition import runs

T = TypeVar("T", bound=Hashable)

MAX_PHRASE, MIN_COPIES, MIN_TOKENS = 16, 3, 8


class Loop(NamedTuple, Generic[T]):
    """A phrase that is repeated without anything in between."""

    phrase: tuple[T, ...]
    start: int
    """The position of the first copy."""
    copies: int
    """Number of complete consecutive copies."""


def find_loop(
    tokens: Sequence[T], *, max_phrase: int = MAX_PHRASE, min_copies: int = MIN_COPIES, min_tokens: int = MIN_TOKENS
) -> Loop[T] | None:
    """The loop of a sequence of words, characters or ids; None if there is none.

    A loop is a phrase of at most ``max_phrase`` tokens that occurs at least ``min_copies`` times in a row, over at
    least ``min_tokens`` tokens in all: three words three times, or one word eight times. Among several, the one that
    covers the most tokens with complete copies; then the one with the shortest phrase, then the first.
    """
    if max_phrase < 1 or min_copies < 2:
        raise DataError(
            f"find_loop: phrases of up to {max_phrase} tokens, {min_copies} copies; expected at least 1 token and "
            "2 copies"
        )
    best: Loop[T] | None = None
    covered = max(min_tokens, 1) - 1
    for length in range(1, min(max_phrase, len(tokens) // min_copies) + 1):
        for start, stop in runs(tokens, length):
            copies = (stop - start) // length
            if copies >= min_copies and copies * length > covered:
                best = Loop(tuple(tokens[start : start + length]), start, copies)
                covered = copies * length
    return best


def repetition(outputs: Sequence[str]) -> list[MetricScore]:
    """The fraction of outputs with a loop, and rep-1 to rep-4, all in percent.

    Words are separated by white space. If no output has any white space inside (Chinese, single words), the units are
    characters instead; the signature says which. An output too short for an n-gram does not count for it; if all are,
    rep-n is 0.
    """
    if isinstance(outputs, str):
        raise DataError("repetition: outputs are a sequence of lines, not one string")
    if not outputs:
        raise DataError("repetition: no lines to measure; expected at least 1 output")
    sequences, unit = split_into_units(outputs)
    loops = sum(find_loop(tokens) is not None for tokens in sequences)
    limits = f"longest:{MAX_PHRASE}|copies:{MIN_COPIES}|tokens:{MIN_TOKENS}"
    ending = f"outputs:{len(outputs)}|case:mixed|unit:{unit}|version:weft {__version__}"
    scores = [MetricScore("outputs with a loop", 100.0 * loops / len(outputs), f"{limits}|{ending}", "lower")]
    for n in range(1, 5):
        signature = f"n:{n}|average:corpus|{ending}"
        scores.append(MetricScore(f"rep-{n}", 100.0 * _repeated_fraction(sequences, n), signature, "lower"))
    return scores


def split_into_units(outputs: Sequence[str]) -> tuple[list[list[str]], str]:
    """The words of the outputs, or their characters if no output has several words; and what the unit is called."""
    if any(len(output.split()) > 1 for output in outputs):
        return [output.split() for output in outputs], "white-space token"
    return [list(output.strip()) for output in outputs], "code point"


def _repeated_fraction(sequences: Sequence[Sequence[str]], n: int) -> float:
    grams = [ngrams(tokens, n) for tokens in sequences]
    total, distinct = sum(map(len, grams)), sum(len(set(sequence)) for sequence in grams)
    return 1.0 - distinct / total if total else 0.0


def repeat_curve(token_log_probabilities: Sequence[float], phrase_length: int) -> list[float]:
    """The mean log-probability of a token in each copy of a repeated phrase.

    The caller scores n copies of the phrase with a model and gives log p of every token, without the end token.
    """
    if phrase_length < 1 or not token_log_probabilities or len(token_log_probabilities) % phrase_length:
        raise DataError(
            f"repeat_curve: {len(token_log_probabilities)} tokens are not whole copies of a phrase of {phrase_length}; "
            "expected complete copies, and no end token"
        )
    starts = range(0, len(token_log_probabilities), phrase_length)
    return [sum(token_log_probabilities[start : start + phrase_length]) / phrase_length for start in starts]
