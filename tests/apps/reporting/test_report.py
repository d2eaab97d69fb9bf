"""The report on a run: one page, without scripts, in which all data is text."""

from __future__ import annotations

import json
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import weft
from weft.apps.reporting.report import RunReport
from weft.translation.translator import Translator

SECTIONS = [
    "scores",
    "data",
    "decisions",
    "learning",
    "parts",
    "confusions",
    "calibration",
    "examples",
    "speed",
    "card",
]
VOID = {"meta", "link", "br", "hr", "col"}
CHILDREN = {
    "ul": {"li"},
    "dl": {"dt", "dd"},
    "tr": {"th", "td"},
    "table": {"thead", "tbody"},
    "tbody": {"tr"},
    "figure": {"figcaption", "svg"},
}
BLOCKS = {"p", "div", "ul", "dl", "table", "figure", "pre", "section", "h2", "h3"}
"""Elements that HTML does not allow in a paragraph."""
HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(1)>&lt;\u202e'


class Reader(HTMLParser):
    """Checks that every element is closed in order, and collects names, ids and references."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.ids: list[str] = []
        self.references: list[str] = []
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.references += [value or "" for name, value in attrs if name in ("href", "src", "xlink:href", "action")]
        assert self.open[-1:] == ["ul"] or tag != "li"
        assert tag in CHILDREN.get(self.open[-1] if self.open else "", {tag}), (self.open, tag)
        assert not (tag in BLOCKS and "p" in self.open), (self.open, tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def made(copier: Translator) -> RunReport:
    return weft.report(copier, samples=100)


def test_sections_and_numbers(made: RunReport, copier: Translator) -> None:
    assert [section.key for section in made.sections] == SECTIONS
    record = json.loads(json.dumps(made.record()))
    assert list(record) == ["run", "version", *SECTIONS]
    evaluated = weft.evaluate(copier)
    scores = record["scores"]
    assert {name: item["value"] for name, item in scores["metrics"].items()} == {
        score.name: score.value for score in evaluated.scores
    }
    assert scores["perplexity"]["value"] == pytest.approx(evaluated.perplexity.value)
    assert scores["test_set"] == "test set" and scores["items"] == 20 and scores["search"] == evaluated.search
    low, high = scores["metrics"]["exact match"]["interval"]
    assert low <= scores["metrics"]["exact match"]["value"] <= high
    assert record["data"]["training"]["pairs"] == record["data"]["trained_pairs"] == 600
    assert sum(part["items"] for part in record["parts"]["by_source_length"]) == 20
    assert record["confusions"]["total"] > 20 and record["confusions"]["units"] == "word"
    assert record["calibration"]["outputs"]["count"] == 20
    assert record["calibration"]["outputs"]["accuracy"] == scores["right"] / 20
    tokens = record["calibration"]["tokens"]
    assert tokens["count"] == sum(len(copier.encode_target(text, "")) for text in evaluated.outputs)
    errors = len(record["confusions"]["substituted"]) + len(record["confusions"]["added"])
    assert (tokens["accuracy"] < 1.0) == bool(errors) and 0.0 <= tokens["error"] <= 1.0
    assert record["examples"] and record["speed"]["steps"] == 200 and record["learning"]["steps"]
    assert repr(made) == "<RunReport 'run': 10 sections, 20 items>" and str(made).startswith("BLEU ")


def test_the_page_is_well_formed_and_refers_to_nothing(made: RunReport) -> None:
    page = Reader(made.to_html())
    assert len(page.ids) == len(set(page.ids)) and set(SECTIONS) == set(page.ids)
    assert set(page.references) == {"data:,", *(f"#{key}" for key in SECTIONS)}
    assert not page.tags & {"script", "img", "iframe", "object", "embed", "form", "base"}
    assert not [name for name in page.attributes if name.startswith("on")]
    assert "://" not in made.to_html() and "svg" in page.tags
    assert page.text.count("Calibration") == 2 and "ECE = Σ_m" in page.text


def test_the_same_run_gives_the_same_bytes(made: RunReport, copier: Translator) -> None:
    assert weft.report(copier, samples=100).to_html() == made.to_html()


def test_a_notebook_shows_it(made: RunReport) -> None:
    shown = made._repr_html_()
    Reader(shown)
    assert shown.startswith('<div class="weft">') and "<html" not in shown and "Learning curves" in shown


def test_nothing_in_the_data_becomes_markup(copier: Translator, tmp_path: Path) -> None:
    folder = tmp_path / f"run {HOSTILE[:8].replace('/', '')}"
    shutil.copytree(copier.folder or "", folder)
    (folder / "README.md").write_text(f"# {HOSTILE}\n\n- `{HOSTILE}`\n\n{HOSTILE}\n", "utf-8")
    recipe = (folder / "recipe.toml").read_text("utf-8").replace("[search]", f"[search]\n# {HOSTILE}", 1)
    (folder / "recipe.toml").write_text(recipe, "utf-8")
    event = {"event": "validation", "step": 9, "loss": 1.0, "metrics": {HOSTILE: 3.0}}
    with (folder / "log.jsonl").open("a", encoding="utf-8") as log:
        log.write(json.dumps(event) + "\n")
    pairs = [(f"a {HOSTILE}", f"b {HOSTILE}"), ("a b", HOSTILE), (HOSTILE, "c"), ("a \x00", "\x01\t")]
    made = weft.report(folder, pairs, samples=100)
    page = made.to_html()
    reader = Reader(page)
    assert not reader.tags & {"script", "img"} and "onerror" not in reader.attributes
    assert "\u202e" not in page and "\x00" not in page and "alert(1)" in reader.text
    assert made.save().read_text("utf-8") == page and (folder / "report.html").is_file()
    Reader(made._repr_html_())


def test_given_pairs_and_the_search(copier: Translator, tmp_path: Path) -> None:
    (tmp_path / "mine.tsv").write_text("a b\ta b\nc\tc\n\tx\n", "utf-8")
    made = weft.report(copier, tmp_path / "mine.tsv", ["exact_match"], samples=100, kind="greedy", limit=1)
    scores = made.record()["scores"]
    assert (scores["test_set"], scores["items"], scores["search"]) == ("mine.tsv", 1, "search:greedy")
    assert made.left_out == {"blank": 1} and list(scores["metrics"]) == ["exact match"]
    no_sum = weft.report(copier, tmp_path / "mine.tsv", ["distinct_1"], samples=100)
    assert no_sum.record()["parts"]["metric"] is None and "by_source_length" in no_sum.record()["parts"]
    assert "By length of the source" in no_sum.to_html()
    assert weft.report(copier, iter([("a", "a")]), samples=100).record()["scores"]["test_set"] == "given pairs"


def test_words_are_those_of_the_training_data(copier: Translator) -> None:
    """Also if each text of the test set is a single word, which would be compared by characters."""
    parts = weft.report(copier, [("a", "a"), ("b", "b")], samples=100).record()["parts"]
    assert parts["target_units"] == parts["source_units"] == "word"
    assert [item["name"] for item in parts["by_reference_unit"]] == ["100 to 999 times"]


def changed(run: Translator, **data: Any) -> Translator:
    """The same model in a recipe with other data, in no folder."""
    settings = run.recipe.data.model_copy(update=data)
    recipe = run.recipe.model_copy(update={"data": settings}).accepting_new_data()
    return Translator(run.model, run.tokenizers, recipe)


def test_without_a_test_set_the_validation_set_is_used(copier: Translator, tmp_path: Path) -> None:
    (tmp_path / "valid.tsv").write_text("a b\ta b\n" * 3, "utf-8")
    run = changed(copier, train="none.tsv", valid="valid.tsv", folder=str(tmp_path))
    made = weft.report(run, samples=100)
    record, page = made.record(), made.to_html()
    assert record["scores"]["test_set"] == "validation set" and "names no test set" in page
    assert "training data: cannot be read" in page and "none.tsv" in record["data"]["training"]["problem"]
    assert "This run has no log.jsonl" in page and "has no README.md" in page and record["learning"] is None
    assert "nothing is known of frequencies" in page and "no fingerprints" in page
    assert record["speed"]["seconds"] is None and record["data"]["trained_pairs"] is None


def test_without_any_pairs(copier: Translator, tmp_path: Path) -> None:
    made = weft.report(changed(copier, train="none.tsv", folder=str(tmp_path)), samples=100)
    assert made.items == 0 and made.record()["scores"] is None and made.summary() == []
    assert [section.key for section in made.sections] == [
        *("scores", "data", "decisions", "learning", "speed", "card"),
    ]
    assert "give a file of pairs" in made.to_html()


def test_a_language_model_has_no_outputs(speaker: Translator) -> None:
    made = weft.report(speaker, samples=100)
    record = made.record()
    assert "examples" not in record and record["scores"]["metrics"] == {}
    assert record["scores"]["perplexity"]["value"] > 1
    Reader(made.to_html())


def test_refusals(copier: Translator, tmp_path: Path) -> None:
    def refused(*arguments: Any, **options: Any) -> str:
        with pytest.raises(weft.WeftError) as refusal:
            weft.report(*arguments, **options)
        return str(refusal.value)

    assert refused(copier, samples=3) == "samples: 3 was given; expected at least 100"
    assert refused(copier, metrics=["blue"]).startswith("metric 'blue' is unknown")
    missing = changed(copier, train="none.tsv", test="none.tsv", folder=str(tmp_path))
    assert refused(missing).endswith("or give a file of pairs")
