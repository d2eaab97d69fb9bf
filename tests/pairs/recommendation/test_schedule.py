"""How to train: a profile on each side of every threshold."""

from __future__ import annotations

from typing import Any

import pytest

from fixtures.profiles import made_up_profile
from weft.pairs.recommendation.choices import as_tree
from weft.pairs.recommendation.devices import Device
from weft.pairs.recommendation.kinds import Kind, TaskProfile, Unit
from weft.pairs.recommendation.schedule import PATIENCE, choose_training, epoch_tokens

TRANSFORMER = {"encoder": {"kind": "transformer", "hidden": 256}, "dropout": 0.3}
RECURRENT = {
    "embedding": 128,
    "encoder": {"kind": "gru", "hidden": 256},
    "decoder": {"kind": "gru", "hidden": 256},
    "dropout": 0.4,
}
SIDES = {"symbol": "symbols", "character": "words", "bpe": "text", "word": "text"}


def _trained(
    kind: Kind,
    changes: dict[str, Any] | None = None,
    device: Device = "cuda",
    *,
    units: tuple[Unit, Unit] = ("symbol", "symbol"),
    model: dict[str, Any] = TRANSFORMER,
    is_formal: bool = False,
    **options: Any,
) -> dict[str, Any]:
    profile = made_up_profile(SIDES[units[0]], SIDES[units[1]], changes)
    task = TaskProfile(kind, *units, "", "", "", is_formal=is_formal)
    return as_tree(choose_training(profile, task, {"model": model}, device, **options))


def _pairs(tokens: int) -> dict[str, Any]:
    """One pair of so many tokens, with the end."""
    return {"pairs": 1, "source.tokens.mean": tokens - 1.0}


@pytest.mark.parametrize(
    ("kind", "units", "changes", "tokens"),
    [
        ("text", ("symbol", "symbol"), {"source.tokens.mean": 11.0}, 120_000),  # of the longer side, and its end
        ("text", ("symbol", "symbol"), {"target.tokens.mean": 11.0}, 120_000),
        ("text", ("bpe", "symbol"), {}, 140_000),  # 1.3 units in a word
        ("text", ("symbol", "word"), {}, 140_000),
        ("text", ("character", "symbol"), {"source.characters.mean": 20.0}, 210_000),
        ("text", ("symbol", "character"), {"target.characters.mean": 20.0}, 210_000),
        ("summary", ("word", "word"), {"source.tokens.mean": 100.0}, 1_310_000),  # of the source
        ("summary", ("word", "word"), {"source.tokens.mean": 500.0}, 2_010_000),  # cut after 200
        ("summary", ("word", "word"), {"source.tokens.mean": 10.0, "target.tokens.mean": 20.0}, 140_000),
    ],
)
def test_the_tokens_of_an_epoch(kind: Kind, units: tuple[Unit, Unit], changes: dict[str, Any], tokens: int) -> None:
    assert (
        epoch_tokens(made_up_profile(SIDES[units[0]], SIDES[units[1]], changes), TaskProfile(kind, *units, "", "", ""))
        == tokens
    )


@pytest.mark.parametrize(
    ("kind", "device", "tokens", "batch"),
    [
        ("text", "cuda", 60 * 768 - 1, 512),  # 60 batches an epoch, in powers of two from 1.5 times the one below
        ("text", "cuda", 60 * 768, 1_024),
        ("text", "cuda", 60 * 1_536, 2_048),
        ("text", "cuda", 60 * 6_144, 4_096),
        ("text", "cuda", 2_000_000, 4_096),
        ("text", "cuda", 2_000_001, 8_192),
        ("text", "cuda", 10**8, 8_192),
        ("text", "cpu", 120 * 768 - 1, 512),
        ("text", "cpu", 120 * 768, 1_024),
        ("inflection", "cuda", 30 * 1_536 - 1, 1_024),
        ("inflection", "cuda", 30 * 1_536, 2_048),
        ("inflection", "cuda", 10**8, 4_096),
        ("inflection", "cpu", 10**8, 1_024),
        ("spelling", "cuda", 60 * 1_536 - 1, 1_024),
        ("spelling", "cuda", 60 * 1_536, 2_048),
        ("spelling", "cuda", 10**8, 2_048),
        ("spelling", "cpu", 10**8, 1_024),
    ],
)
def test_the_tokens_of_a_batch(kind: Kind, device: Device, tokens: int, batch: int) -> None:
    model = TRANSFORMER if kind == "text" else RECURRENT
    assert _trained(kind, _pairs(tokens), device, model=model)["training"]["batch_tokens"] == batch


@pytest.mark.parametrize(
    ("kind", "pairs", "tokens", "changes", "steps"),
    [
        # at most so many epochs, but 2,000 steps
        ("text", 50_000, 2_048 * 73, {}, 5_800),
        ("text", 50_001, 2_048 * 73, {}, 2_200),
        ("text", 50_000, 2_048 * 73, {"targets_per_source": 2.9}, 5_800),
        ("text", 9_000, 4_096 * 100, {"targets_per_source": 3.0}, 2_500),
        ("formal", 9_999, 512 * 20, {}, 8_000),
        ("formal", 10_000, 512 * 60, {}, 9_600),
        ("formal", 9_999, 512 * 60, {}, 12_000),
        ("summary", 9_000, 512 * 10, {}, 2_000),
        ("summary", 20_000, 8_192 * 400, {}, 3_200),
        ("inflection", 9_000, 1_024 * 40, {}, 4_000),
        ("spelling", 19_999, 1_024 * 60, {}, 4_800),
        ("spelling", 20_000, 1_024 * 60, {}, 2_400),
        # the usual number; 5 epochs at least; 100,000 at most
        ("text", 9_000, 4_096 * 400, {}, 10_000),
        ("text", 9_000, 2_000_000, {}, 10_000),
        ("text", 9_000, 8_192 * 800, {}, 12_000),
        ("formal", 9_000, 2_000_000, {}, 12_000),
        ("formal", 9_000, 8_192 * 300, {}, 12_000),
        ("text", 9_000, 8_192 * 3_000, {}, 15_000),
        ("text", 9_000, 8_192 * 30_000, {}, 100_000),
    ],
)
def test_the_number_of_steps(kind: Kind, pairs: int, tokens: int, changes: dict[str, Any], steps: int) -> None:
    changes = {"pairs": pairs, "source.tokens.mean": tokens / pairs - 1, "target.tokens.mean": 0.0, **changes}
    model = RECURRENT if kind in ("inflection", "spelling") else TRANSFORMER
    assert _trained(kind, changes, model=model)["training"]["steps"] == steps


def test_what_follows_from_the_steps() -> None:
    names = ("steps", "save_every", "warmup", "validate_every")
    for steps, warmup, validate_every in [
        (100_000, 2_000, 5_000),
        (10_000, 1_000, 500),
        (600, 60, 30),
        (400, 50, 25),
        (100, 25, 25),
        (12, 3, 12),
    ]:
        training = _trained("text", given_steps=steps)["training"]
        assert tuple(training[name] for name in names) == (steps, steps, warmup, validate_every)
        assert (training["patience"], training["average"], training["schedule"]) == (10, 5, "cosine")


def test_words_on_a_cpu_are_trained_for_minutes() -> None:
    """Those of a GPU or of sentences for as many steps as they need."""
    tokens = {"pairs": 10_000, "source.tokens.mean": 100.0}
    steps = {
        (kind, device): _trained(kind, tokens, device, model=RECURRENT)["training"]["steps"]
        for kind, device in [("spelling", "cpu"), ("spelling", "cuda"), ("text", "cpu")]
    }
    assert steps == {("spelling", "cpu"): 9_600, ("spelling", "cuda"): 10_000, ("text", "cpu"): 10_000}


@pytest.mark.parametrize(
    ("pairs", "changes", "few", "rate"),
    [
        (9_999, {}, None, 0.0005),
        (10_000, {}, None, 0.001),
        (10_000, {"encoder": {"kind": "transformer", "hidden": 511}}, None, 0.001),
        (10_000, {"encoder": {"kind": "transformer", "hidden": 512}}, None, 0.0005),
        (9_999, {"dropout": 0.4}, None, 0.001),
        (10_000, {"dropout": 0.4}, None, 0.002),
        (10_000, {"dropout": 0.39}, None, 0.001),
        (10_000, {"dropout": 0.4}, "8 min", 0.001),
        (9_999, {"encoder": {"kind": "lstm", "hidden": 512}, "dropout": 0.4}, None, 0.001),
    ],
)
def test_the_learning_rate(pairs: int, changes: dict[str, Any], few: str | None, rate: float) -> None:
    training = _trained("text", {"pairs": pairs}, model=TRANSFORMER | changes, few_epochs=few)["training"]
    assert training["learning_rate"] == rate
    assert (training["batch_tokens"] == 512) == (few is not None)


def test_small_batches() -> None:
    """For location attention always; for formal languages with copied names 1,024 tokens at most, and a lower rate."""
    location = RECURRENT | {"attention": {"location": True}}
    for device in ("cuda", "cpu"):
        commands = _trained("formal", _pairs(250_000), device, model=location, is_formal=True)["training"]
        assert (commands["batch_tokens"], commands["learning_rate"]) == (256, 0.001)
    for tokens, formal, batch, rate in [
        (60 * 4_096, True, 1_024, 0.0005),
        (60 * 512, True, 512, 0.0005),
        (60 * 4_096, False, 4_096, 0.001),
    ]:
        pairs = {"pairs": 10_000, "source.tokens.mean": tokens / 10_000 / 1.3 - 1 / 1.3, "target.tokens.mean": 0.0}
        copying = {**TRANSFORMER, "dropout": 0.3}
        code = _trained("copying", pairs, units=("word", "word"), model=copying, is_formal=formal)["training"]
        assert (code["batch_tokens"], code["learning_rate"]) == (batch, rate)


TOKENIZED = {"target.punctuated": 0.009}
CASES: list[tuple[Kind, tuple[Unit, Unit], dict[str, Any], list[str]]] = [
    ("text", ("bpe", "bpe"), {}, ["bleu", "chrf"]),
    ("text", ("bpe", "bpe"), {"target.punctuated": 0.01}, ["bleu", "chrf"]),
    ("text", ("bpe", "bpe"), TOKENIZED, ["bleu_tokenized", "chrf"]),
    ("text", ("bpe", "bpe"), TOKENIZED | {"target.scripts": {"Han": 1.0}}, ["bleu_tokenized", "chrf"]),
    ("text", ("bpe", "bpe"), {"target.scripts": {"Han": 1.0}, "target.tokens.median": 3}, ["chrf"]),
    ("text", ("bpe", "bpe"), {"target.scripts": {"Han": 1.0}, "target.tokens.median": 4}, ["bleu", "chrf"]),
    ("text", ("bpe", "bpe"), {"target.tokens.median": 3}, ["bleu", "chrf"]),
    ("copying", ("word", "word"), {}, ["bleu", "chrf"]),
    ("answer", ("bpe", "symbol"), {}, ["exact_match"]),
    ("correction", ("bpe", "bpe"), {}, ["edit_f05", "exact_match"]),
    ("summary", ("word", "word"), {}, ["rouge_1", "rouge_2", "rouge_l_f1"]),
    ("spelling", ("character", "symbol"), {}, ["exact_match", "token_error_rate"]),
    ("spelling", ("character", "character"), {}, ["exact_match", "character_error_rate"]),
    ("spelling", ("character", "symbol"), {"targets_per_source": 2.0}, ["exact_match"]),
    ("inflection", ("character", "character"), {"targets_per_source": 1.9}, ["exact_match", "character_error_rate"]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "units", "changes", "metrics"), CASES)
def test_the_metric(kind: Kind, units: tuple[Unit, Unit], changes: dict[str, Any], metrics: list[str]) -> None:
    tree = _trained(kind, changes, units=units, model=RECURRENT)
    assert tree["evaluation"]["metrics"] == metrics and tree["training"]["metric"] == metrics[0]
    grouped = tree["evaluation"].get("references") == "grouped"
    assert grouped == (changes.get("targets_per_source", 1.0) >= 2)
    assert tree["search"] == ({"kind": "greedy"} if kind == "answer" else {"size": 5})
    assert tree["training"]["label_smoothing"] == (0.0 if kind in ("answer", "copying", "formal") else 0.1)


@pytest.mark.parametrize("kind", ["formal", "copying"])
def test_the_metric_of_formal_language(kind: Kind) -> None:
    tree = _trained(kind, {}, units=("word", "word"), is_formal=True)
    assert tree["evaluation"] == {"metrics": ["token_match", "token_match@5"]}


def test_formal_language_is_trained_to_the_end_without_label_smoothing() -> None:
    """Validation pairs are like the training pairs: they say nothing about new combinations."""
    profile = made_up_profile("symbols", "symbols")
    for kind, patience in (("formal", 0), ("text", PATIENCE), ("copying", PATIENCE), ("answer", PATIENCE)):
        task = TaskProfile(kind, "symbol", "symbol", "", "", "", is_formal=kind == "formal")  # type: ignore[arg-type]
        choices = choose_training(profile, task, {"model": TRANSFORMER}, "cuda")
        assert as_tree(choices)["training"]["patience"] == patience
        lines = {choice.topic: choice.line() for choice in choices}
        assert lines["steps"].startswith("steps: up to ") == (patience > 0)
        if kind == "formal":
            reason = "one right output; smoothing costs new combinations of symbols"
            assert lines["label smoothing"] == f"label smoothing: 0.0 ({reason})"
            assert "new combinations are learned after the validation pairs" in lines["steps"]


@pytest.mark.parametrize(
    ("kind", "pairs", "expected"), [("formal", 5_000, "last"), ("formal", 4_999, None), ("text", 9_000, None)]
)
def test_many_pairs_of_a_formal_language_deliver_the_last_weights(kind: Kind, pairs: int, expected: str | None) -> None:
    profile = made_up_profile("symbols", "symbols", {"pairs": pairs})
    task = TaskProfile(kind, "symbol", "symbol", "", "", "")
    tree = as_tree(choose_training(profile, task, {"model": TRANSFORMER}, "cuda"))
    assert tree["training"].get("choose") == expected


def test_fewer_sentences_are_validated_on_a_cpu() -> None:
    assert [_trained("text", {}, device)["training"]["valid_sentences"] for device in ("cpu", "cuda")] == [500, 1_000]
