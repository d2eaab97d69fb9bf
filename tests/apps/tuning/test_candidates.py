"""The candidates of a recipe."""

import pytest

from weft.apps.tuning.candidates import MAX_CANDIDATES, find_candidates, with_settings
from weft.recipe import load_recipe, make_recipe, shipped
from weft.recipe.toml import settings_of


def changed(candidate, base):
    """The settings in which a candidate differs."""
    before = {setting.name: setting.value for setting in settings_of(base)}
    return {
        setting.name: setting.value
        for setting in settings_of(candidate.recipe)
        if before.get(setting.name) != setting.value
    }


@pytest.mark.parametrize("name", shipped())
def test_every_shipped_recipe_has_a_handful_of_valid_candidates(name):
    recipe = load_recipe(name)
    candidates = find_candidates(recipe)
    assert 6 <= len(candidates) <= MAX_CANDIDATES
    assert candidates[0].name == "recipe" and candidates[0].recipe == recipe
    assert len({candidate.name for candidate in candidates}) == len(candidates)
    for candidate in candidates[1:]:
        assert changed(candidate, recipe) and candidate.change and candidate.reason
        assert candidate.recipe.data == recipe.data and candidate.recipe.seed == recipe.seed


def test_each_changes_one_thing():
    recipe = make_recipe({"training": {"metric": "bleu"}, "model": {"dropout": 0.3}})
    by_name = {candidate.name: changed(candidate, recipe) for candidate in find_candidates(recipe)}
    assert by_name["recipe"] == {}
    assert by_name["dropout-0.5"] == {"model.dropout": 0.5}
    assert by_name["rate-0.001"] == {"training.learning_rate": 0.001}
    assert by_name["rate-0.004"] == {"training.learning_rate": 0.004}
    assert by_name["wider"] == {"model.embedding": 512, "model.encoder.hidden": 1024, "model.decoder.hidden": 1024}
    assert by_name["narrower"] == {"model.embedding": 128, "model.encoder.hidden": 256, "model.decoder.hidden": 256}
    assert by_name["vocabulary-2000"] == {"tokenizer.size": 2000}
    assert by_name["smoothing-0"] == {"training.label_smoothing": 0.0}
    assert by_name["transformer"]["model.decoder.kind"] == "transformer"
    assert "dropout-0.1" not in by_name  # the tenth


def test_heads_keep_their_size():
    stack = {"kind": "transformer", "hidden": 128, "heads": 4, "key_value_heads": 2, "feed_forward": 256}
    recipe = make_recipe({"model": {"embedding": 128, "encoder": stack, "decoder": stack}})
    candidates = {candidate.name: candidate.recipe.model for candidate in find_candidates(recipe)}
    for name, hidden, heads, key_value_heads, feed_forward in (("wider", 256, 8, 4, 512), ("narrower", 64, 2, 1, 128)):
        decoder = candidates[name].decoder
        assert (decoder.hidden, decoder.heads, decoder.feed_forward) == (hidden, heads, feed_forward)
        assert decoder.key_value_heads == key_value_heads
    assert candidates["lstm"].decoder.kind == "lstm"


def names(changes):
    return {candidate.name for candidate in find_candidates(make_recipe({}, changes))}


def test_losses_of_different_vocabularies_and_smoothing_are_not_compared():
    assert names(["training.metric=loss"]).isdisjoint({"vocabulary-2000", "smoothing-0"})
    assert {"vocabulary-2000", "smoothing-0"} <= names(["training.metric=chrf"])


def test_what_the_recipe_excludes_is_left_out():
    with_start = names(["training.metric=chrf", "training.start=runs/old"])
    assert with_start.isdisjoint({"wider", "narrower", "transformer", "vocabulary-2000"})
    sparse = names(["training.metric=chrf", "training.loss=entmax15", "training.label_smoothing=0"])
    assert "smoothing-0.1" not in sparse
    assert "wider" in sparse
    assert "transformer" not in names(["model.kind=language_model"])
    assert "dropout-0.5" not in names(["model.dropout=0.5"])
    assert "narrower" not in names(["model.embedding=40"])


def test_hard_attention_gives_way_to_a_transformer():
    recipe = make_recipe({"model": {"attention": {"hard": "first"}}, "training": {"label_smoothing": 0.0}})
    [transformer] = [candidate for candidate in find_candidates(recipe) if candidate.name == "transformer"]
    assert transformer.recipe.model.attention.hard == "none"


def test_those_that_differ_in_no_computation_are_equally_fast():
    recipe = make_recipe({"training": {"metric": "bleu"}})
    keys = {candidate.name: candidate.speed_key() for candidate in find_candidates(recipe)}
    same = {name for name, key in keys.items() if key == keys["recipe"]}
    assert same == {"recipe", "dropout-0.3", "rate-0.001", "rate-0.004", "smoothing-0"}


def test_with_settings_keeps_everything_else():
    recipe = make_recipe({"name": "x", "data": {"train": "a.tsv", "valid": "b.tsv"}, "tokenizer": {"symbols": ['"\\']}})
    assert with_settings(recipe, {}) == recipe
