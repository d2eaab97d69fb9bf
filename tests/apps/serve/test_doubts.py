"""Words of an output: probabilities, unknown words, words unlike the training data, and other readings."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

import weft
from weft.apps.serve import operations
from weft.apps.serve.doubts import READING, doubts
from weft.translation.flags import FlagRules
from weft.translation.neighbors import Neighbors


def record(**changes: Any) -> dict[str, Any]:
    """«the cat sleeps» with a word of two tokens, and attention along the diagonal."""
    tokens = ["le", "cha", "t", "dort"]
    return {
        "tokens": tokens,
        "token_scores": [math.log(p) for p in (0.9, 0.8, 0.5, 0.7, 0.99)],
        "log_probability": -1.0,
        "source_tokens": ["the", "cat", "sleeps", "</s>"],
        "source_words": ["the", "cat", "sleeps"],
        "source_word_of_token": [0, 1, 2, 3],
        "target_words": ["le", "chat", "dort"],
        "target_word_of_token": [0, 1, 1, 2],
        "attention": [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0.9, 0.1, 0], [0, 0, 1, 0]],
        "alternatives": [],
        "flags": [],
        **changes,
    }


def reasons(words: list[dict[str, Any]]) -> dict[str, list[tuple[str, str | None]]]:
    return {word["text"]: [(one["name"], one["text"]) for one in word["reasons"]] for word in words}


def test_the_probability_of_a_word_is_the_product_of_those_of_its_tokens() -> None:
    words = doubts(record(), None)
    assert [word["text"] for word in words] == ["le", "chat", "dort"]
    assert [word["probability"] for word in words] == pytest.approx([0.9, 0.4, 0.7], abs=1e-6)
    assert reasons(words) == {"le": [], "chat": [], "dort": []}


def test_a_single_word_of_several_tokens_is_listed_as_tokens() -> None:
    whole = record(target_words=["chats"], target_word_of_token=[0] * 4)
    assert [word["text"] for word in doubts(whole, None)] == ["le", "cha", "t", "dort"]
    without = {name: value for name, value in record().items() if "word" not in name}
    assert [word["text"] for word in doubts(without, None)] == ["le", "cha", "t", "dort"]


def test_unknown_words_of_both_sides() -> None:
    unknown = record(source_tokens=["the", "<unk>", "sleeps", "</s>"], tokens=["le", "cha", "t", "<unk>"])
    assert reasons(doubts(unknown, None)) == {"le": [], "chat": [("unknown", "cat")], "dort": [("unknown", None)]}
    assert reasons(doubts({**unknown, "attention": None}, None))["chat"] == []


def test_a_source_token_with_new_neighbors_on_both_sides() -> None:
    seen = [["the", "cat", "</s>"], ["sleeps", "</s>"], ["the", "dog", "sleeps", "</s>"]]
    rules = FlagRules(neighbors=Neighbors.of(seen))
    assert reasons(doubts(record(), rules))["dort"] == []  # sleeps is followed by the end there, too
    elsewhere = FlagRules(neighbors=Neighbors.of([["the", "dog", "sleeps", "</s>"]]))
    assert reasons(doubts(record(), elsewhere)) == {"le": [], "chat": [("unlike-training", "cat")], "dort": []}


@pytest.mark.parametrize(("ratio", "expected"), [(READING + 0.01, [("two-readings", "chaton")]), (READING - 0.01, [])])
def test_another_hypothesis_is_another_reading_if_it_is_likely(ratio: float, expected: list[Any]) -> None:
    other = record(
        target_words=["le", "chaton", "dort"],
        tokens=["le", "cha", "ton", "dort"],
        log_probability=-1.0 + math.log(ratio),
    )
    words = reasons(doubts(record(alternatives=[other]), None))
    assert words == {"le": [], "chat": expected, "dort": []}


def test_records_of_a_service_have_words_with_attention(recurrent_run: Path) -> None:
    translator = weft.load(recurrent_run, device="cpu")
    request = {"texts": ["a b c", "d zzz"], "search": {"size": 3}, "n_best": 2}
    plain = [json.loads(one) for one in operations.translate(translator, request)]
    assert "words" not in plain[0]
    records = [json.loads(one) for one in operations.translate(translator, {**request, "attention": True})]
    for one in records:
        assert [word["text"] for word in one["words"]] == one["target_words"]
        within = [
            score for score, word in zip(one["token_scores"], one["target_word_of_token"], strict=False) if word >= 0
        ]
        total = math.prod(word["probability"] for word in one["words"])
        assert total == pytest.approx(math.exp(sum(within)), rel=1e-3)
        assert one["skipped_source"] == []
