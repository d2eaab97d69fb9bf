"""Division of a file into parts: every line once, in order, and about equally many lines in each."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from weft.translation.parts import MAX_IMBALANCE, FilePart

Blocks = st.lists(st.integers(1, 5000), max_size=60)


def sizes(parts: int, *divisions: list[int]) -> list[int]:
    return [len(FilePart(number, parts).lines(*divisions)) for number in range(1, parts + 1)]


@given(Blocks, st.integers(1, 70))
def test_every_line_is_in_one_part(blocks: list[int], count: int) -> None:
    parts = [FilePart(number, count).lines(blocks) for number in range(1, count + 1)]
    assert [line for part in parts for line in part] == list(range(sum(blocks)))
    assert max(map(len, parts)) <= max(MAX_IMBALANCE * sum(blocks) / count, -(-sum(blocks) // count))


def test_a_file_of_one_block_is_divided_by_lines() -> None:
    assert sizes(2, [3000]) == [1500, 1500]
    assert sizes(4, [3002]) == [750, 751, 750, 751]
    assert sizes(3, [2]) == [0, 1, 1] and sizes(3, []) == [0, 0, 0]


def test_blocks_are_whole_where_the_parts_are_about_equal() -> None:
    assert sizes(2, [4096] * 5) == [8192, 12288], "a fifth more than the mean"
    assert sizes(2, [4096] * 3) == [6144, 6144], "a third more would be too many"


def test_the_largest_blocks_that_give_equal_parts() -> None:
    blocks = [10] * 40
    assert sizes(2, [40] * 10, blocks) == [200, 200]
    assert sizes(3, [40] * 10, blocks) == [120, 120, 160]
    assert sizes(4, [40] * 10, blocks) == [80, 120, 80, 120]
    assert sizes(7, [40] * 10, blocks) == [50, 60, 60, 50, 60, 60, 60], "80 in a part would be too many"
