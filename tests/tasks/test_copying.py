from random import Random

import pytest

from weft.tasks import copying

EXPECTED = {copying.copy: list, copying.reverse: lambda letters: letters[::-1], copying.sort: sorted}


@pytest.mark.parametrize("task", EXPECTED)
def test_targets_and_links(task):
    random = Random(1)
    for _ in range(300):
        pair = task(random, length=7, symbols=4)
        source, target = pair.source.split(" "), pair.target.split(" ")
        assert target == EXPECTED[task](source)
        assert 1 <= len(source) <= 7 and set(source) <= set("abcd")
        assert sorted(left for left, _ in pair.links) == list(range(len(source)))
        assert sorted(right for _, right in pair.links) == list(range(len(source)))
        assert all(source[left] == target[right] for left, right in pair.links)


def test_sort_keeps_the_order_of_equal_letters():
    assert copying._permuted(["b", "a", "b", "a"], [1, 3, 0, 2]).links == ((0, 2), (1, 0), (2, 3), (3, 1))
    random = Random(2)
    for _ in range(50):
        pair = copying.sort(random, symbols=2)
        source = pair.source.split(" ")
        for letter in "ab":
            rights = [right for left, right in pair.links if source[left] == letter]
            assert rights == sorted(rights)


def test_all_lengths_occur():
    random = Random(3)
    assert {len(copying.copy(random).source.split(" ")) for _ in range(500)} == set(range(1, 13))
