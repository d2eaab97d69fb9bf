"""Training from another run: new languages of an imported model."""

import json

import pytest
import torch

from weft.errors import RecipeError, VocabularyError
from weft.interop.imported_run import ImportOptions
from weft.interop.importing import import_model
from weft.recipe import load_recipe
from weft.runs.load import load_run
from weft.runs.weights import model_tensors
from weft.training.train import train
from weft.translation.load import load

pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    from fixtures import pretrained_models

    folder = tmp_path_factory.mktemp("start")
    pretrained_models.make("nllb", folder / "original", end=3.0)
    (folder / "pairs.tsv").write_text("a b\tb a\n", "utf-8")
    return import_model(folder / "original", folder / "run", ImportOptions(*pretrained_models.KINDS["nllb"].languages))


def recipe_of(start, languages, **changes):
    settings = {"training.steps": 1, "training.device": "cpu", "training.validate_every": 0, **changes}
    lines = [f"{name}={json.dumps(value)}" for name, value in settings.items()]
    names = ", ".join(f"{name} = '{like}'" for name, like in languages.items())
    data = f"data.train='{start.parent / 'pairs.tsv'}'"
    return load_recipe(start / "recipe.toml", [data, f"tokenizer.new_languages={{{names}}}", *lines], start=start)


def test_a_new_language(start, tmp_path):
    first, like = load_run(start), load_run(start).tokenizers.languages[0]
    recipe = recipe_of(start, {"xx_Latn": like}, **{"tokenizer.target_language": "xx_Latn"})
    prepared = next(train(recipe, tmp_path / "run"))
    size = first.tokenizers.target.size
    assert prepared.target_vocabulary == size + 1
    run = load_run(tmp_path / "run")
    assert run.tokenizers.languages == (*first.tokenizers.languages, "xx_Latn")
    assert run.tokenizers.frame.target_before[-1] == size
    assert run.tokenizers.target.tokens([size]) == ["xx_Latn"] and run.tokenizers.target.decode([size]) == ""
    ids = run.tokenizers.source.rules.languages
    before, after = model_tensors(first.model), model_tensors(run.model)
    tables = [name for name in before if len(before[name]) != len(after[name])]
    assert tables
    for name in tables:
        assert torch.equal(after[name][:size], before[name])
        assert torch.equal(after[name][size], before[name][ids[like]])


def test_it_is_trained_and_chosen(start, tmp_path):
    like = load_run(start).tokenizers.languages[0]
    recipe = recipe_of(start, {"xx_Latn": like}, **{"tokenizer.target_language": "xx_Latn"})
    list(train(recipe, tmp_path / "run"))
    run = load(tmp_path / "run", engine="torch")
    texts = [run.translate("a b", target_language=name, max_length=3).source for name in ("xx_Latn", like)]
    assert texts == ["a b", "a b"]
    again = load_recipe(tmp_path / "run/recipe.toml", start=tmp_path / "run")
    assert again.tokenizer.new_languages == {} and again.tokenizer.target_language == "xx_Latn"


def test_refused(start, tmp_path):
    like = load_run(start).tokenizers.languages[0]
    where = "tokenizer.new_languages:"
    for languages, message in [
        ({like: like}, f"{where} {like!r} is already a language of this model; leave it out"),
        ({"xx_Latn": like + "x"}, f"{where} {like + 'x'!r} is not a language of this model; did you mean {like!r}?"),
    ]:
        with pytest.raises(VocabularyError) as caught:
            next(train(recipe_of(start, languages), tmp_path / "run"))
        assert str(caught.value) == message
    with pytest.raises(RecipeError, match="adapters do not train the embeddings of new tokens"):
        recipe_of(start, {"xx_Latn": like}, **{"training.lora.rank": 2})


def test_a_model_without_languages(tiny, tmp_path):
    list(train(tiny({"training.steps": 1}), tmp_path / "first"))
    recipe = tiny({"training.start": str(tmp_path / "first"), "tokenizer.new_languages.a": "b"})
    with pytest.raises(VocabularyError, match="has no languages to add others to"):
        next(train(recipe, tmp_path / "run"))
