"""Recipes for pairs of every kind, as an expert would choose them."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from subprocess import run
from typing import Any

import pytest

from fixtures.kinds_of_pairs import (
    Rows,
    answers,
    commands,
    corrections,
    forms,
    inflections,
    korean,
    long_forms,
    names,
    phrases_of_syllables,
    sentences,
    shell_commands,
    spellings,
    summaries,
    sums,
    without_spaces,
    word,
    words_of_syllables,
)
from weft.data.columns.rows import PairInput, RowCount
from weft.pairs.profiling.inputs import find_inputs
from weft.pairs.profiling.profile import profile_pairs
from weft.pairs.recommendation.devices import Device
from weft.pairs.recommendation.settings import ChosenSettings, choose_settings
from weft.recipe import make_recipe
from weft.tasks import generate


def _write(path: Path, rows: Rows) -> str:
    path.write_text("".join("\t".join(row) + "\n" for row in rows), "utf-8")
    return str(path)


def _recommend(folder: Path, rows: Rows, device: Device = "cuda") -> ChosenSettings:
    return choose_settings(profile_pairs(PairInput(_write(folder / "pairs.tsv", rows))), device=device)


def _setting(recommendation: ChosenSettings, name: str) -> Any:
    value: Any = recommendation.tree()
    for part in name.split("."):
        value = value[part]
    return value


def _reason(recommendation: ChosenSettings, topic: str) -> str:
    return next(choice.line() for choice in recommendation.choices if choice.topic == topic)


CASES: list[tuple[str, Callable[[int], Rows], int, dict[str, Any]]] = [
    ("few words", spellings, 800, {"tokenizer.kind": "character", "tokenizer.target_kind": "word",
     "model.encoder.kind": "gru", "model.encoder.hidden": 256, "model.attention.hard": "first",
     "training.metric": "exact_match"}),
    ("few forms", forms, 800, {"tokenizer.kind": "character", "model.encoder.kind": "gru",
     "model.attention.normalizer": "entmax15", "model.decoder.input_feeding": True}),
    ("words", spellings, 5_000, {"model.encoder.kind": "gru", "model.encoder.hidden": 512,
     "model.attention.hard": "first", "model.dropout": 0.5, "tokenizer.joint": False}),
    ("many words", spellings, 21_000, {"model.encoder.kind": "lstm", "model.encoder.hidden": 512,
     "model.attention.normalizer": "entmax15", "tokenizer.joint": False}),
    ("forms", forms, 5_000, {"model.encoder.kind": "lstm", "model.encoder.hidden": 512,
     "model.attention.normalizer": "entmax15", "tokenizer.joint": True}),
    ("phrases of syllables", phrases_of_syllables, 2_000, {"tokenizer.kind": "character",
     "tokenizer.target_kind": "word", "model.attention.hard": "first", "training.metric": "exact_match"}),
    ("korean", korean, 800, {"tokenizer.kind": "character", "tokenizer.decompose": True}),
    ("inflections", inflections, 2_000, {"tokenizer.kind": "character", "tokenizer.tags": True,
     "model.sources.count": 2, "model.attention.hard": "first", "data.train.tags": [2]}),
    ("long forms", long_forms, 2_000, {"model.attention.hard": "first"}),
    ("commands", commands, 2_000, {"tokenizer.kind": "word", "tokenizer.joint": False,
     "tokenizer.split_punctuation": False, "model.encoder.kind": "gru", "model.attention.location": True,
     "training.batch_tokens": 256, "training.learning_rate": 0.001, "training.label_smoothing": 0.0,
     "training.metric": "token_match"}),
    ("sentences", sentences, 8_000, {"tokenizer.kind": "bpe", "tokenizer.joint": True, "model.tie": "all",
     "model.encoder.kind": "transformer", "training.metric": "bleu"}),
    ("few sentences", sentences, 1_000, {"tokenizer.kind": "bpe", "model.encoder.kind": "lstm"}),
    ("names", names, 3_000, {"tokenizer.kind": "word", "model.copy": True, "tokenizer.minimum_count": 3}),
    ("answers", answers, 2_000, {"search.kind": "greedy", "training.metric": "exact_match"}),
    ("no spaces", without_spaces, 300, {"tokenizer.kind": "character", "tokenizer.joint": False,
     "training.metric": "chrf"}),
    ("sums", sums, 1_000, {"tokenizer.kind": "character", "tokenizer.joint": True, "model.dropout": 0.1,
     "model.encoder.kind": "gru", "training.metric": "exact_match"}),
    ("words of syllables", words_of_syllables, 2_000, {"tokenizer.kind": "character", "tokenizer.target_kind": "word",
     "model.encoder.kind": "gru", "model.attention.hard": "first", "training.metric": "exact_match"}),
    ("shell commands", shell_commands, 2_000, {"tokenizer.kind": "word", "model.copy": True,
     "training.metric": "token_match"}),
    ("corrections", corrections, 2_000, {"tokenizer.kind": "bpe", "training.metric": "edit_f05"}),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "count", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_the_choices_of_an_expert(
    rows: Callable[[int], Rows], count: int, expected: dict[str, Any], tmp_path: Path
) -> None:
    recommendation = _recommend(tmp_path, rows(count))
    make_recipe(recommendation.tree())
    for name, value in expected.items():
        lines = [choice.line() for choice in recommendation.choices]
        assert _setting(recommendation, name) == value, (name, lines)
    for choice in recommendation.choices:
        assert choice.reason
        assert "\n" not in choice.line()


UNUSUAL: dict[str, Rows] = {
    "one pair": [("hello", "world")],
    "ten pairs": [(f"word {n}", f"x {n}") for n in range(10)],
    "numbers": [(f"{n} + {n}", str(2 * n)) for n in range(100)],
    "emoji": [("😀" * (1 + n % 5), "🎉 " * (1 + n % 4)) for n in range(100)],
    "right to left": [("שלום עולם", "مرحبا بالعالم") for _ in range(30)],
    "long targets": [("make it long", " ".join(["token"] * 300))] * 20,
    "equal targets": [(f"sentence number {n}.", "yes") for n in range(100)],
    "equal sides": [(f"the same {n}.", f"the same {n}.") for n in range(100)],
    "no spaces": [("我们今天去了很远的地方看山和水", "今日は遠いところへ山と水を見に行きました")] * 30,
    "numbers only": [(str(n * 37 % 1_000), str(n * 74 % 1_000)) for n in range(200)],
    "sentences": sentences(100),
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_unusual_pairs_get_a_valid_recipe(name: str, tmp_path: Path) -> None:
    recommendation = _recommend(tmp_path, UNUSUAL[name])
    recipe = make_recipe(recommendation.tree())
    assert recipe.training.steps >= 1
    assert any("very few" in warning for warning in recommendation.warnings)
    if name == "long targets":
        assert recipe.data.max_length >= 300
    if name in ("equal targets", "long targets"):
        assert "all targets are equal; there is nothing to learn" in recommendation.warnings
    if name == "equal sides":
        assert any("equal sides" in warning for warning in recommendation.warnings)


@pytest.mark.parametrize("rows", [spellings, inflections], ids=["spellings", "inflections"])
def test_words_are_trained_in_minutes_on_a_cpu(rows: Callable[[int], Rows], tmp_path: Path) -> None:
    profile = replace(profile_pairs(PairInput(_write(tmp_path / "pairs.tsv", rows(500)))), count=RowCount(40_000))
    recommendation = choose_settings(profile, device="cpu")
    make_recipe(recommendation.tree())
    assert _setting(recommendation, "model.encoder.kind") == "gru"
    assert "12 minutes on two CPU cores" in _reason(recommendation, "steps")
    tokens = [
        _setting(on_device, "training.steps") * _setting(on_device, "training.batch_tokens")
        for on_device in (recommendation, choose_settings(profile, device="cuda"))
    ]
    assert tokens[0] < tokens[1]


@pytest.mark.parametrize(("device", "cell"), [("cpu", "gru"), ("cuda", "lstm")])
def test_many_words_have_a_recurrent_network_too(device: Device, cell: str, tmp_path: Path) -> None:
    profile = profile_pairs(PairInput(_write(tmp_path / "pairs.tsv", spellings(500))))
    for pairs in (200_000, 234_000, 5_000_000):
        recommendation = choose_settings(replace(profile, count=RowCount(pairs)), device=device)
        assert _setting(recommendation, "model.encoder.kind") == cell
    summaries_profile = profile_pairs(PairInput(_write(tmp_path / "pairs.tsv", summaries(400))))
    recommendation = choose_settings(replace(summaries_profile, count=RowCount(300_000)), device=device)
    assert _setting(recommendation, "model.encoder.kind") == "lstm" and _setting(recommendation, "model.copy") is True


def test_task_and_metric_agree_about_formal_language(tmp_path: Path) -> None:
    """Commands and code with copied names are a formal language in both; sentences with copied names in neither."""
    commands = _recommend(tmp_path, shell_commands(1_000))
    assert _reason(commands, "task").startswith("task: formal language with copied names (")
    assert _reason(commands, "metric") == "metric: token_match (formal language is right or wrong)"
    told: Rows = [
        (source, f"So I will {source.lower()}, and then, perhaps, rest.") for source, _ in shell_commands(1_000)
    ]
    sentences = _recommend(tmp_path, told)
    assert _reason(sentences, "task").startswith("task: sentences with copied names (")
    assert _setting(sentences, "training.metric") == "bleu"


@pytest.mark.parametrize(
    ("minutes", "device", "few"),
    [(8.0, "cpu", True), (600.0, "cpu", False), (None, "cpu", False), (8.0, "cuda", False)],
)
def test_little_time_is_for_a_small_model(minutes: float | None, device: Device, few: bool, tmp_path: Path) -> None:
    rows = _write(tmp_path / "pairs.tsv", sentences(500))
    profile = replace(profile_pairs(PairInput(rows)), count=RowCount(20_000))
    recommendation = choose_settings(profile, device=device, minutes=minutes)
    make_recipe(recommendation.tree())
    expected = (2, 0.1, 512, 0.001) if few else (4, 0.4, None, 0.002)
    names = ("model.encoder.layers", "model.dropout", "training.batch_tokens", "training.learning_rate")
    for name, value in zip(names, expected, strict=True):
        assert value is None or _setting(recommendation, name) == value, name
    assert ("two CPU cores do" in _reason(recommendation, "model")) == few


def test_words_and_answers_are_the_same_in_little_time(tmp_path: Path) -> None:
    for number, rows in enumerate((spellings(500), answers(500))):
        profile = profile_pairs(PairInput(_write(tmp_path / f"{number}.tsv", rows)))
        profile = replace(profile, count=RowCount(20_000))
        models = [choose_settings(profile, device="cpu", minutes=minutes).tree()["model"] for minutes in (0.1, None)]
        assert models[0] == models[1]


def test_sentences_without_punctuation_are_text(tmp_path: Path) -> None:
    """Those of the built-in grammar; commands of few words, capitals or signs are not."""
    sentences: Rows = [(pair.source, pair.target) for pair in generate("grammar", "train", 2_000)]
    found = _recommend(tmp_path, sentences)
    assert _reason(found, "task").startswith("task: sentences") and _setting(found, "training.metric") != "token_match"
    commands: Rows = [(source, f"I_{target.upper()}".replace(" ", " I_")) for source, target in sentences]
    actions = ["walk", "jump", "turn"]
    few: Rows = [(source, " ".join(actions[len(word) % 3] for word in target.split())) for source, target in sentences]
    for rows in (commands, few):
        assert _reason(_recommend(tmp_path, rows), "task").startswith("task: formal language")


def test_tokenized_sources_of_a_formal_language_keep_their_tokens(tmp_path: Path) -> None:
    draw = random.Random(1)
    words = [word(draw) for _ in range(60)]
    rows: Rows = [(" ".join(draw.choices(words, k=6)) + " .", f"<M{n % 3}> & . * <M{n % 2}>") for n in range(500)]
    assert _setting(_recommend(tmp_path, rows), "tokenizer.split_punctuation") is False


@pytest.mark.parametrize("tokenized", [True, False])
def test_punctuation_is_split_where_it_is_attached(tokenized: bool, tmp_path: Path) -> None:
    rows: Rows = [(source[:-1] + " .", target[:-1] + " .") for source, target in sentences(300)]
    tokenizer = _recommend(tmp_path, rows if tokenized else sentences(300)).tree()["tokenizer"]
    assert (tokenizer["kind"], tokenizer.get("split_punctuation", True)) == ("bpe", not tokenized)


def test_frequent_marks_are_one_token(tmp_path: Path) -> None:
    rows: Rows = [(source.replace(" ", " <n> ", 2), target) for source, target in sentences(300)]
    assert _setting(_recommend(tmp_path, rows), "tokenizer.symbols") == ["<n>"]
    assert "symbols" not in _recommend(tmp_path, sentences(300)).tree()["tokenizer"]


@pytest.mark.parametrize(("targets", "grouped"), [(1, False), (2, True)])
def test_targets_of_one_source_are_references_if_there_are_two(targets: int, grouped: bool, tmp_path: Path) -> None:
    rows = [(source, f"{target} {n}") for source, target in sentences(600) for n in range(targets)]
    tree = _recommend(tmp_path, rows).tree()
    assert (tree["evaluation"].get("references") == "grouped") is grouped


def test_further_columns_of_another_part_are_ignored(tmp_path: Path) -> None:
    _write(tmp_path / "train.tsv", sentences(50))
    _write(tmp_path / "valid.tsv", sentences(5))
    _write(tmp_path / "test.tsv", [(source, target, target, target) for source, target in sentences(5)])
    parts = find_inputs(str(tmp_path))
    data = choose_settings(profile_pairs(parts["train"]), parts, "cuda").tree()["data"]
    assert data["valid"] == str(tmp_path / "valid.tsv")
    assert data["test"] == {"file": str(tmp_path / "test.tsv"), "source": [1], "target": [2]}


def test_the_direction_of_two_files_is_said(tmp_path: Path) -> None:
    for number, language in enumerate(("de", "en")):
        (tmp_path / f"train.{language}").write_text("".join(row[number] + "\n" for row in sentences(30)), "utf-8")
    parts = find_inputs(str(tmp_path))
    line = _reason(choose_settings(profile_pairs(parts["train"]), parts, "cuda"), "direction")
    assert line == "direction: de to en (to swap: --source en --target de)"


def test_no_torch() -> None:
    code = "import sys, weft.pairs.recommendation; sys.exit('torch' in sys.modules)"
    assert run([sys.executable, "-c", code], check=False).returncode == 0
