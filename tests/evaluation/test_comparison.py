"""Comparing runs on one test set."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import weft
from weft.data.pairs import Pair
from weft.evaluation.comparison import matches_of
from weft.translation.translator import Translator

TEXTS = [("a b c", "a b c"), ("b a", "b a"), ("c", "b"), ("a c", "a c"), ("b", "b"), ("a b", "a")]
PAIRS = [Pair(*texts) for texts in TEXTS]


def changed(run: Translator, group: str, **settings: Any) -> Translator:
    """The same model under other settings."""
    new = getattr(run.recipe, group).model_copy(update=settings)
    recipe = run.recipe.model_copy(update={group: new}).accepting_new_data()
    return Translator(run.model, run.tokenizers, recipe)


@pytest.fixture(scope="module")
def short(copier: Translator) -> Translator:
    """The copier, but its outputs have at most one token: the first of the source."""
    return changed(copier, "search", kind="greedy", max_length=1)


def test_scores_are_those_of_evaluate(copier: Translator, short: Translator) -> None:
    names = ["exact_match", "chrf", "token_error_rate", "distinct_1", "repetition"]
    found = weft.compare(copier, short, pairs=iter(PAIRS), metrics=names, samples=200)
    for number, run in enumerate((copier, short)):
        report = weft.evaluate(run, PAIRS, names)
        assert [metric.runs[number].value for metric in found.metrics] == [score.value for score in report.scores]
        if run is copier:
            assert [metric.signature for metric in found.metrics] == [score.signature for score in report.scores]
        assert found.searches[number] == report.search
    assert (found.pairs, found.items) == (6, 6) and found.runs == [str(copier.folder), "run 2"]
    exact = found.metrics[0]
    assert exact.runs[0].difference is None and exact.runs[1].difference is not None
    difference = exact.runs[1].difference
    assert difference.value == exact.runs[1].value - exact.runs[0].value < 0
    assert difference.interval[0] <= difference.value <= difference.interval[1] and 0.1 < difference.p_value < 0.9
    low, high = exact.runs[0].interval or (0, 0)
    assert low <= exact.runs[0].value <= high
    distinct = next(metric for metric in found.metrics if metric.name == "distinct-1")
    assert [run.interval or run.difference for run in distinct.runs] == [None, None]
    repeated = found.metrics[-1].runs[1]
    assert repeated.interval is not None and repeated.difference is None  # words there, characters here


def test_where_they_differ(copier: Translator, short: Translator) -> None:
    found = weft.compare(copier, short, pairs=PAIRS, metrics=["exact_match"], samples=100)
    (differences,) = found.outputs
    assert (differences.only_first_right, differences.only_second_right) == (3, 1)  # the second: "a" of "a b"
    assert (differences.both_right, differences.neither_right, differences.same) == (1, 1, 2)
    assert "only run 2 1" in str(found) and repr(found) == "<Comparison of 2 runs on 6 items>"
    assert json.loads(json.dumps(found.record()))["outputs"][0]["only_first_right"] == 3


def test_a_run_and_itself(copier: Translator) -> None:
    found = weft.compare(copier, copier, copier, pairs=PAIRS, samples=100, test="bootstrap")
    assert found.runs == [str(copier.folder), f"{copier.folder} (2)", f"{copier.folder} (3)"]
    differences = [run.difference for metric in found.metrics for run in metric.runs[1:] if run.difference]
    assert {(one.value, one.p_value, sum(one.interval)) for one in differences} == {(0.0, 1.0, 0.0)}
    assert [differences.same for differences in found.outputs] == [6, 6]
    assert [metric.name for metric in found.metrics] == ["BLEU", "chrF", "exact match"]  # of the recipe


def test_the_test_set_of_the_recipes(copier: Translator) -> None:
    found = weft.compare(copier, copier, limit=3, samples=100, kind="greedy")
    assert found.items == 3 and found.searches[0].startswith("search:greedy")


def test_several_references_and_best_outputs(copier: Translator) -> None:
    grouped = changed(copier, "evaluation", references="grouped")
    pairs = [*PAIRS, Pair("c", "c")]
    found = weft.compare(grouped, copier, pairs=pairs, metrics=["exact_match", "exact_match@2"], samples=100)
    assert (found.pairs, found.items) == (7, 6) and found.metrics[0].runs[0].value == pytest.approx(500 / 6)
    assert found.metrics[1].name == "exact match@2"


def test_the_edits_of_an_m2_file(copier: Translator, tmp_path: Path) -> None:
    (tmp_path / "gold.m2").write_text("S a b c\nA 0 1|||X|||b|||R|||N|||0\n\nS c\nA 0 1|||X|||b|||R|||N|||0\n", "utf-8")
    found = weft.compare(copier, copier, pairs=tmp_path / "gold.m2", metrics=["exact_match", "edit_f05"], samples=100)
    assert [metric.name for metric in found.metrics] == ["edit precision", "edit recall", "edit F0.5", "exact match"]


def test_refusals(copier: Translator, tiny: Any, tmp_path: Path) -> None:
    def refused(*runs: Any, **options: Any) -> str:
        with pytest.raises(weft.WeftError) as refusal:
            weft.compare(*runs, **options)
        return str(refusal.value)

    def of_recipe(changes: dict[str, Any]) -> Translator:
        return Translator(copier.model, copier.tokenizers, tiny(changes))

    assert refused(copier) == "compare: 1 run given; expected two or more"
    assert refused(copier, 3) == "compare: a int was given; expected a run, or the path of a run folder"
    assert refused(copier, copier, metrics=["blue"]).startswith("metric 'blue' is unknown; did you mean 'bleu'")
    assert refused(copier, copier, samples=7) == "samples: 7 was given; expected at least 100"
    first = str(copier.folder)
    other = changed(copier, "data", options={**copier.recipe.data.options, "symbols": 6})
    assert refused(copier, other) == (
        f"run 2: the sources of its test set are not those of {first}; give a file of pairs for all runs"
    )
    for target in "xy":
        (tmp_path / f"{target}.tsv").write_text(f"a b\t{target}\n", "utf-8")
    assert refused(*(changed(copier, "data", test=str(tmp_path / f"{target}.tsv")) for target in "xy")) == (
        "run 2: the targets of its test set are not those of run 1; give a file of pairs for all runs"
    )
    without = changed(copier, "data", train="pairs.tsv")
    assert refused(copier, without) == (
        "run 2: data.test: the recipe names no test pairs; set data.test, or give a file"
    )
    sources = copier.recipe.model.sources.model_copy(update={"count": 2})
    assert refused(copier, changed(copier, "model", sources=sources), pairs=PAIRS) == (
        f"run 2: 2 source columns, but {first} has 1; compare runs with the same source columns"
    )
    assert refused(of_recipe({"model.kind": "language_model"}), copier) == (
        "run 1: a language model without prompts has no outputs to compare"
    )


def test_what_is_right() -> None:
    """Sentences, whose metrics do not say: other spaces, such as before a French question mark, are not an error."""
    narrow = "occupé\u202f?"
    assert matches_of(["bleu", "chrf"])("occupé ?", [narrow]) and not matches_of(["bleu"])("occupée ?", [narrow])
    assert not matches_of(["bleu", "exact_match"])("occupé ?", [narrow]), "identity is what that metric judges"
