from collections import Counter
from random import Random

import pytest

from weft.tasks import addition


@pytest.mark.parametrize("digits", [1, 3, 20])
def test_the_target_is_the_sum(digits):
    random = Random(1)
    for _ in range(300):
        pair = addition.sample(random, digits=digits)
        left, right = pair.source.split("+")
        assert int(left) + int(right) == int(pair.target) and str(int(left)) == left and str(int(right)) == right
        assert 1 <= len(left) <= digits and 1 <= len(right) <= digits


def test_every_number_of_digits_is_as_frequent():
    random = Random(2)
    lengths = Counter(len(addition.sample(random).source.split("+")[0]) for _ in range(3000))
    assert all(900 < lengths[length] < 1100 for length in (1, 2, 3))


def test_zero_occurs():
    random = Random(3)
    assert any(addition.sample(random, digits=1).source == "0+0" for _ in range(2000))
