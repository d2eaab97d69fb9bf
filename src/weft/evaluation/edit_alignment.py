"""The alignment behind an edit distance: which unit of an output stands for which unit of the reference."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from weft.text.string_distance import edit_distance, positions_as_bits


class AlignedUnits(NamedTuple):
    """Two positions that stand for each other; None on one side: a unit that the other does not have."""

    output: int | None
    reference: int | None


def align_units(output: Sequence[Hashable], reference: Sequence[Hashable]) -> list[AlignedUnits]:
    """An alignment with the fewest insertions, deletions and substitutions, from left to right.

    The columns of the table of distances D are computed as in `edit_distance`, and kept: `up` and `down` have the bits
    of the rows where a column rises or falls by one. Then backwards from the last cell (i, j):

        D(i, j) = D(i−1, j) + 1         if column j rises at i: an extra output unit
        D(i, j) = D(i, j−1) + 1         else if column j−1 falls at i: a reference unit is missing
        D(i, j) = D(i−1, j−1) + [≠]     else, for D(i, j) ≤ D(i−1, j) and D(i, j−1) ≥ D(i−1, j−1)
    """
    up, down = _columns(output, reference)
    i, j = len(output), len(reference)
    aligned: list[AlignedUnits] = []
    while i and j:
        bit = 1 << (i - 1)
        if up[j] & bit:
            i -= 1
            aligned.append(AlignedUnits(i, None))
        elif down[j - 1] & bit:
            j -= 1
            aligned.append(AlignedUnits(None, j))
        else:
            i, j = i - 1, j - 1
            aligned.append(AlignedUnits(i, j))
    aligned += [AlignedUnits(row, None) for row in reversed(range(i))]
    aligned += [AlignedUnits(None, column) for column in reversed(range(j))]
    return aligned[::-1]


def closest_reference(output: Sequence[Hashable], references: Sequence[Sequence[Hashable]]) -> int:
    """The number of the reference with the smallest edit distance; of several, the first."""
    distances = [edit_distance(output, reference) for reference in references]
    return distances.index(min(distances))


def _columns(left: Sequence[Hashable], right: Sequence[Hashable]) -> tuple[list[int], list[int]]:
    """Rises and falls of each column of the table, from column 0 on; the rows are the bits."""
    positions = positions_as_bits(left)
    all_rows = (1 << len(left)) - 1
    up, down = all_rows, 0
    ups, downs = [up], [down]
    for item in right:
        equal = positions.get(item, 0)
        diagonal = (((equal & up) + up) ^ up) | equal
        rises = (down | (all_rows & ~(diagonal | up))) << 1 | 1
        falls = up & diagonal
        equal |= down
        up = (falls << 1 | ~(equal | rises)) & all_rows
        down = rises & equal & all_rows
        ups.append(up)
        downs.append(down)
    return ups, downs
