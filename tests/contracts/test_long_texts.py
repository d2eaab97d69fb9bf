"""Texts that are too long: refused in one line where they are read, dropped where they are trained on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from weft.errors import InputTooLongError
from weft.evaluation.evaluate import evaluate
from weft.recipe.choices import TOKENIZERS
from weft.text import vocabulary
from weft.text.tokenizer import learn
from weft.text.vocabulary import LearningOptions
from weft.training.train import train
from weft.translation import inputs
from weft.translation.translator import Translator

TEXTS = ["a b c d e f", "ab ba cab"]


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(vocabulary, "MAX_TEXT_CHARACTERS", 20)
    return 20


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_every_tokenizer_refuses_them(kind: str, limit: int) -> None:
    tokenizer = learn(kind, TEXTS, LearningOptions(size=300 if kind == "byte" else 20))
    good, bad = "a " * (limit // 2), "a" * (limit + 1)
    assert tokenizer.encode_batch([good]) == [tokenizer.encode(good)]
    for encode in (
        tokenizer.encode,
        lambda text: tokenizer.encode_batch(["a", text]),
        lambda text: tokenizer.encode_arrays([text]),
    ):
        with pytest.raises(InputTooLongError, match=r"^a text of 21 characters; at most 20 are tokenized; split it$"):
            encode(bad)


def test_a_tokenizer_is_learned_from_their_beginning() -> None:
    learned = learn("character", ["a" * 1_000_000 + "b"])
    assert learned.size == learn("character", ["a"]).size


def test_they_are_not_trained_on(tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.data.store.block_tokenizer.MAX_TEXT_CHARACTERS", 20)
    file = tmp_path / "pairs.tsv"
    file.write_text("a b\tb a\n" * 30 + f"{'a' * 21}\tb\n" + f"b\t{'a' * 21}\n")
    started = next(iter(train(tiny({"data.train": str(file), "data.options": {}}), tmp_path / "run")))
    assert started.pairs == 30
    assert started.dropped == {"more than 250 tokens on a side": 2}


def test_a_source_of_too_many_tokens(copier: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "MAX_SOURCE_TOKENS", 5)
    limit = 10 * copier.recipe.data.max_length
    with pytest.raises(InputTooLongError) as error:
        copier.translate(["a", "a " * (limit + 1)])
    assert str(error.value) == (
        f"a source of {limit + 2:,} tokens; at most {limit:,} are translated (10,000, or 10 times data.max_length); "
        "split it"
    )


def test_a_pair_of_too_many_tokens_is_not_scored(copier: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    """The attention of a pair of 50,000 tokens a side takes minutes and gigabytes."""
    monkeypatch.setattr(inputs, "MAX_SOURCE_TOKENS", 5)
    limit = 10 * copier.recipe.data.max_length
    long, longest = "a " * limit, "a " * (limit - 1)
    assert copier.score([(longest, longest)])
    for side, pair in {"source": (long, "a"), "target": ("a", long)}.items():
        for compute in (copier.score, copier.force_decode):
            with pytest.raises(InputTooLongError) as error:
                compute([("a", "a"), pair])
            assert str(error.value) == (
                f"a {side} of {limit + 1:,} tokens; at most {limit:,} are scored (10,000, or 10 times "
                "data.max_length); split it"
            )


def test_such_pairs_are_left_out_of_an_evaluation(copier: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "MAX_SOURCE_TOKENS", 5)
    limit = 10 * copier.recipe.data.max_length
    pairs = [("a", "a"), ("a " * limit, "a"), ("a", "a " * limit), ("a " * (limit - 1), "a")]
    evaluation = evaluate(copier, pairs, ["exact_match"])
    assert evaluation.pairs == 2 and evaluation.left_out == {"length": 2}
    with pytest.raises(InputTooLongError):
        evaluate(copier, pairs[1:3], ["exact_match"])
