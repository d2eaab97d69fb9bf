"""A run that begins where another ended: with its weights, its model and its tokenizer, on other data."""

import json
import shutil

import pytest
import torch

from weft.data.pairs import Pair
from weft.errors import CheckpointError, RecipeError
from weft.models.build import build_model
from weft.recipe import load_recipe
from weft.runs.layout import RunFolder
from weft.training.events import Finished, Started, Step, Validation
from weft.training.train import train
from weft.translation.load import load

STACK = {"kind": "transformer", "layers": 2, "hidden": 12, "heads": 2, "feed_forward": 20}
BOTH = {f"model.{side}.{name}": value for side in ("encoder", "decoder") for name, value in STACK.items()}
MODELS = {
    "lstm": {},
    "two vocabularies": {"tokenizer.joint": False},
    "tied": {"model.tie": "all", "model.encoder.hidden": 12, "model.decoder.hidden": 12, "model.embedding": 12},
    "transformer": {**BOTH, "model.embedding": 12, "model.tie": "target"},
    "copying": {"model.copy": True},
    "prefix": {**BOTH, "model.embedding": 12, "model.kind": "prefix_lm"},
    "language model": {"model.kind": "language_model"},
}
every_model = pytest.mark.parametrize("name", MODELS)
STILL = {"training.learning_rate": 1e-12, "training.validate_every": 1, "training.steps": 2}
MORE = {"data.options.symbols": 9, "tokenizer.extend": True}
"""Letters h and i, which the first run has never seen."""


@pytest.fixture(scope="module")
def first(tiny, tmp_path_factory):
    """The folder of the run that comes first, by its model."""
    folder = tmp_path_factory.mktemp("first")

    def first(name):
        path = folder / name.replace(" ", "_")
        if not path.exists():
            list(
                train(tiny({"name": "first", **MODELS[name], "training.steps": 9, "training.validate_every": 3}), path)
            )
        return path

    return first


@pytest.fixture
def following(tiny, first):
    """The recipe of a run that begins with the first one of a model."""

    def following(name, **changes):
        return tiny({"name": "second", **MODELS[name], "training.start": str(first(name)), **changes})

    return following


def tensors(path):
    return RunFolder(path).read_model().tensors


def validations(path):
    log = [json.loads(line) for line in (path / "log.jsonl").read_text("utf-8").splitlines()]
    return [line["loss"] for line in log if line["event"] == "validation"]


class TestTheSameVocabulary:
    @every_model
    def test_it_is_as_good_from_the_first_moment(self, following, first, tmp_path, name):
        events = list(train(following(name, **STILL), tmp_path / "run"))
        found = [event.loss for event in events if isinstance(event, Validation)]
        assert found[0] == pytest.approx(min(validations(first(name))), rel=1e-5), "the weights to use are the best"
        assert isinstance(events[-1], Finished) and [one.step for one in events if isinstance(one, Step)] == [1, 2]

    @every_model
    def test_weights_and_tokenizer_are_taken_over(self, following, first, tmp_path, name):
        prepared = next(train(following(name), tmp_path / "run"))
        assert isinstance(prepared, Started) and prepared.step == 0
        before, after = tensors(first(name)), tensors(tmp_path / "run")
        assert before.keys() == after.keys() and all(torch.equal(before[key], after[key]) for key in before)
        for old, new in zip(
            RunFolder(first(name)).tokenizer_paths(), RunFolder(tmp_path / "run").tokenizer_paths(), strict=True
        ):
            assert old.name == new.name and old.read_bytes() == new.read_bytes()

    def test_on_other_data(self, following, first, tmp_path):
        """Whose tokens get no new ids unless that is asked for."""
        (tmp_path / "pairs.tsv").write_text("a b\tb a\nc zebra\tzebra c\n", "utf-8")
        changes = {"data.train": str(tmp_path / "pairs.tsv"), "training.steps": 3}
        events = list(train(following("lstm", **changes), tmp_path / "run"))
        assert events[0].pairs == 2 and events[0].source_vocabulary == 10
        run = load(tmp_path / "run")
        assert run.force_decode([Pair("a zebra", "a")])[0].source_tokens == ["a", "<unk>", "</s>"]
        before = tensors(first("lstm"))
        assert any(not torch.equal(before[key], value) for key, value in tensors(tmp_path / "run").items())

    def test_the_first_run_is_left_alone(self, following, first, tmp_path):
        files = [path for path in sorted(first("lstm").rglob("*")) if path.is_file()]
        before = [path.read_bytes() for path in files]
        list(train(following("lstm"), tmp_path / "run"))
        assert [path.read_bytes() for path in files] == before


class TestMoreSymbols:
    @every_model
    def test_old_rows_are_kept_and_new_rows_are_fresh(self, following, first, tmp_path, name):
        recipe = following(name, **MORE)
        prepared = next(train(recipe, tmp_path / "run"))
        assert prepared.target_vocabulary == 12
        fresh = build_model(recipe.model, source_size=prepared.source_vocabulary, target_size=12, seed=recipe.seed)
        before, after, new = tensors(first(name)), tensors(tmp_path / "run"), dict(fresh.named_parameters())
        assert before.keys() == after.keys()
        tables = {key for key in before if before[key].shape != after[key].shape}
        assert tables == {key for key in before if key.endswith(("weight_VE", "weight_VD", "bias_V"))} and tables
        for key in before:
            assert torch.equal(after[key][: len(before[key])], before[key]), key
        for key in tables:
            assert len(after[key]) == 12 and len(before[key]) == 10
            assert torch.equal(after[key][10:], new[key][10:].detach()), key

    @every_model
    def test_they_are_learned(self, following, first, tmp_path, name):
        list(train(following(name, **MORE), tmp_path / "run"))
        run, old = load(tmp_path / "run"), load(first(name))
        for one, other in zip(run.tokenizers, old.tokenizers, strict=True):
            assert one.encode("a b c d e f g") == other.encode("a b c d e f g")
            assert sorted(one.encode("h i")) == [10, 11] and other.encode("h i") == [0, 0]
        assert run.tokenizers.joint == (name != "two vocabularies")
        [score] = run.score([Pair("a h", "h i")])
        assert len(score.token_scores) == 3

    def test_each_side_gets_its_own(self, following, tmp_path):
        (tmp_path / "pairs.tsv").write_text("a x\tb\na b\tc y z\n", "utf-8")
        changes = {"data.train": str(tmp_path / "pairs.tsv"), "tokenizer.extend": True}
        prepared = next(train(following("two vocabularies", **changes), tmp_path / "run"))
        assert (prepared.source_vocabulary, prepared.target_vocabulary) == (11, 12)

    def test_a_joint_one_of_both_sides(self, following, tmp_path):
        (tmp_path / "pairs.tsv").write_text("a x\tb\na b\tc y z\n", "utf-8")
        changes = {"data.train": str(tmp_path / "pairs.tsv"), "tokenizer.extend": True}
        prepared = next(train(following("lstm", **changes), tmp_path / "run"))
        assert (prepared.source_vocabulary, prepared.target_vocabulary) == (13, 13)

    def test_only_those_seen_often_enough(self, following, tmp_path):
        (tmp_path / "pairs.tsv").write_text("a x x\tb\na b\tc y\n", "utf-8")
        changes = {"data.train": str(tmp_path / "pairs.tsv"), "tokenizer.extend": True, "tokenizer.minimum_count": 2}
        assert next(train(following("lstm", **changes), tmp_path / "run")).source_vocabulary == 11


class TestRefused:
    def refusal(self, recipe, path):
        with pytest.raises(CheckpointError) as caught:
            next(train(recipe, path))
        assert not path.exists() and "\n" not in str(caught.value)
        return str(caught.value)

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            (
                {"model.encoder.hidden": 20, "model.decoder.hidden": 20},
                "tensor 'encoder.stack.layers.0.weight_ih_l0' is (32, 11) there and (40, 11) here; "
                "use the [model] and the tokenizer of its run",
            ),
            (
                {"model.decoder.layers": 2, "model.encoder.layers": 2},
                "it lacks tensor 'encoder.stack.layers.1.weight_ih_l0'; use the [model] of its recipe.toml",
            ),
            (
                {"model.attention.score": "dot"},
                "it has tensor 'decoder.attention.score.weight_QK'; use the [model] of its recipe.toml",
            ),
            ({"model.kind": "language_model"}, "it lacks tensor 'embedding.weight_VE'; "),
        ],
    )
    def test_another_model(self, following, first, tmp_path, changes, message):
        found = self.refusal(following("lstm", **changes), tmp_path / "run")
        assert found.startswith(f"--from {first('lstm')}: another model: {message}")

    def test_a_run_that_is_not_there(self, following, tmp_path):
        start = str(tmp_path / "none")
        found = self.refusal(following("lstm", **{"training.start": start}), tmp_path / "run")
        assert found.startswith(f"{start}: no such run folder; ")

    def test_a_folder_that_is_no_run(self, following, tmp_path):
        (tmp_path / "other").mkdir()
        found = self.refusal(following("lstm", **{"training.start": str(tmp_path / "other")}), tmp_path / "run")
        assert found == f"{tmp_path / 'other'}: not a run folder (it has no recipe.toml)"


class TestResuming:
    @pytest.mark.parametrize("changes", [{}, MORE], ids=["same", "extended"])
    def test_the_first_run_may_be_gone(self, tiny, first, tmp_path, changes):
        """And the second ends as if it had never been stopped."""
        gone = tmp_path / "gone"
        shutil.copytree(first("lstm"), gone)
        recipe = tiny({"name": "second", "training.start": str(gone), "training.save_every": 2, **changes})
        list(train(recipe, tmp_path / "straight"))
        events = train(recipe, tmp_path / "run")
        list(zip(events, range(4), strict=False))
        events.close()
        shutil.rmtree(gone)
        last = list(train(recipe, tmp_path / "run", resume=True))[-1]
        assert isinstance(last, Finished) and last.step == 6
        straight, found = tensors(tmp_path / "straight"), tensors(tmp_path / "run")
        assert all(torch.equal(found[key], straight[key]) for key in straight)
        assert load(tmp_path / "run").translate("a b").source == "a b"


class TestTheRecipe:
    def test_model_and_tokenizer_are_those_of_the_run(self, first):
        before = load_recipe(first("transformer") / "recipe.toml")
        recipe = load_recipe("addition", start=first("transformer"))
        assert recipe.model == before.model and recipe.tokenizer == before.tokenizer
        assert recipe.data == load_recipe("addition").data and recipe.name == "addition"
        assert recipe.training.start == str(first("transformer").resolve())

    def test_changes_come_after(self, first):
        recipe = load_recipe("addition", ["tokenizer.extend=true", "model.dropout=0.25"], start=first("lstm"))
        assert recipe.tokenizer.extend and recipe.model.dropout == 0.25

    def test_extending_is_not_handed_down(self, following, tmp_path):
        """A third run gets new ids only if that is asked for again."""
        next(train(following("lstm", **MORE), tmp_path / "run"))
        assert load_recipe(tmp_path / "run" / "recipe.toml").tokenizer.extend
        assert not load_recipe("addition", start=tmp_path / "run").tokenizer.extend

    def test_extending_needs_a_start(self, tiny):
        with pytest.raises(RecipeError) as caught:
            tiny({"tokenizer.extend": True})
        assert str(caught.value) == "tokenizer.extend: there is no tokenizer to extend; start from a run (--from RUN)"
