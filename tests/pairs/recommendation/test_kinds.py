"""Kinds of tasks at the limits of their rules."""

from __future__ import annotations

import random
import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest

from fixtures.kinds_of_pairs import (
    Rows,
    answers,
    commands,
    corrections,
    forms,
    phrases_of_syllables,
    sentences,
    shell_commands,
    spellings,
    syllable,
    word,
    words_of_syllables,
)
from weft.data.columns.rows import PairInput
from weft.pairs.profiling.profile import PairProfile, profile_pairs
from weft.pairs.recommendation.kinds import find_task, is_transcription


def profile_of(folder: Path, rows: Rows) -> PairProfile:
    path = folder / "pairs.tsv"
    path.write_text("".join("\t".join(row) + "\n" for row in rows), "utf-8")
    return profile_pairs(PairInput(str(path)))


@pytest.mark.parametrize(
    ("copied", "monotone", "ratio", "is_correction"),
    [
        (0.86, 0.91, 1.0, True),
        (0.86, 0.91, 0.71, True),
        (0.86, 0.91, 1.39, True),
        (0.85, 0.95, 1.0, False),
        (0.90, 0.90, 1.0, False),
        (0.90, 0.95, 0.70, False),
        (0.90, 0.95, 1.40, False),
        (0.50, 0.95, 1.0, False),
        (0.90, 0.50, 1.0, False),
        (0.90, 0.95, 0.50, False),
        (0.90, 0.95, 2.00, False),
    ],
)
def test_corrections(copied: float, monotone: float, ratio: float, is_correction: bool, tmp_path: Path) -> None:
    profile = profile_of(tmp_path, corrections(500))
    relations = replace(profile.relations, copied_words=copied, monotone=monotone, length_ratio=ratio)
    assert (find_task(replace(profile, relations=relations)).kind == "correction") == is_correction


@pytest.mark.parametrize(
    ("sampled", "different", "is_answer"),
    [
        (50, 2, True),  # at least two
        (50, 3, False),
        (99, 3, False),
        (1_000, 20, True),  # one in fifty
        (1_000, 21, False),
        (9_999, 199, True),
        (20_000, 200, True),  # at most two hundred
        (20_000, 201, False),
    ],
)
def test_answers(sampled: int, different: int, is_answer: bool, tmp_path: Path) -> None:
    profile = profile_of(tmp_path, answers(500))
    target = replace(profile.target, distinct=different / sampled)
    assert (find_task(replace(profile, sampled=sampled, target=target)).kind == "answer") == is_answer


def test_words_of_syllables(tmp_path: Path) -> None:
    """Those of Vietnamese have spaces inside; longer texts of syllables are sentences, unless they are transcribed."""
    assert find_task(profile_of(tmp_path, words_of_syllables(1_000))).kind == "spelling"
    profile = profile_of(tmp_path, words_of_syllables(1_000))
    profile = replace(profile, relations=replace(profile.relations, aligned=0.0))
    for tokens in ({"median": 3}, {"p95": 5}):
        source = replace(profile.source, tokens=replace(profile.source.tokens, **tokens))
        assert find_task(replace(profile, source=source)).kind != "spelling"
    for characters, is_short in ((40, True), (41, False)):
        source = replace(profile.source, characters=replace(profile.source.characters, p95=characters))
        assert (find_task(replace(profile, source=source)).kind == "spelling") == is_short


def test_phrases_of_syllables_that_are_transcribed(tmp_path: Path) -> None:
    """Up to 60 characters, and syllables of 7: no formal language, although the targets are symbols of a closed set."""
    profile = profile_of(tmp_path, phrases_of_syllables(1_000))
    task = find_task(profile)
    assert (task.kind, task.source, task.target) == ("spelling", "character", "symbol")
    assert "syllables of " in task.source_reason
    relations, characters = profile.relations, profile.source.characters
    assert relations.aligned - relations.aligned_by_chance > 0.4
    for source, kind in (
        (replace(profile.source, characters=replace(characters, p95=60)), "spelling"),
        (replace(profile.source, characters=replace(characters, p95=61)), "formal"),
        (replace(profile.source, token_characters=7.0), "spelling"),
        (replace(profile.source, token_characters=7.1), "formal"),
    ):
        assert find_task(replace(profile, source=source)).kind == kind
    unrelated = replace(relations, aligned=relations.aligned_by_chance + 0.19)
    assert find_task(replace(profile, relations=unrelated)).kind == "formal"


def test_commands_are_no_transcription(tmp_path: Path) -> None:
    assert not is_transcription(profile_of(tmp_path, commands(1_000)))
    assert not is_transcription(profile_of(tmp_path, forms(1_000))), "reversed"
    assert is_transcription(profile_of(tmp_path, spellings(1_000)))


@pytest.mark.parametrize(("single", "is_word"), [(0.91, True), (0.9, False), (0.5, False)])
def test_single_words(single: float, is_word: bool, tmp_path: Path) -> None:
    """However long the longest texts are."""
    profile = profile_of(tmp_path, words_of_syllables(1_000))
    profile = replace(profile, relations=replace(profile.relations, aligned=0.0))
    lengths = replace(profile.source.characters, p95=50)
    source = replace(profile.source, single=single, characters=lengths)
    assert (find_task(replace(profile, source=source)).source == "character") == is_word


@pytest.mark.parametrize(
    ("median", "p95", "unit"), [(2, 2, "character"), (3, 2, "symbol"), (2, 3, "symbol"), (1, 4, "symbol")]
)
def test_targets_of_a_closed_set_are_words_only_if_they_have_two_tokens(
    median: int, p95: int, unit: str, tmp_path: Path
) -> None:
    draw = random.Random(1)
    names = [word(draw) for _ in range(60)]
    rows: Rows = [(source, " ".join(draw.choices(names, k=2))) for source, _ in sentences(1_000)]
    profile = profile_of(tmp_path, rows)
    target = replace(profile.target, tokens=replace(profile.target.tokens, median=median, p95=p95))
    assert find_task(replace(profile, target=target)).target == unit


@pytest.mark.parametrize(("punctuated", "is_formal"), [(0.0, True), (0.05, True), (0.06, False), (0.3, False)])
def test_copied_names(punctuated: float, is_formal: bool, tmp_path: Path) -> None:
    profile = profile_of(tmp_path, shell_commands(500))
    task = find_task(replace(profile, target=replace(profile.target, punctuated=punctuated)))
    assert (task.kind, task.is_formal) == ("copying", is_formal)


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_sentences_of_syllables_are_text(form: str, tmp_path: Path) -> None:
    """However their accents are written."""
    draw = random.Random(1)
    rows: Rows = [
        (source, unicodedata.normalize(form, " ".join(syllable(draw)[0] for _ in range(8))))
        for source, _ in sentences(2_000)
    ]
    task = find_task(profile_of(tmp_path, rows))
    assert task.kind == "text" and not task.is_formal
