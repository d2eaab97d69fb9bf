"""Edit distance and longest common subsequence, bit-parallel: a column of the table in a few operations on integers."""

from __future__ import annotations

from collections.abc import Hashable, Sequence


def edit_distance(left: Sequence[Hashable], right: Sequence[Hashable]) -> int:
    """The fewest insertions, deletions and substitutions that turn one sequence into the other (Levenshtein 1966).

    Column by column of the usual table, a column kept as the bits of two integers: where it rises by one from one
    row to the next (`up`) and where it falls (`down`)   Myers 1999; Hyyrö 2003.
    """
    if not left or not right:
        return len(left) + len(right)
    positions = positions_as_bits(left)
    all_rows = (1 << len(left)) - 1
    last = 1 << (len(left) - 1)
    up, down, distance = all_rows, 0, len(left)
    for item in right:
        equal = positions.get(item, 0)
        diagonal = (((equal & up) + up) ^ up) | equal
        rises = down | (all_rows & ~(diagonal | up))
        falls = up & diagonal
        distance += bool(rises & last) - bool(falls & last)
        rises = rises << 1 | 1
        equal |= down
        up = (falls << 1 | ~(equal | rises)) & all_rows
        down = rises & equal & all_rows
    return distance


def common_subsequence(left: Sequence[Hashable], right: Sequence[Hashable]) -> int:
    """The length of the longest common subsequence.

    Column by column of the usual table, a column kept as the bits of one integer: 0 where it rises by one from one row
    to the next   Hyyrö 2004.
    """
    positions = positions_as_bits(left)
    all_rows = (1 << len(left)) - 1
    flat = all_rows
    for item in right:
        equal = flat & positions.get(item, 0)
        flat = ((flat + equal) | (flat - equal)) & all_rows
    return len(left) - flat.bit_count()


def positions_as_bits(items: Sequence[Hashable]) -> dict[Hashable, int]:
    """The positions of each item, as the bits of an integer."""
    positions: dict[Hashable, int] = {}
    for position, item in enumerate(items):
        positions[item] = positions.get(item, 0) | 1 << position
    return positions
