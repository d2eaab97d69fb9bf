"""Validation: a seeded sample of the whole set, what was left out of it, and losses that are not finite."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest
import torch

from weft.data.pairs import Pair
from weft.data.preparation import prepare
from weft.errors import WeftWarning
from weft.evaluation.pairs import EvaluationItems, each_pair
from weft.recipe import Recipe
from weft.runs.training_log import read_training_log
from weft.training import validation
from weft.training.events import Averaged, Started, Validation
from weft.training.train import train
from weft.training.validation import RecipeValidation, sample_items

Tiny = Callable[..., Recipe]
ITEMS = each_pair(Pair(f"source {number}", f"target {number}") for number in range(1000))


class TestSample:
    def test_is_of_the_whole_set_in_its_order(self) -> None:
        sources, references = sample_items(ITEMS, 50, seed=1)
        numbers = [int(source.split()[1]) for source in sources]
        assert numbers == sorted(set(numbers)) and len(numbers) == 50
        assert min(numbers) < 100 and max(numbers) >= 900, "not a head of the file"
        assert references == [[f"target {number}"] for number in numbers]

    def test_depends_on_the_seed_alone(self) -> None:
        assert sample_items(ITEMS, 50, seed=1) == sample_items(ITEMS, 50, seed=1) != sample_items(ITEMS, 50, seed=2)

    @pytest.mark.parametrize("size", [1000, 1001])
    def test_a_small_set_is_taken_whole(self, size: int) -> None:
        assert sample_items(ITEMS, size, seed=1) == ITEMS
        assert sample_items(EvaluationItems([], []), size, seed=1) == EvaluationItems([], [])

    def test_its_size_is_in_the_log_and_on_the_card(self, tiny: Tiny, tmp_path: Path) -> None:
        changes = {"training.metric": "exact_match", "training.validate_every": 1, "training.valid_sentences": 7}
        events = list(train(tiny({**changes, "training.steps": 1}), tmp_path / "run"))
        [event] = [event for event in events if isinstance(event, Validation)]
        assert event.sample == (7, 20)
        metrics = json.loads((tmp_path / "run" / "metrics.json").read_text("utf-8"))
        assert metrics["validation_sample"] == [7, 20]
        card = (tmp_path / "run" / "README.md").read_text("utf-8")
        assert ", exact_match 0.000 (exact_match on a sample of 7 of 20 sentences)\n" in card


class TestStructuralHoldout:
    CHANGES: ClassVar = {"training.metric": "exact_match", "training.validate_every": 1, "training.average": 2}

    def test_its_numbers_stand_beside_those_of_the_validation_set(self, tiny: Tiny, tmp_path: Path) -> None:
        recipe = tiny({**self.CHANGES, "training.steps": 2, "data.holdout.structure": 0.3})
        plain = list(train(tiny({**self.CHANGES, "training.steps": 2}), tmp_path / "plain"))
        events = list(train(recipe, tmp_path / "run"))
        validations = [event for event in events if isinstance(event, Validation | Averaged)]
        assert [set(event.structural) for event in validations] == [{"loss", "perplexity", "exact_match"}] * 3
        assert all(event.structural["loss"] != event.loss for event in validations)
        assert not any(event.structural for event in plain if isinstance(event, Validation | Averaged))
        metrics = json.loads((tmp_path / "run" / "metrics.json").read_text("utf-8"))
        names = ["loss", "perplexity", "exact_match"]
        assert list(metrics["validation"]) == [*names, *(f"structural_{name}" for name in names)]
        card = (tmp_path / "run" / "README.md").read_text("utf-8")
        assert "; held out: 30.00% for validation by structure, at most\n" in card
        assert "; pairs held out for their structure: loss " in card
        log = read_training_log(tmp_path / "run" / "log.jsonl")
        assert log is not None and log.metric_names == ["exact_match", "structural_exact_match"]

    def test_it_ranks_no_checkpoint(self, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        scores = iter([(1.0, 9.0), (2.0, 1.0)])  # of the validation set, which prefers the second, and of the structure

        def validate(self: RecipeValidation, model: object) -> validation.ValidationScores:
            score, structural = next(scores)
            return validation.ValidationScores(1.0, 2.0, {}, score, structural={"loss": -structural})

        monkeypatch.setattr(RecipeValidation, "__call__", validate)
        changes = {"training.validate_every": 1, "training.steps": 2, "data.holdout.structure": 0.3}
        events = list(train(tiny(changes), tmp_path / "run"))
        assert [event.is_best for event in events if isinstance(event, Validation)] == [True, True]

    def test_a_resumed_run_validates_on_the_same_pairs(self, tiny: Tiny, tmp_path: Path) -> None:
        recipe = tiny({**self.CHANGES, "training.steps": 4, "data.holdout.structure": 0.3})
        whole = [event for event in train(recipe, tmp_path / "whole") if isinstance(event, Validation)]
        events = train(recipe, tmp_path / "run")
        next(event for event in events if isinstance(event, Validation))
        events.close()
        rest = [event for event in train(recipe, tmp_path / "run", resume=True) if isinstance(event, Validation)]
        assert rest[-1] == whole[-1] and rest[-1].structural

    def test_few_of_its_sentences_are_searched(self, tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(validation, "STRUCTURAL_SENTENCES", 3)
        recipe = tiny({**self.CHANGES, "data.holdout.structure": 0.3})
        validate = RecipeValidation(recipe, [Pair("1+1", "2")] * 5, prepare(recipe), torch.device("cpu"))
        assert validate.structural is not None and validate.searched == 5 + 3
        assert len(validate.structural.encoded) > 3

    def test_a_corpus_without_structure_is_warned_of(self, tiny: Tiny) -> None:
        recipe = tiny({**self.CHANGES, "data.holdout.structure": 0.0001})
        with pytest.warns(WeftWarning, match=r"^data\.holdout\.structure: no pairs are held out; their combinations"):
            validate = RecipeValidation(recipe, [Pair("1+1", "2")], prepare(recipe), torch.device("cpu"))
        assert validate.structural is None and validate.searched == 1


@pytest.mark.parametrize("loss", [math.inf, math.nan, 1000.0])
@pytest.mark.parametrize("metric", ["loss", "exact_match"])
def test_a_loss_that_is_not_finite_is_the_worst(
    tiny: Tiny, loss: float, metric: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one whose perplexity overflows: a perplexity of infinity is never the best."""
    from fixtures.tokenizers import learn
    from weft.text.tokenizer import Tokenizers

    tokenizer = learn("word", ["a b"])
    prepared = SimpleNamespace(tokenizers=Tokenizers(tokenizer, tokenizer), length_limits=None)
    scored = SimpleNamespace(loss=loss, log_probability=-loss * 10, tokens=10)
    monkeypatch.setattr(validation, "likelihood", lambda *_, **__: scored)
    translator = SimpleNamespace(
        translate=lambda lines, **_: [SimpleNamespace(text="b", ended_by_length=False) for _ in lines]
    )
    monkeypatch.setattr(validation, "Translator", lambda *_, **__: translator)
    recipe = tiny({"training.metric": metric, "training.validate_every": 1})
    validate = RecipeValidation(recipe, [Pair("a", "b")], prepared, torch.device("cpu"))  # type: ignore[arg-type]
    scores = validate(None)  # type: ignore[arg-type]
    assert scores.score == -math.inf and not math.isfinite(scores.perplexity)


def test_rows_left_out_of_the_validation_set_are_told(tiny: Tiny, tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("a b\tb a\nc\td\n", "utf-8")
    (tmp_path / "valid.tsv").write_text("a\tb\none column\nc\td\nanother\n", "utf-8")
    files = {"data.train": "train.tsv", "data.valid": "valid.tsv", "data.folder": str(tmp_path)}
    changes = {**files, "data.bad_rows": "skip", "training.validate_every": 1}
    started = next(train(tiny(changes), tmp_path / "run"))
    assert isinstance(started, Started)
    [(reason, count)] = started.dropped.items()
    assert reason.startswith("of data.valid (") and count == 2


def test_sources_too_long_to_be_translated_do_not_end_a_run(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were an error at the first validation, after minutes of training."""
    monkeypatch.setattr("weft.translation.inputs.MAX_SOURCE_TOKENS", 5)
    long = " ".join("a" * 30)  # with its end token one more than 10 times data.max_length
    (tmp_path / "train.tsv").write_text("a b\tb a\na\tb\n", "utf-8")
    (tmp_path / "valid.tsv").write_text(f"a\tb\n{long}\tb\n{long[2:]}\tb\nb\ta\n", "utf-8")
    files = {"data.train": "train.tsv", "data.valid": "valid.tsv", "data.folder": str(tmp_path)}
    changes = {**files, "data.max_length": 3, "training.validate_every": 1, "training.steps": 1}
    message = "data.valid: 1 source of more than 30 tokens, too long to be translated: left out of exact_match"
    with pytest.warns(WeftWarning, match=f"^{message}$"):
        events = list(train(tiny({**changes, "training.metric": "exact_match"}), tmp_path / "run"))
    [event] = [event for event in events if isinstance(event, Validation)]
    assert event.sample == (3, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error", WeftWarning)
        list(train(tiny({**changes, "training.metric": "loss"}), tmp_path / "by-loss"))


def test_without_validations_no_pairs_are_read(tiny: Tiny) -> None:
    """A large validation file costs nothing, and a damaged one does not stop a run that never looks at it."""
    from collections import Counter

    from weft.training.validation import read_validation_pairs

    assert read_validation_pairs(tiny({"training.validate_every": 0}), Counter()) is None
    assert read_validation_pairs(tiny({"training.validate_every": 5}), Counter())


def test_no_advice_about_outputs_of_a_model_that_has_learned_little(
    tiny: Tiny, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With every validation sacrebleu would say that a space stands before the periods: the references have none."""
    from fixtures.tokenizers import learn
    from weft.text.tokenizer import Tokenizers

    tokenizer = learn("word", ["a b"])
    prepared = SimpleNamespace(tokenizers=Tokenizers(tokenizer, tokenizer), length_limits=None)
    scored = SimpleNamespace(loss=1.0, log_probability=-10.0, tokens=10)
    monkeypatch.setattr(validation, "likelihood", lambda *_, **__: scored)
    output = SimpleNamespace(text="b .", ended_by_length=False)
    translator = SimpleNamespace(translate=lambda lines, **_: [output for _ in lines])
    monkeypatch.setattr(validation, "Translator", lambda *_, **__: translator)
    recipe = tiny({"training.metric": "bleu", "training.validate_every": 1})
    pairs = [Pair("a", "b.")] * 120
    validate = RecipeValidation(recipe, pairs, prepared, torch.device("cpu"))  # type: ignore[arg-type]
    assert validate(None).outputs == 120 and not caplog.records  # type: ignore[arg-type]
