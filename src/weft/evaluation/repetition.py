"""Repetition: whether outputs loop, how much they say twice, and why a loop feeds itself.

A model that has lost its way says one phrase over and over. Three ways to see it:

    find_loop      the longest stretch of one phrase over and over in a sequence, named
    repetition     over a set of outputs: how many have a loop, and rep-n, the share of n-grams that already stood in
                   the same output
                       rep-n = 1 − distinct n-grams / n-grams              Welleck et al. 2020 (seq-rep-n)
    repeat_curve   the mean log-probability of the first, second, … copy of a repeated phrase; it rises with each copy:
                   what was said often is likely to be said again          Holtzman et al. 2020, figure 4

Here rep-n is summed over the corpus; the paper takes the mean over outputs, which is the same where they are equally
long. What keeps a search from looping is `weft.search.constraints.NoLoops`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Generic, NamedTuple, TypeVar

from weft import __version__
from weft.errors import DataError
from weft.evaluation.metrics import Measure

T = TypeVar("T", bound=Hashable)

LONGEST, COPIES, TOKENS = 16, 3, 8


class Loop(NamedTuple, Generic[T]):
    """One phrase over and over."""

    phrase: tuple[T, ...]
    first: int
    """Where the first copy begins."""
    copies: int
    """How many whole copies stand side by side."""


def find_loop(
    tokens: Sequence[T], *, longest: int = LONGEST, copies: int = COPIES, tokens_at_least: int = TOKENS
) -> Loop[T] | None:
    """The loop of a sequence of words, characters or ids; None where there is none.

    A loop is a phrase of at most ``longest`` tokens that stands at least ``copies`` times side by side, over at least
    ``tokens_at_least`` tokens in all: three words said three times, or one word eight times. Of several the one that
    covers the most tokens with whole copies; of equals the one with the shortest phrase, then the first.
    """
    if longest < 1 or copies < 2:
        raise DataError(
            f"find_loop: phrases of up to {longest} tokens, {copies} copies; expected at least 1 token and 2 copies"
        )
    best: Loop[T] | None = None
    most = max(tokens_at_least, 1) - 1
    for length in range(1, min(longest, len(tokens) // copies) + 1):
        start = 0
        for place in range(length, len(tokens) + 1):
            if place < len(tokens) and tokens[place] == tokens[place - length]:
                continue
            count = (place - start) // length  # tokens[start:place] repeats with this period, and no further
            if count >= copies and count * length > most:
                best = Loop(tuple(tokens[start : start + length]), start, count)
                most = count * length
            start = place - length + 1
    return best


def repetition(outputs: Sequence[str]) -> list[Measure]:
    """The share of outputs with a loop, and rep-1 to rep-4, all in per cent.

    Words are what stands between white space. Where no output has any white space inside (Chinese, single words), the
    units are characters instead; the signature says which. An output that is too short for an n-gram does not count
    for it; where all are, nothing is repeated and rep-n is 0.
    """
    if isinstance(outputs, str):
        raise DataError("repetition: outputs are a sequence of lines, not one string")
    if not outputs:
        raise DataError("repetition: no lines to measure; expected at least 1 output")
    words = any(len(output.split()) > 1 for output in outputs)
    cut = [output.split() if words else list(output.strip()) for output in outputs]
    unit = "white-space token" if words else "code point"
    loops = sum(find_loop(tokens) is not None for tokens in cut)
    limits = f"longest:{LONGEST}|copies:{COPIES}|tokens:{TOKENS}"
    ending = f"outputs:{len(outputs)}|case:mixed|unit:{unit}|version:weft {__version__}"
    measures = [Measure("outputs with a loop", 100.0 * loops / len(outputs), f"{limits}|{ending}", "lower")]
    for n in range(1, 5):
        signature = f"n:{n}|average:corpus|{ending}"
        measures.append(Measure(f"rep-{n}", 100.0 * _repeated_share(cut, n), signature, "lower"))
    return measures


def _repeated_share(sequences: Sequence[Sequence[str]], n: int) -> float:
    total = distinct = 0
    for tokens in sequences:
        grams = [tuple(tokens[place : place + n]) for place in range(len(tokens) - n + 1)]
        total += len(grams)
        distinct += len(set(grams))
    return 1.0 - distinct / total if total else 0.0


def repeat_curve(token_log_probabilities: Sequence[float], phrase_length: int) -> list[float]:
    """The mean log-probability of a token in each copy of a phrase said over and over.

    The caller scores the phrase × n with a model and gives log p of every token, without the end mark.
    """
    if phrase_length < 1 or not token_log_probabilities or len(token_log_probabilities) % phrase_length:
        raise DataError(
            f"repeat_curve: {len(token_log_probabilities)} tokens are not whole copies of a phrase of {phrase_length}; "
            "expected every copy in full, and no end mark"
        )
    starts = range(0, len(token_log_probabilities), phrase_length)
    return [sum(token_log_probabilities[start : start + phrase_length]) / phrase_length for start in starts]
