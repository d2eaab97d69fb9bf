"""Successive halving against its literal enumeration."""

import math
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.pairs.halving import (
    CandidateCost,
    Standing,
    affordable_steps,
    elapsed,
    expected_seconds,
    ranked,
    rung_sizes,
    rung_steps,
    survivors,
)


@pytest.mark.parametrize(
    ("candidates", "sizes"),
    [
        (1, [1]),
        (2, [2]),
        (3, [3]),
        (4, [4, 3]),
        (5, [5, 3]),
        (6, [6, 3]),
        (7, [7, 4, 3]),
        (8, [8, 4, 3]),
        (9, [9, 5, 3]),
    ],
)
def test_half_of_each_rung_continues_and_at_least_three(candidates, sizes):
    assert rung_sizes(candidates) == sizes


def test_every_rung_is_twice_as_far():
    assert rung_steps(80, 3) == [20, 40, 80]
    assert rung_steps(80, 1) == [80]


def test_equal_scores_are_ordered_by_loss_then_by_the_given_order():
    standings = [Standing("a", 1.0, 2.0), Standing("b", 3.0, 9.0), Standing("c", 1.0, 1.0), Standing("d", 1.0, 2.0)]
    assert [standing.name for standing in ranked(standings)] == ["b", "c", "a", "d"]


@given(st.lists(st.integers(0, 20), max_size=6), st.integers(1, 4))
def test_elapsed_is_that_of_a_simulation_second_by_second(durations, parallel):
    waiting, running, now = [duration for duration in durations if duration], [], 0
    while waiting or running:
        while waiting and len(running) < parallel:
            running.append(waiting.pop(0))
        running = [left - 1 for left in running if left > 1]
        now += 1
    assert elapsed(durations, parallel) == now


def test_the_expected_time_adds_up_the_rungs():
    speeds = [CandidateCost(2.0, 0.5, 3.0)] * 4
    first = 2.0 + 8 * 0.5 + 4 * 3.0  # four candidates to step 8 with 4 of 8 validations
    second = 2.0 + 8 * 0.5 + 4 * 3.0
    assert expected_seconds(speeds, 16, validations=8, parallel=1) == 4 * first + 3 * second
    assert expected_seconds(speeds, 16, validations=8, parallel=4) == first + second


@given(st.integers(1, 9), st.integers(1, 3), st.floats(1, 5_000), st.integers(8, 2_000))
def test_affordable_steps_are_the_most_that_fit(candidates, parallel, seconds, limit):
    speeds = [CandidateCost(1.0, 0.01 * (1 + number), 0.2) for number in range(candidates)]
    fitting = [
        steps
        for steps in range(8, limit + 1, 8)
        if expected_seconds(speeds, steps, validations=8, parallel=parallel) <= seconds
    ]
    assert affordable_steps(speeds, seconds, validations=8, parallel=parallel, limit=limit) == max(fitting, default=8)


def enumerated_survivors(scores, kept):
    """Literally: the set of that size of which no member is worse than one outside it."""
    for chosen in permutations(scores, kept):
        outside = [scores[name] for name in scores if name not in chosen]
        values = [scores[name] for name in chosen]
        if values == sorted(values, reverse=True) and all(value >= other for value in values for other in outside):
            return list(chosen)
    raise AssertionError


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=7, unique=True))
def test_the_better_half_survives(values):
    scores = {f"c{number}": float(value) for number, value in enumerate(values)}
    standings = [Standing(name, score, 1.0) for name, score in scores.items()]
    costs = dict.fromkeys(scores, CandidateCost(0.0, 1.0))
    kept = {1: 1, 2: 2, 3: 3, 4: 3, 5: 3, 6: 3, 7: 4}[len(values)]
    expected = enumerated_survivors(scores, kept)
    assert survivors(standings, [4, 8], costs, seconds=1e9, parallel=1) == expected


def test_fewer_survive_if_the_time_is_short_and_at_least_one():
    standings = [Standing(name, score, 1.0) for name, score in (("a", 1.0), ("b", 3.0), ("c", 2.0), ("d", 0.0))]
    costs = dict.fromkeys("abcd", CandidateCost(1.0, 1.0))
    seconds = 2 * (1.0 + 4.0)  # two of them from step 4 to 8
    assert survivors(standings, [4, 8], costs, seconds=seconds, parallel=1) == ["b", "c"]
    assert survivors(standings, [4, 8], costs, seconds=seconds, parallel=2) == ["b", "c", "a"]
    assert survivors(standings, [4, 8], costs, seconds=-5.0, parallel=1) == ["b"]
    further = seconds + 2 * (1.0 + 8.0)  # … and from 8 to 16
    assert survivors(standings, [4, 8, 16], costs, seconds=further, parallel=1) == ["b", "c"]
    assert survivors(standings, [4, 8, 16], costs, seconds=further - 0.1, parallel=1) == ["b"]


def test_each_following_rung_has_fewer_candidates():
    """Five of nine from step 1 to 2, then three of them from 2 to 4: 5 · 1 + 3 · 2 seconds."""
    standings = [Standing(name, float(-number), 1.0) for number, name in enumerate("abcdefghi")]
    costs = dict.fromkeys("abcdefghi", CandidateCost(0.0, 1.0))
    assert survivors(standings, [1, 2, 4], costs, seconds=11.0, parallel=1) == list("abcde")
    assert survivors(standings, [1, 2, 4], costs, seconds=10.9, parallel=1) == list("abcd")  # 4 · 1 + 3 · 2
    assert survivors(standings, [1, 2, 4], costs, seconds=9.9, parallel=1) == list("abc")  # 3 · 1 + 3 · 2
    slow_at_the_end = costs | {
        "d": CandidateCost(0.0, 3.0),
        "e": CandidateCost(0.0, 3.0),
    }  # they train in the next rung alone
    assert survivors(standings, [1, 2, 4], slow_at_the_end, seconds=15.0, parallel=1) == list("abcde")


def test_a_candidate_that_diverged_does_not_continue_unless_there_is_no_other():
    diverged = Standing("a", -math.inf, math.inf)
    costs = dict.fromkeys("ab", CandidateCost(0.0, 1.0))
    assert survivors([diverged, Standing("b", 1.0, 1.0)], [4, 8], costs, seconds=1e9, parallel=1) == ["b"]
    assert survivors([diverged], [4, 8], costs, seconds=1e9, parallel=1) == ["a"]
