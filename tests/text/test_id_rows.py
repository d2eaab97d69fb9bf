"""Token ids as arrays behave like lists of lists."""

import numpy as np
import pytest

from weft.text.id_rows import IdRows

ROWS = [[5, 6, 7], [], [8], [9, 10]]


def test_rows_are_lists():
    rows = IdRows.of(ROWS)
    assert list(rows) == ROWS and rows == ROWS and rows != ROWS[1:] and len(rows) == 4
    assert rows[-1] == [9, 10] and rows[1:3] == [[], [8]] and all(type(id) is int for id in rows[0])
    assert IdRows.of(rows) is rows and not len(IdRows.of([]))
    with pytest.raises(IndexError):
        rows[4]


def test_selected_rows_keep_the_given_order():
    assert IdRows.of(ROWS).select([3, 1, 0, 3]) == [[9, 10], [], [5, 6, 7], [9, 10]]
    assert IdRows.of(ROWS).select(np.zeros(0, np.int64)) == []


@pytest.mark.parametrize(("before", "after"), [((), (2,)), ((1, 3), (2,)), ((), ()), ((4,), (2, 3))])
def test_a_frame_is_around_every_text_but_empty_ones(before, after):
    assert IdRows.of(ROWS).framed(before, after) == [[*before, *row, *after] if row else [] for row in ROWS]


def test_parts_are_concatenated():
    parts = [IdRows.of(part) for part in (ROWS[:2], ROWS[2:])]
    assert IdRows.concatenate(parts) == ROWS
    assert IdRows.concatenate([]) == []
