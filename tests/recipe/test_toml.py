"""Settings as rows of a table: their values to choose from."""

from __future__ import annotations

from weft.recipe import Recipe, TransformerEncoderSettings, make_recipe
from weft.recipe.toml import Setting, leading_comments, settings_of, toml_value, with_comments, without_comments


def test_the_values_of_a_setting_are_listed() -> None:
    settings = {setting.name: setting for setting in settings_of(Recipe())}
    assert settings["training.schedule"].choices == ("constant", "inverse_sqrt", "cosine", "plateau")
    assert settings["training.forcing"].meaning.endswith(" (teacher, scheduled, free)")
    assert settings["model.attention.score"].choices[:2] == ("none", "dot")
    assert settings["model.encoder.kind"].choices == ("rnn", "gru", "lstm", "transformer", "attention")
    assert settings["model.decoder.kind"].choices == ("rnn", "gru", "lstm", "transformer")
    assert settings["training.steps"].choices == settings["data.prompts"].choices == ()
    [positions] = [item for item in settings_of(TransformerEncoderSettings()) if item.name == "positions"]
    assert positions.meaning == "position encoding (sinusoidal, learned, relative, rotary, alibi, none)"


def test_the_comments_at_the_head_are_taken_off() -> None:
    text = "seed = 1\n\n[data]  # not at the head\n# nor this\n"
    commented = with_comments(text, ["task: words", "steps: 7"])
    assert leading_comments(commented) == ["task: words", "steps: 7"]
    assert without_comments(commented) == without_comments(text) == text


def test_every_listed_value_of_a_setting_is_known() -> None:
    """Whatever else a recipe needs for it: no message calls it unknown."""
    from weft.errors import RecipeError

    for setting in settings_of(Recipe()):
        for value in setting.choices:
            tree: dict[str, object] = {}
            *path, name = setting.name.split(".")
            inner = tree
            for part in path:
                inner = inner.setdefault(part, {})  # type: ignore[assignment]
            inner[name] = value
            try:
                make_recipe(tree)
            except RecipeError as error:
                assert "was given; input should be" not in str(error), error


def test_values_that_the_help_names_are_not_repeated() -> None:
    assert Setting("x", "a", "a", "a or b", ("a", "b")).meaning == "a or b"
    assert Setting("x", "a", "a", "a letter", ("a", "b")).meaning == "a letter (a, b)"
    assert Setting("x", 1, 1, "a number").meaning == "a number"


def test_the_keys_of_a_table_are_written_without_quotes() -> None:
    """As people write them; only a key that needs quotes has them."""
    assert toml_value({"file": "a.tsv", "source": [1], "x y": True}) == '{file = "a.tsv", source = [1], "x y" = true}'
