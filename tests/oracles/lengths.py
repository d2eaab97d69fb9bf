"""The length limits that pairs give, literally: one pair after the other."""

import math


def length_limits(pairs: list[tuple[int, int]]) -> tuple[float, int]:
    """(max_ratio, max_extra) of pairs of lengths: of the source without, of the target with its end token."""
    source_tokens = target_tokens = 0
    for source, target in pairs:
        source_tokens += source
        target_tokens += target
    a = target_tokens / source_tokens if source_tokens else 0.0
    ordered = sorted(target - a * source for source, target in pairs)
    number = 1
    while number < 0.999 * len(pairs):
        number += 1
    b = ordered[number - 1]
    return max(2.0, 1.5 * a), max(10, math.ceil(1.5 * b))
