"""The summary of a run: scores with intervals, right and wrong outputs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from weft.errors import DataError
from weft.evaluation.metrics import exact_match
from weft.evaluation.summary import Summary, judged_by, summarize
from weft.recipe import Recipe
from weft.translation.translator import Translator

Tiny = Callable[[dict[str, Any]], Recipe]
PAIRS = "".join(f"{number} {number}\t{number}\n" for number in range(10, 30))


@pytest.fixture
def run(tiny: Tiny, tmp_path: Path) -> Callable[..., Translator]:
    """A run of which only the recipe is real; it answers as a function says."""

    def make(answer: Callable[[str], str], changes: dict[str, Any], pairs: str = PAIRS) -> Translator:
        (tmp_path / "pairs.tsv").write_text(pairs, "utf-8")
        files = {"data.folder": str(tmp_path), "data.train": "pairs.tsv", "evaluation.metrics": ["exact_match", "chrf"]}
        recipe = tiny({**files, **changes})
        run = object.__new__(Translator)
        run.recipe, run.model, run.tokenizers = recipe, None, None  # type: ignore[assignment]
        run.text, run.folder = SimpleNamespace(source_role="text"), None  # type: ignore[assignment]

        def translate(sources: Sequence[str], **_: Any) -> list[Any]:
            return [SimpleNamespace(text=answer(source), alternatives=()) for source in sources]

        run.translate = translate  # type: ignore[assignment,method-assign]
        run.search_settings = lambda _: recipe.search  # type: ignore[assignment,method-assign]
        return run

    return make


def answer(source: str) -> str:
    """Right for even numbers; for odd ones the farther from the reference, the larger."""
    number = int(source.split()[0])
    return str(number) if number % 2 == 0 else f"{number}{'x' * (number - 10)}"


def test_right_and_wrong(run: Callable[..., Translator]) -> None:
    summary = summarize(run(answer, {"data.test": "pairs.tsv"}))
    assert (summary.split, summary.items, summary.all_items, summary.right_outputs) == ("test", 20, 20, 10)
    (score, limits), (chrf, _) = summary.scores
    assert limits is not None and chrf.name == "chrF"
    assert (score.name, score.value) == ("exact match", 50.0) and limits[0] < 50.0 < limits[1]
    assert [example.output for example in summary.right] == ["10", "14", "18", "24", "28"]
    assert [example.reference for example in summary.wrong] == ["11", "15", "19", "25", "29"]
    assert summary.wrong[1] == (6, "15 15", "15xxxxx", "15")
    assert json.loads(json.dumps(summary.record()))["wrong"][1]["output"] == "15xxxxx"
    assert repr(summary).startswith("<Summary: 20 items of the test set; exact match 50.00, chrF ")


def test_as_text(run: Callable[..., Translator]) -> None:
    lines = str(summarize(run(answer, {"data.test": "pairs.tsv"}), examples=2)).splitlines()
    assert lines[0] == "Test set: 20 items"
    assert lines[1].startswith("  exact match     50.00   95 % interval ")
    assert lines[3:] == [
        "",
        "Right: 10 of 20 outputs",
        "  10 10  →  10",
        "  28 28  →  28",
        "",
        "Wrong: 10 of 20 outputs; [differences] are marked",
        "  source     11 11",
        "  output     11[x]",
        "  reference  11",
        "",
        "  source     29 29",
        "  output     29[xxxxxxxxxxxxxxxxxxx]",
        "  reference  29",
    ]


def test_all_right_or_all_wrong(run: Callable[..., Translator]) -> None:
    perfect = summarize(run(lambda source: source.split()[0], {"data.test": "pairs.tsv"}))
    assert len(perfect.right) == 5 and not perfect.wrong and "Wrong" not in str(perfect)
    hopeless = summarize(run(lambda source: "", {"data.test": "pairs.tsv"}))
    assert len(hopeless.wrong) == 5 and not hopeless.right and "Right: 0 of 20 outputs" in str(hopeless)
    assert "  output     (empty)" in str(hopeless)


def test_without_a_test_set(run: Callable[..., Translator]) -> None:
    summary = summarize(run(answer, {"data.valid": "pairs.tsv"}))
    assert summary.split == "valid" and str(summary).startswith("Validation set: 20 items (there is no test set; ")
    with pytest.raises(DataError, match="its recipe has neither a test set nor a validation set"):
        summarize(run(answer, {}))


def test_a_sample_of_a_large_test_set(run: Callable[..., Translator]) -> None:
    made = run(answer, {"data.test": "pairs.tsv"})
    summary = summarize(made, limit=7)
    assert (summary.items, summary.all_items) == (7, 20) and summary == summarize(made, limit=7)
    assert str(summary).startswith("Test set: a sample of 7 of the 20 items\n")
    assert summarize(made, limit=50).items == 20


def test_one_pair(run: Callable[..., Translator]) -> None:
    summary = summarize(run(answer, {"data.test": "pairs.tsv"}, pairs="13 13\t13\n"))
    assert str(summary).startswith("Test set: 1 item\n") and len(summary.wrong) == 1
    assert summary.scores[0].interval == pytest.approx((0.0, 97.5))


def test_the_nearest_of_several_references(run: Callable[..., Translator]) -> None:
    grouped = {"data.test": "pairs.tsv", "evaluation.references": "grouped"}
    summary = summarize(run(lambda _: "the cat", grouped, pairs="a b\tx y\na b\tthe dog\n"))
    assert summary.items == 1 and summary.wrong[0].reference == "the dog"


def test_texts_that_were_trained_on() -> None:
    summary = Summary("test", 3, 3, [], 0, [], [], seen_sources=2)
    shown = replace(summary, scores=[(exact_match(["a"], ["a"]), None)])  # type: ignore[list-item]
    assert shown.lines()[:2] == ["Test set: 3 items", "  2 of the sources are in the training data, too"]


def test_equal_outputs_are_shown_if_there_are_no_others(run: Callable[..., Translator]) -> None:
    pairs = "".join(f"{number}\tsame\n" for number in range(9))
    summary = summarize(run(lambda _: "same", {"data.test": "pairs.tsv"}, pairs=pairs))
    assert [example.source for example in summary.right] == ["0", "2", "4", "6", "8"]


def test_what_the_task_is_judged_by() -> None:
    assert judged_by(["bleu", "chrf"], "loss") == ["bleu", "chrf"]
    assert judged_by(["bleu", "chrf"], "chrf") == ["chrf", "bleu"]
    assert judged_by(["bleu"], "exact_match") == ["exact_match", "bleu"]
