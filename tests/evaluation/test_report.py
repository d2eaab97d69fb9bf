"""Evaluating where a source has several references, and where a language model answers prompts."""

from __future__ import annotations

from typing import Any

import pytest

from weft.data.pairs import Pair
from weft.errors import RecipeError
from weft.evaluation.metrics import METRICS
from weft.evaluation.report import evaluate
from weft.translation.translator import Translator

PAIRS = [Pair("a b c", "c b a"), Pair("b a", "b a"), Pair("a b c", "a b c"), Pair("b a", "a"), Pair("c", "b")]


def changed(run: Translator, group: str, **settings: Any) -> Translator:
    """The same model under other settings."""
    new = getattr(run.recipe, group).model_copy(update=settings)
    return Translator(run.model, run.tokenizers, run.recipe.model_copy(update={group: new}))


@pytest.fixture
def counted(copier: Translator, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The sources of every call of `translate`."""
    calls: list[list[str]] = []
    translate = copier.translate

    def noting(sources: list[str], **options: Any) -> object:
        calls.append(list(sources))
        return translate(sources, **options)

    monkeypatch.setattr(copier, "translate", noting)
    return calls


def test_each_source_is_translated_once(copier: Translator, counted: list[list[str]]) -> None:
    found = evaluate(copier, PAIRS, ["exact_match", "bleu_lowercase", "rouge_l"], references="grouped")
    assert counted == [["a b c", "b a", "c"]]
    assert found.outputs == ["a b c", "b a", "c"]  # it has learned to copy
    references = [["c b a", "a b c"], ["b a", "a"], ["b"]]
    assert found.scores == [
        METRICS[one].compute(found.outputs, references) for one in ("exact_match", "bleu_lowercase", "rouge_l")
    ]
    assert found.scores[0].value == pytest.approx(200 / 3) and "nrefs:var" in found.scores[0].signature
    assert (found.pairs, found.items) == (5, 3)
    assert (found.record()["pairs"], found.record()["items"]) == (5, 3)


def test_each_pair_is_an_item_where_nothing_is_said(copier: Translator, counted: list[list[str]]) -> None:
    found = evaluate(copier, PAIRS, ["exact_match"])
    assert counted == [[pair.source for pair in PAIRS]]
    assert found.scores[0].value == pytest.approx(40) and "nrefs:1|" in found.scores[0].signature
    assert found.items is None and "items" not in found.record()


def test_the_perplexity_is_that_of_all_pairs(copier: Translator) -> None:
    grouped, each = (evaluate(copier, PAIRS, [], references=how) for how in ("grouped", "each"))
    assert grouped.perplexity == each.perplexity


def test_the_recipe_says_how_and_the_caller_may_say_otherwise(copier: Translator) -> None:
    run = changed(copier, "evaluation", references="grouped")
    assert evaluate(run, PAIRS, []).items == 3
    assert evaluate(run, PAIRS, [], references="each").items is None
    with pytest.raises(RecipeError, match=r"^evaluation.references: 'both' was given; use each or grouped$"):
        evaluate(run, PAIRS, [], references="both")


def test_a_metric_of_one_reference_is_refused_before_the_search(copier: Translator, counted: list[list[str]]) -> None:
    with pytest.raises(
        RecipeError, match=r"^metric 'token_error_rate' takes one reference per source; leave it out, or set"
    ):
        evaluate(copier, PAIRS, ["token_error_rate"], references="grouped")
    with pytest.raises(RecipeError, match=r"^metric 'rogue_l' is unknown; did you mean 'rouge_l'\?$"):
        evaluate(copier, PAIRS, ["rogue_l"])
    assert counted == []
    alone = evaluate(copier, PAIRS[3:], ["token_error_rate"], references="grouped")  # no source stands there twice
    assert alone.scores[0].value == pytest.approx(100)


def test_references_are_as_many_as_outputs_where_they_are_measured_alone(copier: Translator) -> None:
    found = evaluate(copier, PAIRS, ["distinct_1", "repetition"], references="grouped")
    first = ["c b a", "b a", "b"]
    assert found.reference_scores["distinct-1"] == METRICS["distinct_1"].compute(first, first)
    assert found.reference_scores["distinct-1"].value == pytest.approx(50) and "rep-1" in found.reference_scores


def test_a_language_model_without_prompts_has_a_perplexity_alone(speaker: Translator) -> None:
    found = evaluate(speaker, PAIRS, ["bleu"], references="grouped")
    assert found.scores == [] and found.outputs == [] and found.perplexity.value > 0


def test_a_language_model_answers_prompts(speaker: Translator) -> None:
    run = changed(speaker, "data", prompts=True)
    found = evaluate(run, PAIRS, ["exact_match", "distinct_1"], references="grouped", kind="greedy")
    expected = []
    for prompt in ("a b c", "b a", "c"):
        whole = speaker.complete(prompt, kind="greedy")[0].text
        assert whole.startswith(prompt)
        expected.append(whole.removeprefix(prompt).strip())
    assert found.outputs == expected
    assert found.scores[0] == METRICS["exact_match"].compute(expected, [["c b a", "a b c"], ["b a", "a"], ["b"]])
    assert found.search == "search:greedy" and found.items == 3


def test_an_answer_is_as_long_as_the_search_allows(speaker: Translator) -> None:
    run = changed(speaker, "data", prompts=True)
    found = evaluate(run, PAIRS, ["exact_match"], kind="greedy", max_length=2, min_length=2)
    assert all(len(output.split()) <= 2 for output in found.outputs)
