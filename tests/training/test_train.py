"""Whole runs: what a recipe describes is done, and what cannot be done is refused in one line."""

import json
import warnings
from itertools import count, islice, product

import pytest
import torch

from fixtures.training_runs import (
    EVERYTHING,
    LANGUAGE,
    TRANSFORMER,
    contents,
)
from weft.data.pairs import Pair
from weft.errors import CheckpointError, DataError, RecipeError, TrainingError
from weft.recipe import load_recipe, make_recipe
from weft.runs.layout import RunFolder
from weft.runs.length_limits import LengthLimits
from weft.training import update, validation
from weft.training.distributed import Workers
from weft.training.events import Finished, Skipped, Started, Step, Validation
from weft.training.train import TrainingOptions, train, train_with
from weft.translation.load import load


class TestARun:
    def test_leaves_a_whole_folder(self, tiny, tmp_path, capfd):
        recipe = tiny({"training.steps": 3, "training.validate_every": 2, "data.folder": "."})
        events = list(train(recipe, tmp_path / "run"))
        assert capfd.readouterr() == ("", "")
        names = {path.name for path in (tmp_path / "run").iterdir()}
        wanted = {
            "recipe.toml",
            "tokenizer.json",
            "lengths.json",
            "fingerprints.bin",
            "model.safetensors",
            "training",
            "data_files.json",
            "examples.json",
            "log.jsonl",
            "metrics.json",
            "README.md",
        }
        assert names == wanted
        assert [path.name for path in tmp_path.iterdir()] == ["run"]
        saved = load_recipe(tmp_path / "run" / "recipe.toml")
        assert saved.model == recipe.model and saved.training == recipe.training and saved.seed == recipe.seed
        metrics = json.loads((tmp_path / "run" / "metrics.json").read_text("utf-8"))
        assert metrics["steps"] == 3 and metrics["best_step"] == 2 and metrics["last_validation"]["perplexity"] > 1
        assert isinstance(events[0], Started) and isinstance(events[-1], Finished)

    def test_the_started_event(self, tiny, tmp_path):
        prepared = next(train(tiny({"data.max_length": 3}), tmp_path / "run"))
        assert isinstance(prepared, Started) and prepared.step == 0 and prepared.device == "cpu"
        [(reason, long)] = prepared.dropped.items()
        assert prepared.pairs + long == 120 and long > 0 and reason.startswith("more than")
        assert prepared.source_vocabulary == prepared.target_vocabulary == 3 + 7
        model = RunFolder(tmp_path / "run").read_model()
        assert prepared.parameters == sum(tensor.numel() for tensor in model.tensors.values())
        assert (prepared.steps, prepared.path) == (6, str(tmp_path / "run"))

    def test_can_be_loaded_once_there_is_something_to_load(self, tiny, tmp_path):
        """Initial weights are refused; weights that were never validated are loaded, with a warning."""
        path, messages = tmp_path / "run", []
        for event in train(tiny({"training.steps": 2, "training.save_every": 1}), path):
            if isinstance(event, Started) or (isinstance(event, Step) and event.step == 1):
                with pytest.raises(CheckpointError) as caught:
                    load(path)
                assert str(caught.value) == (
                    f"{path}: not trained yet: it holds the initial weights (step 0 of 2); "
                    f"continue with: weft train {path} --resume"
                )
                continue
            with warnings.catch_warnings(record=True) as caught_warnings:
                assert load(path).translate("a b", kind="greedy").source == "a b", event
            messages.append([str(warning.message) for warning in caught_warnings])
        unfinished = f"{path}: training is at step 1 of 2, and these weights were never validated; continue with: "
        assert messages == [[f"{unfinished}weft train {path} --resume"]] * 2 + [[]] * 2

    def test_logs_every_event_but_only_some_steps(self, tiny, tmp_path):
        changes = {"training.steps": 7, "training.log_every": 3, "training.validate_every": 2, "training.save_every": 4}
        events = list(train(tiny(changes), tmp_path / "run"))
        log = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text("utf-8").splitlines()]
        wanted = [event for event in events if not isinstance(event, Step) or event.step in (3, 6)]
        assert log == [json.loads(json.dumps(event.record())) for event in wanted]

    def test_seeds(self, tiny, tmp_path):
        found = []
        for name, seed in (("a", 1), ("b", 1), ("c", 2)):
            list(train(tiny({"seed": seed, "training.steps": 3}), tmp_path / name))
            found.append(contents(tmp_path / name)[0]["model.safetensors"][1])
        assert found[0] == found[1]
        assert found[0] != found[2]

    def test_by_a_metric_of_decoded_text(self, tiny, tmp_path):
        changes = {**EVERYTHING, "training.steps": 4, "training.metric": "exact_match"}
        validations = [event for event in train(tiny(changes), tmp_path / "run") if isinstance(event, Validation)]
        assert len(validations) == 2 and all(event.metrics.keys() == {"exact_match"} for event in validations)
        assert "exact_match" in json.loads((tmp_path / "run" / "metrics.json").read_text("utf-8"))["last_validation"]

    def test_a_metric_where_less_is_more(self, tiny, tmp_path, monkeypatch):
        rates = iter([50.0, 20.0, 30.0])
        original = validation.compute_metrics

        def measured(*arguments, **options):
            return [one._replace(value=next(rates)) for one in original(*arguments, **options)]

        monkeypatch.setattr(validation, "compute_metrics", measured)
        changes = {**EVERYTHING, "training.metric": "item_error_rate", "training.average": 1}
        events = list(train(tiny(changes), tmp_path / "run"))
        assert [event.is_best for event in events if isinstance(event, Validation)] == [True, True, False]
        assert events[-1].best_step == 4

    def test_of_a_language_model(self, tiny, tmp_path):
        events = list(train(tiny({**LANGUAGE, "training.steps": 30}), tmp_path / "run"))
        losses = [event.loss for event in events if isinstance(event, Step)]
        assert sum(losses[-5:]) < sum(losses[:5])
        assert load(tmp_path / "run").recipe.model.kind == "language_model"

    def test_of_files(self, tiny, tmp_path, monkeypatch):
        (tmp_path / "pairs.tsv").write_text("a b\tb a\n\tx\nc\td\n" + "a " * 30 + "\ta\n", "utf-8")
        monkeypatch.chdir(tmp_path)
        recipe = tiny({"data.train": "pairs.tsv", "data.max_length": 9, "training.steps": 1})
        prepared, *_ = train(recipe, "run")
        assert prepared.pairs == 2
        assert prepared.dropped == {"more than 9 tokens on a side": 1, "a blank side": 1}
        monkeypatch.chdir("/")
        saved = load_recipe(tmp_path / "run" / "recipe.toml")
        assert next(train(saved, tmp_path / "run", resume=True)).pairs == 2

    def test_of_a_table(self, tiny, tmp_path):
        """With a resumption, and validations asked for where there is nothing to validate on."""
        (tmp_path / "t.tsv").write_text("gehen\tV;PRS\tgeht\nsehen\tV;PST(SG)\tsah\n\t\tx\n", "utf-8")
        table = {"file": "t.tsv", "source": [1, 2], "target": [3], "tags": [2]}
        changes = {"training.validate_every": 1, "training.steps": 2, "tokenizer.kind": "character"}
        changes["tokenizer.tags"] = True
        tree = tiny(changes).model_dump()
        tree["data"] = {"train": table, "folder": str(tmp_path)}
        recipe = make_recipe(tree)
        events = list(train(recipe, tmp_path / "run"))
        assert (events[0].pairs, events[0].dropped) == (2, {"a blank side": 1})
        assert not [event for event in events if isinstance(event, Validation)]
        assert next(train(recipe, tmp_path / "run", resume=True)).pairs == 2
        run = load(tmp_path / "run")
        assert run.recipe.data.train == recipe.data.train
        found = run.force_decode([Pair("sehen <V><PST(SG)>", "sah")])[0]
        assert found.source_tokens == [*"sehen", "␣", "<V>", "<PST(SG)>", "</s>"]
        assert run.translate("<never><seen>", n_best=2).attention.shape[1] == 3

    def test_of_two_units(self, tiny, tmp_path):
        """Letters in, phones out: training, and the run that is loaded, have a tokenizer for each side."""
        (tmp_path / "g2p.tsv").write_text("chat\tʃ a\nchou\tʃ u\ntas\tt a\n", "utf-8")
        changes = {"tokenizer.kind": "character", "tokenizer.target_kind": "word", "tokenizer.joint": False}
        files = {"data.train": "g2p.tsv", "data.valid": "g2p.tsv", "data.folder": str(tmp_path)}
        asked = {"training.validate_every": 6, "training.metric": "item_error_rate"}
        events = list(train(tiny({**changes, **files, **asked}), tmp_path / "run"))
        [validation] = [event for event in events if isinstance(event, Validation)]
        assert "item_error_rate" in validation.metrics
        assert (events[0].source_vocabulary, events[0].target_vocabulary) == (3 + 7, 3 + 4)
        found = load(tmp_path / "run").force_decode([Pair("chat", "ʃ a")])[0]
        assert found.source_tokens == [*"chat", "</s>"] and found.tokens == ["ʃ", "a"]
        assert found.word_attention.source == ["chat", "</s>"] and found.word_attention.target == ["ʃ", "a"]

    @pytest.mark.parametrize(
        ("kind", "task"),
        [("seq2seq", "copy"), ("seq2seq", "addition"), ("prefix_lm", "copy"), ("language_model", "addition")],
    )
    def test_of_a_transformer(self, tiny, tmp_path, kind, task):
        """From a recipe to a run that answers."""
        changes = {**TRANSFORMER, "model.kind": kind, "data.train": task, "data.train_size": 300}
        changes |= {"model.dropout": 0.0, "training.steps": 40, "training.batch_tokens": 200, "training.warmup": 10}
        changes |= {"training.learning_rate": 0.02, "training.validate_every": 8, "training.label_smoothing": 0.0}
        recipe = tiny(changes)
        if task == "addition":
            data = recipe.data.model_copy(update={"options": {"digits": 2}})
            tokenizer = recipe.tokenizer.model_copy(update={"kind": "character"})
            recipe = recipe.model_copy(update={"data": data, "tokenizer": tokenizer})
        events = list(train(recipe, tmp_path / "run"))
        losses = [event.loss for event in events if isinstance(event, Step)]
        assert len(losses) == 40 and sum(losses[-5:]) < 0.85 * sum(losses[:5])
        first, *_, last = [event.loss for event in events if isinstance(event, Validation)]
        assert last < 0.95 * first  # 0.64 to 0.84 with other seeds
        run = load(tmp_path / "run")
        assert run.recipe.model == recipe.model and run.recipe.model.kind == kind
        line = "a b" if task == "copy" else "12+3"
        [score] = run.score([Pair(line, line)])
        assert sum(score.token_scores) == pytest.approx(score.log_probability, abs=1e-4) and score.log_probability < 0
        if kind == "language_model":
            assert run.sample(3, length=5, seed=1) == run.sample(3, length=5, seed=1)
            assert all(text.startswith(line[0]) for text in run.sample(2, prompt=line[0], length=4))
            assert "language model" in (tmp_path / "run" / "README.md").read_text("utf-8")
        else:
            for search in ("greedy", "beam", "sample"):
                found = run.translate([line, "", line], kind=search)
                assert found[0].attention.shape == (len(found[0].tokens), len(found[0].source_tokens))
                assert found[0].attention.sum(1) == pytest.approx(1.0, abs=1e-4)
                assert found[1].text == "" and (search == "sample" or found[0].text == found[2].text)

    @pytest.mark.slow
    def test_a_transformer_learns_to_copy(self, tiny, tmp_path):
        changes = {
            **TRANSFORMER,
            "data.options.length": 4,
            "data.options.symbols": 5,
            "data.train_size": 600,
            "model.embedding": 24,
            "model.encoder.hidden": 24,
            "model.decoder.hidden": 24,
            "model.dropout": 0.0,
            "training.label_smoothing": 0.0,
            "training.steps": 250,
            "training.batch_tokens": 256,
            "training.warmup": 30,
            "training.log_every": 100,
        }
        list(train(tiny(changes), tmp_path / "run"))
        lines = [" ".join(letters) for letters in islice(product("abcde", repeat=3), 0, None, 6)]
        outputs = load(tmp_path / "run").translate(lines)
        assert sum(output.text == line for output, line in zip(outputs, lines, strict=True)) > 0.7 * len(lines)

    @pytest.mark.parametrize("kind", ["seq2seq", "prefix_lm", "language_model"])
    @pytest.mark.parametrize("forcing", ["scheduled", "free"])
    def test_of_a_transformer_that_reads_its_predictions(self, tiny, tmp_path, kind, forcing):
        changes = {**TRANSFORMER, "model.kind": kind, "training.forcing": forcing, "training.sampling": 1.0}
        events = list(train(tiny({**changes, "training.steps": 5}), tmp_path / "run"))
        losses = [event.loss for event in events if isinstance(event, Step)]
        assert len(losses) == 5 and not any(isinstance(event, Skipped) for event in events)

    @pytest.mark.parametrize("precision", ["tf32", "bf16"])
    @pytest.mark.parametrize("kind", ["seq2seq", "prefix_lm", "language_model"])
    def test_of_a_transformer_in_any_precision(self, tiny, tmp_path, kind, precision):
        changes = {**TRANSFORMER, "model.kind": kind, "training.precision": precision, "training.compile": "on"}
        changes |= {"training.steps": 30, "training.warmup": 5, "training.label_smoothing": 0.0}
        events = list(train(tiny(changes), tmp_path / "run"))
        losses = [event.loss for event in events if isinstance(event, Step)]
        assert len(losses) == 30 and sum(losses[-5:]) < 0.95 * sum(losses[:5])  # 0.65 to 0.82 with other seeds

    def test_learned_positions_end(self, tiny, tmp_path):
        """Training keeps to data.max_length; a longer line is refused in one line."""
        learned = {"positions": "learned", "max_positions": 6}
        positions = {
            f"model.{side}.{name}": value for side in ("encoder", "decoder") for name, value in learned.items()
        }
        list(train(tiny({**TRANSFORMER, **positions, "data.max_length": 5, "training.steps": 2}), tmp_path / "run"))
        run = load(tmp_path / "run")
        assert run.translate("a b c d e", max_ratio=1.0, max_extra=1).source == "a b c d e"
        with pytest.raises(DataError) as caught:
            run.translate("a b c d e f")
        message = "a sequence of 7 tokens: this model has learned 6 positions (max_positions); "
        assert str(caught.value).startswith(message) and "\n" not in str(caught.value)

    def test_learned_positions_of_one_stack_hold_both_sides(self, tiny, tmp_path):
        """What a recipe allows, training can do; a recipe that allows more is refused."""
        changes = {**TRANSFORMER, "model.kind": "prefix_lm", "data.max_length": 5, "model.decoder.positions": "learned"}
        with pytest.raises(RecipeError):
            tiny({**changes, "model.decoder.max_positions": 11})
        recipe = tiny({**changes, "model.decoder.max_positions": 12})
        assert isinstance(list(train(recipe, tmp_path / "run"))[-1], Finished)

    def test_goes_to_runs_by_default(self, tiny, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        next(train(tiny({"name": "mine"})))
        assert (tmp_path / "runs" / "mine" / "recipe.toml").is_file()


class TestRefused:
    def refusal(self, recipe, path, error):
        with pytest.raises(error) as caught:
            next(train(recipe, path))
        assert not path.exists() and not list(path.parent.glob(".*"))
        assert "\n" not in str(caught.value)
        return str(caught.value)

    @pytest.mark.parametrize(
        ("changes", "error", "message"),
        [
            (
                {"evaluation.metrics": ["blue"]},
                RecipeError,
                "evaluation.metrics: unknown metric 'blue'; did you mean 'bleu'?",
            ),
            (
                {"training.metric": "exact", "training.validate_every": 1},
                RecipeError,
                "training.metric: unknown metric 'exact'; did you mean 'exact_match'?",
            ),
            (
                {"training.metric": "bleu", "training.validate_every": 1, "model.kind": "language_model"},
                RecipeError,
                "training.metric: 'bleu' needs translations; a language model is judged by 'loss'",
            ),
            (
                {"training.device": "gpu"},
                RecipeError,
                "training.device: 'gpu' is not a device; use auto, cpu, cuda or cuda:0",
            ),
            ({"data.train": "coppy"}, DataError, "no built-in corpus of that name; did you mean 'copy'?"),
            ({"data.options.lenght": 3}, RecipeError, "task copy: unknown option 'lenght'; did you mean 'length'?"),
            (
                {
                    "data.max_length": 1,
                    "data.options.length": 1,
                    "tokenizer.kind": "byte",
                    "data.train": "dates",
                    "data.options": {},
                },
                DataError,
                "data.train: no pair is left to train on (120 more than 1 tokens on a side)",
            ),
            (
                {"model.bridge": "copy", "model.decoder.layers": 2},
                RecipeError,
                "model.bridge: 'copy' needs encoder and decoder of the same kind, layers and hidden size; "
                "use 'project', or 'auto'",
            ),
            (
                {"model.attention.score": "dot", "model.decoder.hidden": 12},
                RecipeError,
                "model.attention.score: 'dot' needs queries and keys of one size, but they have 12 and 16; ",
            ),
        ],
    )
    def test_before_a_folder_is_made(self, tiny, tmp_path, changes, error, message):
        assert message in self.refusal(tiny(changes), tmp_path / "run", error)

    @pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has CUDA")
    def test_a_device_that_is_not_here(self, tiny, tmp_path):
        message = self.refusal(tiny({"training.device": "cuda"}), tmp_path / "run", RecipeError)
        assert message == "training.device: 'cuda' was requested, but this machine has no CUDA; use cpu or auto"

    @pytest.mark.parametrize("split", ["train", "valid"])
    def test_standard_input_for_several_workers(self, tiny, tmp_path, split):
        """The first would read it all, and the others would train on nothing."""
        recipe = tiny({f"data.{split}": "-", "data.options": {}})
        with pytest.raises(DataError) as caught:
            next(train_with(recipe, tmp_path / "run", TrainingOptions(workers=Workers(rank=0, world_size=2))))
        assert str(caught.value) == (
            f"data.{split}: several workers cannot all read standard input (-); give them a file"
        )

    def test_validation_pairs_that_cannot_be_read_before_anything_is_prepared(self, tiny, tmp_path):
        missing = str(tmp_path / "none.tsv")
        prepared = tmp_path / "prepared"
        asked = {"data.valid": missing, "data.prepared": str(prepared), "training.validate_every": 1}
        assert self.refusal(tiny(asked), tmp_path / "run", DataError).startswith(f"data.valid: {missing}: no such file")
        assert not prepared.exists()

    def test_nothing_to_validate_on(self, tiny, tmp_path):
        (tmp_path / "empty.tsv").write_text("\t\n", "utf-8")
        changes = {"data.valid": str(tmp_path / "empty.tsv"), "training.validate_every": 1}
        assert "data.valid: no pair is left to validate on" in self.refusal(tiny(changes), tmp_path / "run", DataError)


class TestNotFinite:
    @pytest.fixture(params=[{}, TRANSFORMER], ids=["lstm", "transformer"])
    def changes(self, request):
        return request.param

    @pytest.fixture
    def broken(self, tiny, tmp_path, monkeypatch, changes):
        """A run that ended because its loss was not finite from step 4 on."""
        calls = count(1)
        original = update.batch_loss

        def spoilt(*arguments, **keywords):
            found = original(*arguments, **keywords)
            return found if next(calls) < 4 else found._replace(smoothed=found.smoothed * float("nan"))

        monkeypatch.setattr(update, "batch_loss", spoilt)
        seen = []
        with pytest.raises(TrainingError) as caught:
            seen += train(tiny({**changes, "training.steps": 30}), tmp_path / "run")
        monkeypatch.setattr(update, "batch_loss", original)
        return tmp_path / "run", str(caught.value)

    def test_ends_with_one_line_and_a_folder_that_loads(self, broken):
        path, message = broken
        assert message.startswith("step 8: the loss was not finite 5 times in a row; ")
        assert str(path) in message and "\n" not in message
        assert load(path).translate("a b", kind="greedy").text is not None
        log = [json.loads(line) for line in (path / "log.jsonl").read_text("utf-8").splitlines()]
        assert [line["consecutive"] for line in log if line["event"] == "skipped"] == [1, 2, 3, 4, 5]

    def test_can_be_resumed(self, broken, tiny, changes):
        path, _ = broken
        events = list(train(tiny({**changes, "training.steps": 10}), path, resume=True))
        assert [event.step for event in events if isinstance(event, Step)] == [9, 10]
        assert not any(isinstance(event, Skipped) for event in events)

    @pytest.mark.parametrize("name", ["training.learning_rate", "training.clip"])
    def test_its_advice_can_be_followed(self, broken, tiny, changes, name):
        path, message = broken
        assert name in message and "resume" in message
        events = list(train(tiny({**changes, "training.steps": 10, name: 0.001}), path, resume=True))
        assert events[-1].step == 10


def test_validation_counts_outputs_that_reach_the_length_limit(tiny, tmp_path):
    """By the limits of the run, which `search.max_length` overrides."""
    changes = {"training.steps": 100, "training.validate_every": 100, "training.metric": "exact_match"}
    changes |= {"training.valid_sentences": 5, "search.kind": "greedy", "search.min_length": 3}
    for name, limit, cut_off in (("cut", 3, 5), ("ended", 0, 0)):  # the model has learned to end
        recipe = tiny({**changes, "search.max_length": limit})
        [event] = [event for event in train(recipe, tmp_path / name) if isinstance(event, Validation)]
        assert event.outputs == 5 and (event.ended_by_length == 5) == bool(cut_off)
        lines = map(json.loads, (tmp_path / name / "log.jsonl").read_text("utf-8").splitlines())
        [line] = [line for line in lines if line["event"] == "validation"]
        assert (line["outputs"], line["ended_by_length"]) == (5, event.ended_by_length)


def test_validation_searches_within_the_limits_that_the_run_has_learned(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(LengthLimits, "largest", classmethod(lambda cls, limits: cls(0.0, 2)))
    changes = {"training.steps": 1, "training.validate_every": 1, "training.metric": "exact_match"}
    recipe = tiny({**changes, "training.valid_sentences": 5, "search.kind": "greedy", "search.min_length": 2})
    [event] = [event for event in train(recipe, tmp_path / "run") if isinstance(event, Validation)]
    assert (event.outputs, event.ended_by_length) == (5, 5)
