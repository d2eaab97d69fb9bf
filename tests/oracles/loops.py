"""The fraction of sequences with a loop, literally: every stretch of every sequence."""

from collections.abc import Sequence


def is_loop(tokens: Sequence[int]) -> bool:
    """One phrase of up to 16 tokens, 3 or more times (the last copy may go on), over 10 or more tokens."""
    return len(tokens) >= 10 and any(
        len(tokens) >= 3 * period and all(tokens[t] == tokens[t - period] for t in range(period, len(tokens)))
        for period in range(1, 17)
    )


def loop_share(sequences: Sequence[Sequence[int]]) -> float:
    looping = 0
    for tokens in sequences:
        stretches = (tokens[start:stop] for start in range(len(tokens)) for stop in range(start + 1, len(tokens) + 1))
        looping += any(is_loop(stretch) for stretch in stretches)
    return looping / len(sequences)
