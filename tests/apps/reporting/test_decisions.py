"""Settings and their reasons."""

from __future__ import annotations

from pathlib import Path

from weft.apps.reporting.decisions import decisions_section, read_reasons
from weft.recipe import make_recipe
from weft.recipe.toml import write_toml

HEAD = "# target: words (43 <b> symbols (all))\n# warning: few pairs\n\n"
TOML = """\
# of the file, not of a setting

seed = 1
# two lines
# of a reason
[tokenizer]
# 43 symbols
# between spaces → one token each
kind = "word"
size = 8000
[model.attention]  # heading
  # indented = yes
  score = "dot"

# before an empty line

normalizer = "softmax"
"""


def test_comments_directly_above_a_setting_are_its_reason() -> None:
    assert read_reasons(TOML) == {
        "tokenizer.kind": "43 symbols between spaces → one token each",
        "model.attention.score": "indented = yes",
    }
    assert read_reasons("") == {}


def test_settings_that_are_not_at_their_defaults_or_have_a_reason(tmp_path: Path) -> None:
    recipe = make_recipe({"training": {"steps": 77}, "name": "mine", "summary": "pairs"})
    path = tmp_path / "recipe.toml"
    path.write_text(HEAD + write_toml(recipe).replace("[search]\n", "[search]\n# a beam <b>\n", 1), "utf-8")
    section = decisions_section(recipe, path)
    rows = {decision.name: decision for decision in section.decisions}
    assert rows["training.steps"].value == "77" and rows["training.steps"].reason == ""
    assert rows["search.kind"].value == rows["search.kind"].default and rows["search.kind"].reason == "a beam <b>"
    assert section.comments == ["target: words (43 <b> symbols (all))", "warning: few pairs"]
    assert "<pre>warning: few pairs</pre>" in section.html()
    reason = '<td><bdi dir="auto">words</bdi></td><td><bdi dir="auto">43 &lt;b&gt; symbols (all)</bdi></td>'
    assert reason in section.html()
    assert "name" not in rows and "summary" not in rows
    assert "a beam &lt;b&gt;" in section.html() and '<th scope="col">reason</th>' in section.html()


def test_a_run_without_a_folder() -> None:
    section = decisions_section(make_recipe({}), None)
    assert section.decisions == [] and "[training]" in section.recipe and "reason" not in section.html()
