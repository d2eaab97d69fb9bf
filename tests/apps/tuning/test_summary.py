"""The result as a reader sees it."""

from dataclasses import replace

from weft.apps.tuning.folder import TuningFolder
from weft.apps.tuning.result import CandidateResult, EnsembleResult, TuningResult
from weft.apps.tuning.summary import next_commands, summary, table
from weft.recipe import make_recipe

BEST = CandidateResult(
    *("wider", "twice as wide", "", "finished", 80, 41.5, 42.25, (40.0, 44.0), None, 1234, 90.0, ""), ((40, 30.0),)
)
SECOND = replace(BEST, name="dropout-0.3", change="dropout 0.1 → 0.3", value=41.0, whole=42.0, p_value=0.42)
BASE = CandidateResult(
    "recipe", "as given", "", "stopped", 40, 29.5, parameters=1000, seconds=30.0, curve=((40, 29.5),)
)
FAILED = CandidateResult("lstm", "an LSTM", "", "failed", problem="not enough memory")
LEFT_OUT = CandidateResult("narrower", "half as wide", "", "left out")
ENSEMBLE = EnsembleResult(("wider", "dropout-0.3", "recipe"), 43.0, 0.75)
RESULT = TuningResult("bleu", "higher", [BEST, SECOND, BASE, FAILED, LEFT_OUT], ENSEMBLE, 80, [40, 80], 500, "tok:13a")


def test_the_table():
    assert table(RESULT) == [
        "candidate     bleu  whole set                 step  parameters  minutes  change",
        "wider        41.50  42.25 [40.00, 44.00]        80       1,234      1.5  twice as wide",
        "dropout-0.3  41.00  42.00 [40.00, 44.00]        80       1,234      1.5  dropout 0.1 → 0.3",
        "recipe       29.50                              40       1,000      0.5  as given",
        "lstm                                        failed                       not enough memory",
        "narrower                                  left out                       half as wide",
    ]


def test_what_it_means():
    assert list(summary(RESULT))[len(table(RESULT)) :] == [
        "",
        "whole set: 500 validation pairs; tok:13a",
        "best: wider (twice as wide); 0.50 better than the recipe as given at step 40",
        "the difference between wider and dropout-0.3 may be chance (p = 0.42); another seed may reverse it",
        "ensemble of wider, dropout-0.3, recipe: 43.00, 0.75 better than wider alone",
    ]


def test_a_significant_difference_a_bad_ensemble_and_none():
    significant = replace(RESULT, candidates=[BEST, replace(SECOND, p_value=0.01)])
    assert not [line for line in summary(significant) if "chance" in line]
    unknown = replace(RESULT, candidates=[replace(BEST, p_value=0.5), SECOND])
    assert not [line for line in summary(unknown) if "chance" in line]
    first_was_second = replace(RESULT, candidates=[replace(BEST, p_value=0.5), replace(SECOND, p_value=None)])
    assert [line for line in summary(first_was_second) if "(p = 0.50)" in line]
    worse = replace(RESULT, ensemble=replace(ENSEMBLE, value=42.0, gain=-0.25))
    assert list(summary(worse))[-1].endswith("42.00, 0.25 worse than wider alone")
    assert list(summary(replace(RESULT, ensemble=None)))[-1].startswith("no ensemble: no other candidate shares")
    broken = replace(RESULT, ensemble=None, pairs=0, problem="not enough memory")
    assert "no comparison on the whole validation set: not enough memory" in summary(broken)


def test_the_recipe_itself_can_be_the_best():
    result = replace(RESULT, candidates=[replace(BASE, state="finished"), BEST])
    assert "best: recipe (as given)" in summary(result)


def test_both_trained_to_the_end_are_compared_on_the_whole_set():
    result = replace(RESULT, better="lower", candidates=[BEST, replace(BASE, whole=45.0, step=80)])
    assert result.difference_from_base() == (80, 2.75)


def test_what_next():
    folder, recipe = TuningFolder("runs/my x"), make_recipe({})
    ensemble = "'runs/my x/runs/wider' --with 'runs/my x/runs/dropout-0.3' --with 'runs/my x/runs/recipe'"
    commands = [line.strip().split("  # ")[0] for line in next_commands(RESULT, folder, recipe)]
    assert commands[1:5] == [
        "weft translate 'runs/my x/runs/wider'",
        f"weft translate {ensemble}",
        f"weft evaluate {ensemble}",
        "weft train 'runs/my x/best.toml'",
    ]
    alone = replace(RESULT, ensemble=None)
    assert any("weft evaluate 'runs/my x/runs/wider'  " in line for line in next_commands(alone, folder, recipe))
    worse = replace(RESULT, ensemble=replace(ENSEMBLE, gain=-0.75))
    assert [*next_commands(worse, folder, recipe)] == [*next_commands(alone, folder, recipe)]
    model = make_recipe({"model": {"kind": "language_model"}})
    assert any("weft sample 'runs/my x/runs/wider'" in line for line in next_commands(alone, folder, model))
