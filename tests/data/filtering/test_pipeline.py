"""Pipelines: every pair has one drop reason, blocks do not matter, and duplicates are those a set finds."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from weft.data.filtering.duplicates import Hashes, decide_duplicates
from weft.data.filtering.noise import Noise
from weft.data.filtering.pipeline import KEPT, Outcome, Pipeline
from weft.data.filtering.steps import Call, Duplicates, Identical, Length, Lowercase, Pattern, Prefix, Replace
from weft.data.pairs import Pair

TEXT = st.text(st.sampled_from("aAb ."), max_size=4)
PAIRS = st.lists(st.builds(Pair, TEXT, TEXT, st.none()), max_size=25)
STEPS = [
    Length(min=1, max=3, unit="characters"),
    Lowercase(),
    Duplicates(),
    Noise(drop=0.3, unit="characters"),
    Identical(),
    Pattern(expression="b", keep=False, side="target"),
    Duplicates(of="source"),
    Prefix(text="<2x>"),
    Call(function=lambda pair: len(pair.source) != 7, name="seven"),
    Duplicates(of="target"),
]
PIPELINES = st.lists(st.sampled_from(STEPS), max_size=6)


def slowly(steps, pairs, seed=1):
    """One pair after another, a set for each duplicates step: the pairs kept, and the drop reason of each."""
    seen = [set() for _ in steps]
    kept, drop_reasons = [], []
    for pair in pairs:
        reason, noises = KEPT, 0
        for place, step in enumerate(steps):
            if isinstance(step, Duplicates):
                text = {"pair": pair[:2], "source": pair.source, "target": pair.target}[step.of]
                if text in seen[place]:
                    reason = place
                    break
                seen[place].add(text)
                continue
            (after,) = step.apply([pair], f"{seed}:{noises}".encode())
            noises += isinstance(step, Noise)
            if after is None:
                reason = place
                break
            pair = after
        drop_reasons.append(reason)
        if reason == KEPT:
            kept.append(pair)
    return kept, drop_reasons


def drop_duplicates(outcomes):
    """The outcomes of consecutive blocks of a corpus with their duplicates dropped."""
    seen = {}
    for outcome in outcomes:
        drop_reasons = list(outcome.drop_reasons)
        for step in sorted(outcome.hashes):
            known = seen.setdefault(step, set())
            for row, number in enumerate(outcome.hashes[step]):
                if number is None or KEPT < drop_reasons[row] < step:
                    continue
                if number in known:
                    drop_reasons[row] = step
                else:
                    known.add(number)
        left = [place for place, row in enumerate(outcome.rows) if drop_reasons[row] == KEPT]
        yield Outcome(
            [outcome.pairs[place] for place in left],
            [outcome.rows[place] for place in left],
            drop_reasons,
            outcome.hashes,
        )


@given(PIPELINES, PAIRS, st.integers(1, 9))
def test_in_blocks_of_any_size_a_pipeline_does_what_it_does_pair_by_pair(steps, pairs, size):
    pipeline = Pipeline(steps, seed=1)
    blocks = [pairs[start : start + size] for start in range(0, len(pairs), size)]
    outcomes = list(drop_duplicates(map(pipeline.run, blocks)))
    kept, drop_reasons = slowly(steps, pairs)
    assert [pair for outcome in outcomes for pair in outcome.pairs] == kept
    assert [reason for outcome in outcomes for reason in outcome.drop_reasons] == drop_reasons
    for outcome in outcomes:
        assert outcome.rows == [row for row, reason in enumerate(outcome.drop_reasons) if reason == KEPT]
    assert drop_reasons.count(KEPT) == len(kept) and all(KEPT <= reason < len(steps) for reason in drop_reasons)


@given(PIPELINES, PAIRS, st.integers(1, 5))
def test_recorded_arrays_give_the_same_decisions(steps, pairs, sorted_rows):
    pipeline = Pipeline(steps, seed=1)
    outcome = pipeline.run(pairs)
    hashes = {
        step: Hashes(np.array([n or 0 for n in values], np.uint64), np.array([n is not None for n in values], bool))
        for step, values in outcome.hashes.items()
    }
    before = np.array(outcome.drop_reasons, np.int16)
    final = decide_duplicates(before, hashes, sorted_rows=sorted_rows)
    assert final.dtype == np.int16 and final.tolist() == slowly(steps, pairs)[1]
    assert before.tolist() == outcome.drop_reasons


def test_a_pair_that_a_later_step_drops_is_still_the_first():
    steps = [Duplicates(of="source"), Length(min=2)]
    (outcome,) = drop_duplicates([Pipeline(steps, seed=1).run([Pair("a b", "c"), Pair("a b", "c d")])])
    assert outcome.drop_reasons == [1, 0] and outcome.pairs == []


def test_duplicates_are_recorded_as_the_pair_was_at_the_step():
    pairs = [Pair("A", "x"), Pair("", "x"), Pair("a", "x")]
    outcome = Pipeline([Length(), Duplicates(), Lowercase(), Duplicates(of="source")], seed=1).run(pairs)
    assert outcome.pairs == [Pair("a", "x"), Pair("a", "x")] and outcome.rows == [0, 2]
    assert outcome.drop_reasons == [KEPT, 0, KEPT]
    first, second = outcome.hashes[1], outcome.hashes[3]
    assert first[1] is None and second[1] is None
    assert first[0] != first[2] and second[0] == second[2]


def test_for_evaluation_only_what_holds_everywhere_is_left():
    steps = [
        Length(min=3),
        Lowercase(),
        Noise(drop=1.0),
        Prefix(text="<2x>"),
        Duplicates(),
        Replace(expression="b", replacement="c"),
    ]
    pipeline = Pipeline(steps, seed=1)
    pipeline = pipeline.for_evaluation()
    assert pipeline.steps == (steps[1], steps[3], steps[5])
    assert pipeline.run([Pair("A b", "B")] * 2).pairs == [Pair("<2x> a c", "c")] * 2


def test_a_pipeline_without_steps_keeps_everything():
    pairs = [Pair("a", "b"), Pair("", "")]
    assert Pipeline([], seed=1).run(pairs) == Outcome(pairs, [0, 1], [KEPT, KEPT], {})


def test_noise_is_drawn_by_the_seed_and_not_by_what_stands_before_it():
    pairs = [Pair("a b c d e f g h", "x")] * 2
    noise = Noise(drop=0.5)
    alone = Pipeline([noise], seed=1).run(pairs).pairs
    assert alone[0] == alone[1] == Pipeline([Length(), noise], seed=1).run(pairs).pairs[0]
    assert any(Pipeline([noise], seed=seed).run(pairs).pairs != alone for seed in range(2, 6))
    twice = [
        Pipeline([Noise(shuffle_distance=3), Noise(shuffle_distance=3)], seed=seed).run(pairs).pairs[0]
        for seed in range(8)
    ]
    keys = [f"{seed}:0".encode() for seed in range(8)]
    alike = [Noise(shuffle_distance=3).apply(Noise(shuffle_distance=3).apply(pairs[:1], key), key)[0] for key in keys]
    assert twice != alike
