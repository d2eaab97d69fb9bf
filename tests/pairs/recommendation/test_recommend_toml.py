"""A recommendation as a file."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import weft
from weft.pairs.recommendation.choices import Choice
from weft.recipe import load_recipe


def _recommended(folder: Path, *changes: str) -> weft.Recommendation:
    rows = [f'"le\\mma{n}\tV;{"SG" if n % 2 else "PL"}\t"le\\mma{n}s' for n in range(60)]
    (folder / "pairs.tsv").write_text("\n".join(rows) + "\n")
    return weft.recommend(folder / "pairs.tsv", changes=changes)


def test_the_file_has_the_recommended_settings_and_their_reasons(tmp_path: Path) -> None:
    recommendation = _recommended(tmp_path, "model.dropout=0.25")
    text = recommendation.toml()
    assert "# task: words with features (words, and 1 column of features)\n" in text
    assert "# warning: 60 pairs: very few" in text and "# dropout" not in text
    assert tomllib.loads(text) == recommendation.settings
    (tmp_path / "mine.toml").write_text(text)
    loaded, made = load_recipe(tmp_path / "mine.toml"), recommendation.recipe
    for section in ("tokenizer", "model", "training", "search", "evaluation"):
        assert getattr(loaded, section) == getattr(made, section)
    assert (loaded.data.train, loaded.model.dropout) == (made.data.train, 0.25)


def test_settings_without_a_group_come_first_and_empty_groups_have_no_header(tmp_path: Path) -> None:
    settings = {
        "name": "mine",
        "data": {"train": {"file": "a.tsv"}, "holdout": {"valid": 0.5}},
        "model": {"encoder": {"hidden": 3}},
    }
    recommendation = _recommended(tmp_path)
    choices = [Choice("all", "these", "a test")]
    assert replace(recommendation, choices=choices, warnings=["few pairs"], settings=settings).toml() == (
        """\
# all: these (a test)
# exports to: ONNX
# no export to CTranslate2: model.sources.count: 2 sources are not known to CTranslate2; it has one
# no export to Hugging Face: model.sources.count: 2 sources are not known to transformers; it has one
# warning: few pairs

name = "mine"
[data]
train = {file = "a.tsv"}

[data.holdout]
valid = 0.5

[model.encoder]
hidden = 3
"""
    )


def test_how_it_is_shown(tmp_path: Path) -> None:
    recommendation = _recommended(tmp_path)
    assert str(recommendation).splitlines() == recommendation.lines()
    assert repr(recommendation).endswith(f"pairs.tsv: {len(recommendation.choices)} choices>")
    page = recommendation._repr_html_()
    assert page.count("<tr>") == len(recommendation.lines()) and "&quot;" not in page.split("<tr>")[0]
    assert recommendation.record()["recipe"] == recommendation.settings
    exports = recommendation.record()["exports"]
    assert exports["onnx"] is None and exports["huggingface"].startswith("model.sources.count: 2 sources")
