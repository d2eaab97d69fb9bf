"""How much is trained in a given time."""

import pytest

from weft.apps.tuning.candidates import find_candidates
from weft.apps.tuning.plan import MIN_CANDIDATES, TuningPlan, fitted, make_plan, number_of_validations, validation_share
from weft.errors import RecipeError
from weft.pairs.halving import CandidateCost
from weft.recipe import make_recipe

RECIPE = make_recipe({}, ["training.steps=1600", "training.validate_every=200", "training.warmup=400"])
CANDIDATES = find_candidates(RECIPE)


def plan_for(seconds, speed=CandidateCost(1.0, 0.1, 0.5), **options):
    speeds = {candidate.name: speed for candidate in CANDIDATES}
    return make_plan(CANDIDATES, speeds, seconds=seconds, parallel=1, **options)


def test_a_long_time_trains_all_candidates_and_all_steps():
    plan = plan_for(1e6)
    assert plan.candidates == [candidate.name for candidate in CANDIDATES]
    assert plan.steps == 1600 and plan.rungs == [400, 800, 1600] and plan.validations == 8


def test_the_expected_time_fits():
    for seconds in (100, 300, 1_000):
        plan = plan_for(seconds)
        assert plan.seconds <= 0.9 * seconds
        assert all(step % (plan.steps // plan.validations) == 0 for step in plan.rungs)


def test_candidates_are_left_out_before_less_than_half_of_the_steps_is_trained():
    few, fewer = plan_for(400), plan_for(150)
    assert MIN_CANDIDATES < len(few.candidates) < len(CANDIDATES) and few.steps >= 800
    assert len(fewer.candidates) == MIN_CANDIDATES and fewer.steps < 800
    assert fewer.candidates == [candidate.name for candidate in CANDIDATES[:MIN_CANDIDATES]]


def test_far_too_little_time_is_refused_with_what_is_needed():
    with pytest.raises(RecipeError) as refused:
        plan_for(20)
    message = "20 s are left after measuring the speed, time for 8 steps of each candidate; give at least 1 min more"
    assert str(refused.value) == f"minutes: {message}"
    assert plan_for(80).steps >= 80


def test_little_time_is_for_fewer_validations():
    recipe = make_recipe({}, ["training.steps=1600", "training.validate_every=50"])
    candidates = find_candidates(recipe)
    speeds = dict.fromkeys([candidate.name for candidate in candidates], CandidateCost(1.0, 0.1))
    plans = [make_plan(candidates, speeds, seconds=seconds, parallel=1) for seconds in (1e6, 100, 60)]
    assert [plan.validations for plan in plans] == [24, 16, 8]
    assert all(plan.steps >= 10 * plan.validations for plan in plans)


def test_candidates_that_could_not_be_measured_are_not_planned():
    speeds = {candidate.name: CandidateCost(1.0, 0.1) for candidate in CANDIDATES if candidate.name != "wider"}
    plan = make_plan(CANDIDATES, speeds, seconds=1e6, parallel=1)
    assert "wider" not in plan.candidates and len(plan.candidates) == len(CANDIDATES) - 1


def test_slow_validations_translate_fewer_sentences():
    recipe = make_recipe({}, ["training.metric=bleu", "training.valid_sentences=1000"])
    candidates = find_candidates(recipe)
    slow = dict.fromkeys([candidate.name for candidate in candidates], CandidateCost(1.0, 0.1, 60.0))
    plan = make_plan(candidates, slow, seconds=3_600.0, parallel=2)
    assert plan.valid_sentences == round(1000 * 0.25 * 3_600 * 2 / (60 * (9 * 4 + 5 * 4 + 3 * 8)))
    assert make_plan(candidates, slow, seconds=1e9, parallel=2).valid_sentences == 1000
    assert make_plan(candidates, slow, seconds=600.0, parallel=2).valid_sentences == 100


def test_the_share_of_validations():
    speeds = [CandidateCost(0.0, 0.1, 2.0)] * 4  # two rungs: four candidates with 4 validations each, three with 4 more
    assert validation_share(speeds, 8, seconds=100.0, parallel=1) == 25 / (2 * (4 * 4 + 3 * 4))
    assert validation_share(speeds, 8, seconds=1e9, parallel=1) == 1.0
    assert validation_share([CandidateCost(0.0, 0.1)], 8, seconds=1.0, parallel=1) == 1.0


def test_validations_are_as_frequent_as_the_recipe_wants():
    for every, expected in ((0, 8), (400, 8), (100, 16), (10, 24)):
        assert (
            number_of_validations(make_recipe({}, ["training.steps=1600", f"training.validate_every={every}"]))
            == expected
        )


def test_what_is_counted_in_steps_or_validations_is_scaled():
    changes = ["training.patience=6", "training.decay_patience=2", "training.valid_sentences=300"]
    recipe = make_recipe({}, ["training.steps=1600", "training.validate_every=50", "training.warmup=400", *changes])
    training = fitted(
        recipe, TuningPlan([], steps=160, rungs=[], validations=16, valid_sentences=150, seconds=0.0)
    ).training
    assert (training.steps, training.warmup, training.validate_every) == (160, 40, 10)  # a tenth of everything
    assert (training.patience, training.decay_patience, training.valid_sentences) == (3, 1, 150)
    assert training.learning_rate == recipe.training.learning_rate


def test_never_stays_never():
    recipe = make_recipe({}, ["training.steps=1600", "training.patience=0", "training.warmup=0"])
    training = fitted(recipe, TuningPlan([], steps=8, rungs=[], validations=8, valid_sentences=9, seconds=0.0)).training
    assert (training.patience, training.warmup, training.validate_every) == (0, 0, 1)
