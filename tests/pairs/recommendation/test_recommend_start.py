"""The learning rate for pairs on which a run is trained further."""

import pytest

from weft.pairs.profiling.inputs import PairsArgument
from weft.pairs.recommendation.recommend import recommend_recipe
from weft.recipe import make_recipe
from weft.recipe.toml import write_toml

PAIRS = "".join(f"the old king reads {number} books\tle vieux roi lit {number} livres\n" for number in range(200))


@pytest.fixture
def recommended(tmp_path):
    (tmp_path / "pairs.tsv").write_text(PAIRS, "utf-8")
    (tmp_path / "run").mkdir()

    def recommended(rate, *changes):
        settings = make_recipe({"training": {"learning_rate": rate}})
        (tmp_path / "run/recipe.toml").write_text(write_toml(settings), "utf-8")
        pairs = PairsArgument(str(tmp_path / "pairs.tsv"), None, None)
        return recommend_recipe(pairs, changes, start=tmp_path / "run")

    return recommended


def test_no_higher_than_that_of_the_run(recommended, tmp_path):
    result = recommended(5e-5)
    assert result.recipe.training.learning_rate == 5e-5
    assert f"learning rate: 5e-05 (that of {tmp_path / 'run'})" in result.lines()


def test_adapters_take_ten_times_that_of_the_run_at_most(recommended, tmp_path):
    result = recommended(5e-6, "training.lora.rank=4")
    assert result.recipe.training.learning_rate == pytest.approx(5e-5)
    assert f"learning rate: 5e-05 (ten times that of {tmp_path / 'run'})" in result.lines()


def test_adapters_take_three_times_as_much_as_weights(recommended):
    weights, adapters = (recommended(0.5, *changes) for changes in ((), ("training.lora.rank=4",)))
    assert adapters.recipe.training.learning_rate == 3 * weights.recipe.training.learning_rate
    assert any(line.endswith("(for adapters, three times that of weights)") for line in adapters.lines())


def test_the_units_are_those_of_the_run(recommended):
    assert not [line for line in recommended(0.5).lines() if " units: " in line]


def test_a_run_that_learned_at_a_higher_rate(recommended):
    result = recommended(0.5)
    assert result.recipe.training.learning_rate <= 0.001
    assert any(line.startswith("learning rate: ") and "warmup" in line for line in result.lines())


def test_a_rate_that_is_given(recommended):
    result = recommended(5e-5, "training.learning_rate=0.01")
    assert result.recipe.training.learning_rate == 0.01
    assert not [line for line in result.lines() if line.startswith("learning rate: ")]


def test_the_rate_of_the_run_is_read_even_if_it_is_unusual(recommended):
    rates = [recommended(rate).recipe.training.learning_rate for rate in (3e-4, 4e-4)]
    assert rates == [3e-4, 4e-4]


@pytest.mark.parametrize(("factor", "reason"), [(1.01, "three times that of weights"), (0.99, "ten times that of ")])
def test_adapters_whose_rate_is_near_the_limit(recommended, factor, reason):
    """Ten times the rate of the run is a little more than three times that of weights, or a little less."""
    usual = recommended(0.5).recipe.training.learning_rate
    result = recommended(factor * 0.3 * usual, "training.lora.rank=4")
    assert result.recipe.training.learning_rate == pytest.approx(min(factor, 1.0) * 3 * usual)
    [line] = [line for line in result.lines() if line.startswith("learning rate: ")]
    assert reason in line
