"""The model card says what the recipe says, and how the run ended."""

import pytest

from fixtures.tokenizers import learn
from weft.recipe import make_recipe
from weft.runs.model_card import model_card
from weft.text.tokenizer import Tokenizers
from weft.training.events import Finished

ONE = learn("character", ["abc"])
OTHER = learn("character", ["abcde"])
JOINT = Tokenizers(ONE, ONE)


def card(*changes, tokenizers=JOINT, finished=None, validation=None):
    return model_card(make_recipe({}, changes), tokenizers, finished=finished, validation=validation)


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
    text = card()
    assert "- state: training has started; resume it with `weft train … --resume`\n" in text and "trained:" not in text


def test_a_run_that_ended():
    text = card(
        finished=Finished(400, "patience", 61.7, 300),
        validation={"perplexity": 3.3201, "bleu": 31.257},
    )
    assert "- trained: 400 steps in 62 s (stopped by patience); weights of step 300\n" in text
    assert "- last validation: perplexity 3.320, bleu 31.257\n" in text and "has started" not in text
