"""A sample against its rule stated slowly, and its fairness."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import DataError
from weft.text.tokenizer import sample


def literal_sample(items, characters, seed, size=len):
    """Order all by priority; take from the lowest until the next would not fit."""
    random = Random(seed)
    drawn = [(random.random(), place, item) for place, item in enumerate(items)]
    kept, held = [], 0
    for _, place, item in sorted(drawn):
        held += size(item)
        if held > characters:
            break
        kept.append((place, item))
    return [item for _, item in sorted(kept)]


@given(st.lists(st.text(max_size=8)), st.integers(1, 60), st.integers(0, 9))
def test_the_rule(texts, characters, seed):
    found = sample(iter(texts), characters=characters, seed=seed)
    assert found == literal_sample(texts, characters, seed)
    assert sum(map(len, found)) <= characters
    if sum(map(len, texts)) <= characters:
        assert found == texts


@given(st.lists(st.tuples(st.text(max_size=5), st.text(max_size=5))), st.integers(1, 40))
def test_pairs_with_a_size(pairs, characters):
    def size(pair):
        return len(pair[0]) + len(pair[1])

    assert sample(pairs, characters=characters, seed=3, size=size) == literal_sample(pairs, characters, 3, size)


def test_items_need_not_be_ordered():
    items = [{"text": "a"}, {"text": "b"}, {"text": "c"}]
    assert len(sample(items, characters=2, seed=0, size=lambda item: 1)) == 2


def test_every_line_has_the_same_chance():
    lines = [f"{place:03}" for place in range(50)]
    times = Counter(line for seed in range(2000) for line in sample(lines, characters=30, seed=seed))
    assert sum(times.values()) == 20_000
    assert all(abs(times[line] - 400) < 5 * 18 for line in lines), "five standard deviations of a binomial"


def test_nothing_is_held_beyond_the_bound():
    """Lines that are left out are let go as they come."""

    class Line(str):
        alive = 0

        def __init__(self, _):
            Line.alive += 1

        def __del__(self):
            Line.alive -= 1

    most = 0

    def lines():
        nonlocal most
        for number in range(5000):
            yield Line(f"{number:010}")
            most = max(most, Line.alive)

    assert len(sample(lines(), characters=500, seed=1)) == 50 and most <= 53


def test_a_sample_of_nothing():
    with pytest.raises(DataError, match=r"^a sample of 0 characters; expected 1 or more$"):
        sample([], characters=0, seed=1)
