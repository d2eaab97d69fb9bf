"""Length limits: against the equation, what they cover, and their file."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles.lengths import length_limits
from weft.errors import CheckpointError
from weft.runs.length_limits import SMALLEST, LengthLimits

PAIRS = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 200)), min_size=1, max_size=40)


def learn(pairs):
    sources, targets = np.array(pairs).T
    return LengthLimits.learn(sources, targets)


@given(PAIRS)
def test_the_equation(pairs):
    ratio, extra = length_limits(pairs)
    found = learn(pairs)
    assert found.max_ratio == pytest.approx(ratio, abs=5.1e-5) and found.max_extra == extra


@given(PAIRS)
def test_all_of_a_small_corpus_fits_with_room(pairs):
    """Fewer than 1,000 pairs: the quantile is the maximum. Two roundings may cost a token each."""
    found = learn(pairs)
    for source, target in pairs:
        assert found.limit(source) >= max(1.5 * target - 2, 2 * source + 10)


def test_a_pair_in_a_thousand_does_not_count():
    pairs = [(10, 11 + number % 7) for number in range(2000)]
    assert learn([*pairs, (1, 250), (1, 240)]).limit(10) < 40, "two misaligned pairs"
    assert learn([*pairs, *[(1, 250)] * 3]).limit(1) >= 250, "too many to be errors"
    assert learn([*pairs[:998], (1, 250)]).limit(1) >= 250, "of 999 pairs none is left out"


def test_queries_that_are_long_for_short_questions():
    """Up to nine times as long as the question, where 2 s + 10 would cut them off."""
    pairs = [(length, 15 + 7 * length + 11 * (length % 3)) for length in range(4, 20)] * 30
    found = learn(pairs)
    assert all(target > SMALLEST.limit(source) for source, target in pairs)
    assert all(target <= found.limit(source) for source, target in pairs)


def test_texts_without_a_source():
    assert learn([(0, 50)] * 9) == LengthLimits(2.0, 75)


def test_nothing_to_learn_from_or_the_smallest():
    assert LengthLimits.learn(np.zeros(0, int), np.zeros(0, int)) == learn([(5, 6)] * 3) == SMALLEST == (2.0, 10, False)


def test_the_largest_of_several():
    assert LengthLimits.largest([LengthLimits(3.5, 12), LengthLimits(2.0, 70)]) == (3.5, 70, False)
    assert LengthLimits.largest([LengthLimits(3.5, 12), LengthLimits(2.0, 70, loops=True)]) == (3.5, 70, True)
    assert LengthLimits.largest([]) == SMALLEST


def test_loops_of_one_target_in_a_thousand_are_errors():
    lengths = np.full(5000, 12)
    shares = (0.0, 5 / 5000, 6 / 5000, 1.0)
    assert [LengthLimits.learn(lengths, lengths, loop_share=share).loops for share in shares] == [
        False,
        False,
        True,
        True,
    ]


def test_what_is_set_wins():
    limits = LengthLimits(3.5, 12)
    assert [limits.limit(9), limits.limit(9, max_ratio=1.0), limits.limit(9, max_extra=0)] == [43, 21, 31]
    assert limits.limit(9, max_ratio=0.0, max_extra=0) == 0


class TestFile:
    def test_is_read_as_it_was_written(self, tmp_path):
        for loops in (False, True):
            LengthLimits(3.1416, 27, loops).write(tmp_path)
            assert LengthLimits.read(tmp_path) == (3.1416, 27, loops)

    def test_a_run_of_an_older_version_has_none(self, tmp_path):
        assert LengthLimits.read(tmp_path) == SMALLEST
        (tmp_path / "lengths.json").write_text('{"max_ratio": 3.5, "max_extra": 12}\n', "utf-8")
        assert LengthLimits.read(tmp_path) == (3.5, 12, False)

    @pytest.mark.parametrize(
        "content",
        [
            *("[]", "3", "null", "{}", '{"max_ratio": 2.0}', '{"max_ratio": "2", "max_extra": 10}'),
            *('{"max_ratio": -1, "max_extra": 10}', '{"max_ratio": NaN, "max_extra": 10}'),
            *('{"max_ratio": 2, "max_extra": 1000001}', '{"max_ratio": Infinity, "max_extra": 10}'),
            *('{"max_ratio": 2, "max_extra": 10, "loops": 1}', '{"max_ratio": 2, "max_extra": 10, "loops": null}'),
        ],
    )
    def test_a_damaged_one_is_one_line(self, tmp_path, content):
        (tmp_path / "lengths.json").write_text(content, "utf-8")
        with pytest.raises(CheckpointError) as caught:
            LengthLimits.read(tmp_path)
        assert str(caught.value) == (
            f"{tmp_path}/lengths.json: damaged; expected max_ratio and max_extra, numbers from 0 to 1,000,000, and "
            "loops, true or false; restore it, or remove it and set search.max_length and search.no_loops"
        )

    def test_no_json(self, tmp_path):
        (tmp_path / "lengths.json").write_text("{", "utf-8")
        with pytest.raises(CheckpointError, match=r"lengths\.json: damaged; it is not valid JSON"):
            LengthLimits.read(tmp_path)

    def test_a_folder_in_its_place(self, tmp_path):
        (tmp_path / "lengths.json").mkdir()
        with pytest.raises(CheckpointError, match=r"lengths\.json: cannot be read \(is a folder, expected a file\)"):
            LengthLimits.read(tmp_path)
