"""Levenshtein's table, cell by cell, and the alignment that a way back through it gives."""

from __future__ import annotations

from collections.abc import Sequence


def edit_table(left: Sequence[object], right: Sequence[object]) -> list[list[int]]:
    """D[i][j]: the distance of the first i items of the left sequence and the first j of the right one."""
    table = [[0] * (len(right) + 1) for _ in range(len(left) + 1)]
    for i in range(len(left) + 1):
        for j in range(len(right) + 1):
            if i == 0 or j == 0:
                table[i][j] = i + j
            else:
                substitution = table[i - 1][j - 1] + (left[i - 1] != right[j - 1])
                table[i][j] = min(table[i - 1][j] + 1, table[i][j - 1] + 1, substitution)
    return table


def backtrace(left: Sequence[object], right: Sequence[object]) -> list[tuple[int | None, int | None]]:
    """From the last cell to the first: a deletion if it is optimal, else an insertion if it is, else the diagonal."""
    table = edit_table(left, right)
    i, j = len(left), len(right)
    steps: list[tuple[int | None, int | None]] = []
    while i or j:
        if i and table[i][j] == table[i - 1][j] + 1:
            i -= 1
            steps.append((i, None))
        elif j and (i == 0 or table[i][j - 1] == table[i - 1][j - 1] - 1):
            j -= 1
            steps.append((None, j))
        else:
            i, j = i - 1, j - 1
            steps.append((i, j))
    return steps[::-1]
