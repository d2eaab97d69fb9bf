"""The model card says what the recipe says, and how the run ended."""

import math
import shlex
from pathlib import Path

import pytest

from fixtures.tokenizers import learn
from weft.recipe import make_recipe
from weft.runs.model_card import TrainingStatus, model_card, with_facts
from weft.runs.weights import WeightsOrigin
from weft.text.tokenizer import Tokenizers
from weft.training.events import Finished

ONE = learn("character", ["abc"])
OTHER = learn("character", ["abcde"])
JOINT = Tokenizers(ONE, ONE)


INITIAL = WeightsOrigin("initial", (0,))


def card(*changes, tokenizers=JOINT, run="runs/mine", weights=INITIAL, finished=None, sample=None):
    return model_card(make_recipe({}, changes), tokenizers, TrainingStatus(Path(run), weights, finished, sample))


def test_what_it_is_of():
    text = card(
        "name=mine", "summary=Turns letters around.", "data.train=reverse", "seed=7", "tokenizer.kind=character"
    )
    assert text.startswith("# mine\n\nTurns letters around.\n\n") and text.endswith("in Python.\n")
    assert "- model: lstm encoder 1 × 512, bidirectional; lstm decoder 1 × 512; general attention\n" in text
    assert "- units: character (6, shared)\n- data: reverse\n- seed: 7\n" in text


def test_without_a_summary():
    assert "\nA model trained with weft.\n" in card()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (["model.encoder.bidirectional=false", "model.encoder.kind=gru"], "gru encoder 1 × 512; lstm decoder"),
        (["model.attention.score=none"], "; no attention\n"),
        (
            ["model.encoder.kind=transformer", "model.decoder.kind=transformer", "model.decoder.positions=rotary"],
            "- model: transformer encoder 6 × 512, 8 heads, sinusoidal positions; "
            "transformer decoder 6 × 512, 8 heads, rotary positions\n",
        ),
        (
            ["model.encoder.kind=attention", "model.encoder.layers=2"],
            "- model: attention encoder 2 × 512, 8 heads, sinusoidal positions; lstm decoder 1 × 512; "
            "general attention\n",
        ),
        (
            ["model.encoder.kind=gru", "model.decoder.kind=transformer"],
            "- model: gru encoder 1 × 512, bidirectional; transformer decoder 6 × 512, 8 heads, sinusoidal positions\n",
        ),
        (
            ["model.kind=prefix_lm", "model.decoder.kind=transformer", "model.decoder.heads=4"],
            "- model: transformer prefix language model 6 × 512, 4 heads, sinusoidal positions\n",
        ),
        (
            ["model.kind=language_model", "model.decoder.kind=transformer"],
            "- model: transformer language model 6 × 512, 8 heads, sinusoidal positions\n",
        ),
        (
            ["model.kind=language_model", "model.decoder.layers=2"],
            "- model: lstm language model 2 × 512; general attention\n",
        ),
        (['data.train={source="a.en", target="a.fr"}'], "- data: a.en → a.fr\n"),
        (['data.train={file="a.tsv", source=[1, 2], target=[3]}'], "- data: a.tsv, columns 1, 2 → 3\n"),
    ],
)
def test_every_kind_of_model_and_data(changes, expected):
    assert expected in card(*changes)


def test_two_units():
    changes = ["tokenizer.kind=character", "tokenizer.target_kind=word", "tokenizer.joint=false"]
    assert "- units: character → word (6 source, 8 target)\n" in card(*changes, tokenizers=Tokenizers(ONE, OTHER))
    assert "- units: word (6, shared)\n" in card(*changes, "model.kind=language_model")


def test_two_vocabularies():
    assert "(6 source, 8 target)" in card(tokenizers=Tokenizers(ONE, OTHER))


def test_a_run_that_goes_on():
    text = card(run="runs/it's mine")
    command = """weft train 'runs/it'"'"'s mine' --resume"""
    line = f"- state: training has started; after an interruption, continue it with `{command}`\n"
    assert line in text and "trained:" not in text and "weights:" not in text
    assert shlex.split(command)[2] == "runs/it's mine"


FINISHED = Finished(400, "patience", 61.7, 300)


@pytest.mark.parametrize(
    ("weights", "sample", "expected"),
    [
        (WeightsOrigin("last", (400,)), None, "step 400; never validated"),
        (
            WeightsOrigin("best", (300,), {"loss": 1.2, "perplexity": 3.3201, "bleu": 31.257}),
            (200, 1014),
            "step 300; validation loss 1.200, perplexity 3.320, bleu 31.257 "
            "(bleu on a sample of 200 of 1,014 sentences)",
        ),
        (
            WeightsOrigin("mean", (200, 300, 400), {"loss": 1.2, "perplexity": 3.3201, "bleu": 31.257}),
            (1014, 1014),
            "the mean of steps 200, 300 and 400; validation loss 1.200, perplexity 3.320, bleu 31.257",
        ),
        (
            WeightsOrigin("last", (400,), {"loss": math.nan, "perplexity": math.nan}),
            None,
            "step 400; validation loss nan, perplexity nan: training diverged",
        ),
    ],
)
def test_a_run_that_ended(weights, sample, expected):
    text = card(weights=weights, finished=FINISHED, sample=sample)
    assert f"- trained: 400 steps in 62 s (stopped by patience)\n- weights: {expected}\n" in text
    assert "has started" not in text


def test_how_to_use_it():
    text = card(run="runs/a b", finished=FINISHED)
    assert "`weft translate 'runs/a b'`, or `weft.load('runs/a b')` in Python.\n" in text
    assert "`weft sample runs/mine`" in card("model.kind=language_model")


def test_facts_that_are_added_later() -> None:
    """They follow the list of facts, in place of earlier ones of their kind."""
    card = "# name\n\n- model: small\n- seed: 1\n\nAll settings: `recipe.toml`.\n"
    once = with_facts(card, ["exports to: ONNX", "no export to X: y"], ("exports to: ", "no export to "))
    assert once.split("\n")[3:6] == ["- seed: 1", "- exports to: ONNX", "- no export to X: y"]
    again = with_facts(once, ["exports to: all"], ("exports to: ", "no export to "))
    assert again == card.replace("- seed: 1\n", "- seed: 1\n- exports to: all\n")
    assert with_facts("no list", ["a: b"], ("a: ",)) == "no list\n- a: b"
