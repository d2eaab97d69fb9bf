"""What an engine is given: the limits of every output."""

import numpy as np
import pytest

from weft.errors import SearchError
from weft.recipe import SearchSettings
from weft.text.id_rows import IdRows
from weft.translation.engines.interface import TranslationRequest, as_count, max_output_length


class Unlimited:
    """A model without a maximum length."""


class Limited:
    def max_target_length(self, source_length):
        return 4


@pytest.mark.parametrize(
    ("settings", "source", "prefix", "expected"),
    [
        ({"max_ratio": 2.0, "max_extra": 10}, 6, 0, 20),
        ({"max_length": 7}, 6, 0, 7),
        ({"max_ratio": 0.0, "max_extra": 0}, 6, 0, 1),
        ({"max_length": 2}, 6, 5, 6),
        ({"max_length": 5}, 6, 5, 6),
        ({"max_ratio": 1.0, "max_extra": 0}, 6, 5, 6),
        ({"max_ratio": 1.0, "max_extra": 0}, 0, 0, 1),
    ],
)
def test_the_maximum_length(settings, source, prefix, expected):
    settings = SearchSettings(**settings)
    assert max_output_length(Unlimited(), settings, source=source, prefix=prefix) == expected
    assert max_output_length(Limited(), settings, source=source, prefix=prefix) == max(min(expected, 4), prefix, 1)


def test_a_request_counts_prompts_as_if_they_had_an_end_token():
    settings = SearchSettings(max_ratio=1.0, max_extra=0, min_ratio=0.5)
    texts = TranslationRequest(sources=[[5, 6, 7, 2], [5, 2]], prefixes=[[], []], settings=settings)
    prompts = TranslationRequest(sources=[[5, 6, 7], [5]], settings=settings, prompts=True)
    assert texts.max_lengths(Unlimited()) == prompts.max_lengths(Unlimited()) == [3, 1]
    assert texts.min_lengths() == prompts.min_lengths() == [1, 0]
    assert texts.select([1]).sources == [[5, 2]] and texts.select([1]).settings is settings


def test_bytes_of_arrays_do_not_count():
    settings = SearchSettings(max_ratio=1.0, max_extra=4, min_ratio=0.5)
    arrays = IdRows(np.zeros(3000, np.uint8), np.array([1000, 2000]))
    request = TranslationRequest(sources=arrays, settings=settings)
    assert request.max_lengths(Unlimited()) == [4, 4] and request.min_lengths() == [0, 0]


def test_counts():
    assert as_count(np.int64(3), "n_best") == 3
    for given, message in {
        "3": "n_best: '3' (str) was given, expected a whole number of at least 1",
        None: "n_best: None was given, expected a whole number of at least 1",
        True: "n_best: True (bool) was given, expected a whole number of at least 1",
        0: "n_best: 0 was given, expected at least 1",
    }.items():
        with pytest.raises(SearchError) as refusal:
            as_count(given, "n_best")
        assert str(refusal.value) == message
