"""Evaluating where a source has several references, and where a language model answers prompts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import weft
from weft.data.pairs import Pair
from weft.data.preparation import read_corpus
from weft.errors import DataError, RecipeError, SearchError
from weft.evaluation.evaluate import evaluate
from weft.evaluation.metrics import METRICS
from weft.translation.load import load
from weft.translation.translator import Translator

PAIRS = [Pair("a b c", "c b a"), Pair("b a", "b a"), Pair("a b c", "a b c"), Pair("b a", "a"), Pair("c", "b")]


def changed(run: Translator, group: str, **settings: Any) -> Translator:
    """The same model under other settings."""
    new = getattr(run.recipe, group).model_copy(update=settings)
    recipe = run.recipe.model_copy(update={group: new}).accepting_new_data()
    return Translator(run.model, run.tokenizers, recipe)


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


def test_references_among_the_best_outputs(copier: Translator) -> None:
    """One search finds as many outputs as the metrics look at; its beam is as wide, and the signature says so."""
    names = ["exact_match", "exact_match@3", "exact_match@7"]
    best = copier.translate("a b c", n_best=7, kind="beam", size=7)
    outputs = [best.text, *(other.text for other in best.alternatives)]
    references = [*outputs, "a b c a b c"]
    found = evaluate(copier, [Pair("a b c", reference) for reference in references], names, kind="beam", size=2)
    right = [sum(reference in outputs[:count] for reference in references) for count in (1, 3, 7)]
    assert [score.value for score in found.scores] == pytest.approx([100 * count / 8 for count in right])
    assert right[0] < right[2] == 7
    assert found.search.startswith("search:beam|size:7|")
    assert evaluate(copier, PAIRS, ["exact_match@3"], kind="beam", size=4).search.startswith("search:beam|size:4|")
    with pytest.raises(
        SearchError, match=r"^metric 'exact_match@3': greedy search finds one output; use search.kind = "
    ):
        evaluate(copier, PAIRS, ["exact_match@3"], kind="greedy")


def test_the_edits_of_an_m2_file(copier: Translator, tmp_path: Path) -> None:
    """Sources are the sentences, references the corrections; the gold edits are those of the file."""
    (tmp_path / "gold.m2").write_text(
        "S a b c\nA 0 1|||X|||b|||R|||N|||0\nA -1 -1|||noop|||-NONE-|||R|||N|||1\n\n"
        "S a b c\nA 0 3|||X|||c b a|||R|||N|||0\n\nS c\nA 0 1|||X||||||R|||N|||0\n",
        "utf-8",
    )
    found = evaluate(copier, tmp_path / "gold.m2", ["exact_match", "edit_f05"])
    assert found.outputs == ["a b c", "a b c", "c"]  # it has learned to copy: nothing is proposed
    values = [(score.name, round(score.value, 2)) for score in found.scores]
    assert values == [("edit precision", 100), ("edit recall", 0), ("edit F0.5", 0), ("exact match", 33.33)]
    assert "annotators:var|gold:m2|" in found.scores[0].signature
    assert (found.pairs, found.items) == (3, 3), "the blank correction has no perplexity"
    assert evaluate(copier, str(tmp_path / "gold.m2"), [], limit=1).pairs == 2
    with pytest.raises(DataError, match=r"^limit: 0 was given; expected at least 1$"):
        evaluate(copier, tmp_path / "gold.m2", [], limit=0)


def test_a_metric_that_needs_the_sources(copier: Translator) -> None:
    found = evaluate(copier, [Pair("a b c", "a b"), Pair("b a", "b a")], ["edit_f05"])
    assert found.outputs == ["a b c", "b a"] and found.scores[0].value == 0
    assert "annotators:1|gold:references|" in found.scores[0].signature


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


def test_blank_pairs_never_count_as_right(copier: Translator) -> None:
    """Ten blank pairs and ten wrong ones were 50 % right: the output of an empty source is empty."""
    pairs = [Pair("", "")] * 10 + [Pair("a b", "c")] * 10
    report = evaluate(copier, pairs, ["exact_match"])
    assert report.scores[0].value == 0 and report.pairs == 10
    assert report.left_out == {"blank": 10} and report.record()["left_out"] == {"blank": 10}


def test_pairs_that_the_run_was_trained_on(finished: Path) -> None:
    """Counted with the fingerprints of the run: its training data is not read."""
    run = load(finished)
    train = list(read_corpus(run.recipe, "train"))
    known = train[0].source
    other = next(pair.target for pair in train if pair.source != known)
    assert other != train[0].target
    given = [train[0], Pair(known, other), Pair("not in it", "at all"), Pair("", "")]
    report = evaluate(run, given, [])
    assert report.training_overlap is not None
    assert report.record()["in_training_data"] == {"sources": 2, "pairs": 1, "compared": 3}
    assert "2 of 3 pairs have a source in the training data, 1 with the same target" in report.summary()
    by_itself = Translator(run.model, run.tokenizers, run.recipe)
    assert evaluate(by_itself, given, []).record()["in_training_data"] is None, "no run folder"


def test_the_report_in_a_line_and_in_full(copier: Translator) -> None:
    report = evaluate(copier, PAIRS[:1], ["exact_match"])
    assert re.fullmatch(r"<Evaluation: 1 pair; exact match 0.00, perplexity \d+\.\d{3}>", repr(report))
    assert str(report).splitlines() == report.summary()
    assert report.summary()[0].startswith("exact match ") and report.summary()[-1].startswith("1 pair, searched in ")


def test_a_folder_and_a_split(finished: Path) -> None:
    report = weft.evaluate(finished, metrics=["exact_match"], split="valid", limit=3, kind="greedy")
    assert report.pairs == 3 and report.search == "search:greedy"
    with pytest.raises(weft.WeftError, match="no such run folder"):
        weft.evaluate("nowhere")


def test_precision_and_recall_of_the_links(copier: Translator) -> None:
    """Each by its own name: two of two predicted links are right, of four gold links."""
    [forced] = copier.force_decode([Pair("a b", "a b")])
    assert len(forced.links) == 2
    wrong = [(0, 1), (1, 0)] if sorted(forced.links) == [(0, 0), (1, 1)] else [(0, 0), (1, 1)]
    gold = Pair("a b", "a b", tuple(sorted([*forced.links, *wrong])))
    report = evaluate(copier, [gold], [])
    assert report.alignment is not None
    assert (report.alignment.precision, report.alignment.recall) == (100, 50)
    assert report.alignment.error_rate == pytest.approx(100 * (1 - 4 / 6))
    record = report.record()["metrics"]["alignment error rate"]
    assert (record["precision"], record["recall"]) == (100, 50)
    assert "|threshold:0.15|" in record["signature"]
    table = {line[:24].strip(): float(line[24:32]) for line in report.summary()[:3]}
    assert table == {"alignment error rate": 33.33, "precision": 100, "recall": 50}
