"""Candidates beside the recommended recipe."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import weft
from fixtures import kinds_of_pairs as kinds
from weft.interop.portability import export_lines
from weft.pairs.recommendation import proposals
from weft.pairs.recommendation.devices import Device
from weft.pairs.recommendation.proposals import kind_of, pins_the_model, propose
from weft.pairs.recommendation.recommend import Recommendation
from weft.pairs.request import TrainingRequest
from weft.pairs.source import find_pairs

SPELLING = [
    (f"{'bdfgk'[n % 5]}{'aeiou'[n // 5 % 5]}{'lmnrs'[n // 25 % 5]}", f"p{n % 5} q{n // 5 % 5} r") for n in range(200)
]
NUMBERS = [(f"{n:04d}-{n % 12}", f"{n % 12}/{n:04d}") for n in range(200)]
ALL_KINDS = {
    **{"spellings": kinds.spellings, "forms": kinds.forms, "inflections": kinds.inflections, "sums": kinds.sums},
    **{"sentences": kinds.sentences, "answers": kinds.answers},
    **{"corrections": kinds.corrections, "summaries": kinds.summaries},
}


def recommended(tmp_path: Path, pairs: Sequence[tuple[str, ...]], *changes: str) -> Recommendation:
    path = tmp_path / "pairs.tsv"
    path.write_text("".join("\t".join(row) + "\n" for row in pairs), "utf-8")
    return weft.recommend(path, changes=["training.device=cpu", *changes])


@pytest.mark.parametrize(
    ("pairs", "names"),
    [
        (SPELLING, ["hard", "recurrent", "transformer"]),
        (NUMBERS, ["recurrent", "transformer"]),
    ],
    ids=["spelling", "numbers"],
)
def test_they_differ_in_kind(tmp_path: Path, pairs: list[tuple[str, str]], names: list[str]) -> None:
    recommendation = recommended(tmp_path, pairs)
    candidates = propose(recommendation, [["training", "device"]], "cpu")
    assert [candidate.name for candidate in candidates] == names
    assert candidates[0].recipe == recommendation.recipe
    for candidate in candidates:
        recipe, first = candidate.recipe, candidates[0].recipe
        shared = {"data", "tokenizer", "search", "evaluation", "seed", "name"}
        assert recipe.model_dump(include=shared) == first.model_dump(include=shared)
        assert recipe.training.metric == first.training.metric and recipe.training.device == "cpu"
        assert kind_of(recipe.model.model_dump()) == candidate.name
        assert candidate.summary and any(line.startswith("pairs: ") for line in candidate.lines)
        assert set(export_lines(recipe)) <= set(candidate.lines), "its own formats"
    assert len({candidate.recipe.model_dump_json() for candidate in candidates}) == len(names)


@pytest.mark.parametrize("rows", ALL_KINDS.values(), ids=ALL_KINDS)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_every_kind_of_pairs_has_another_candidate(
    tmp_path: Path, rows: Callable[[int], kinds.Rows], device: Device
) -> None:
    candidates = propose(recommended(tmp_path, rows(300)), [], device)
    names = [candidate.name for candidate in candidates]
    assert 2 <= len(names) <= 3 and len({*names}) == len(names)
    assert {candidate.recipe.model.copies for candidate in candidates} == {candidates[0].recipe.model.copies}


def test_a_language_of_commands_has_no_race(tmp_path: Path) -> None:
    """Neither validation pairs nor held-out structures tell candidates apart; a longer training does more."""
    [alone] = propose(recommended(tmp_path, kinds.commands(2_000)), [], "cpu")
    assert alone.name == "location"
    assert alone.alone is not None and alone.alone.startswith("no validation pairs tell networks for commands apart")


def with_pairs(recommendation: Recommendation, count: int) -> Recommendation:
    """The recommendation as if the corpus had so many pairs."""
    profile = recommendation.profile
    rows = round(count * profile.rows_read / profile.sources.seen)
    changed = replace(profile, count=replace(profile.count, rows=rows))
    assert changed.pairs == count
    return replace(recommendation, profile=changed)


def test_many_sentences_have_no_race(tmp_path: Path) -> None:
    """Transformers won all races of 10,000 pairs and more, and a race takes 30 % of the time."""
    recommendation = recommended(tmp_path, kinds.corrections(300))
    many, fewer = (with_pairs(recommendation, proposals.MANY_SENTENCES - less) for less in (0, 1))
    [alone], several = propose(many, [], "cuda"), propose(fewer, [], "cuda")
    assert alone.alone is not None and "has won every race of 10,000 pairs and more" in alone.alone
    assert len(several) == 2 and not any(candidate.alone for candidate in several)


def test_of_many_words_the_transformer_is_the_first_alternative(tmp_path: Path) -> None:
    """The last one is left out if candidates take long to prepare."""
    many = with_pairs(recommended(tmp_path, SPELLING), 8_000)
    assert [candidate.name for candidate in propose(many, [], "cuda")] == ["hard", "transformer", "recurrent"]


def long_commands(count: int) -> kinds.Rows:
    """Commands that are longer than those for which location attention is chosen."""
    return [(" ".join([source] * 12), " ".join([target] * 12)) for source, target in kinds.commands(count)]


def test_a_formal_language_has_no_race(tmp_path: Path) -> None:
    """Transformers won all races of formal languages, which took up to half of the time."""
    [alone] = propose(recommended(tmp_path, long_commands(2_000)), [], "cpu")
    assert alone.name == "transformer" and alone.alone == proposals.FORMAL_ALONE
    assert alone.recipe.model.decoder.positions == "rotary"  # type: ignore[union-attr]
    [copying] = propose(recommended(tmp_path, kinds.shell_commands(300)), [], "cuda")
    assert copying.alone == proposals.FORMAL_ALONE and copying.recipe.model.copies


def test_a_candidate_names_its_own_learning_rate(tmp_path: Path) -> None:
    candidates = propose(recommended(tmp_path, SPELLING), [], "cpu")
    assert len({candidate.recipe.training.learning_rate for candidate in candidates}) > 1
    for candidate in candidates:
        [rate] = [line for line in candidate.lines if line.startswith("learning rate: ")]
        assert rate.startswith(f"learning rate: {candidate.recipe.training.learning_rate:g}, ")


def test_what_was_given_is_the_same_in_all(tmp_path: Path) -> None:
    changes = ("training.learning_rate=0.123", "training.label_smoothing=0.05", "data.max_length=77")
    given = [["training", "learning_rate"], ["training", "label_smoothing"], ["data", "max_length"]]
    candidates = propose(recommended(tmp_path, NUMBERS, *changes), given, "cpu")
    assert [candidate.name for candidate in candidates] == ["recurrent", "transformer"]
    assert {candidate.recipe.training.learning_rate for candidate in candidates} == {0.123}
    assert {candidate.recipe.training.label_smoothing for candidate in candidates} == {0.05}
    assert {candidate.recipe.data.max_length for candidate in candidates} == {77}


def test_a_given_model_is_not_raced(tmp_path: Path) -> None:
    recommendation = recommended(tmp_path, SPELLING)
    assert len(propose(recommendation, [["model", "dropout"]])) == 1
    assert pins_the_model([["model", "encoder", "kind"]]) and pins_the_model([["training", "lora", "rank"]])
    assert not pins_the_model([["training", "batch_tokens"], ["search", "size"]])


@pytest.mark.parametrize(
    ("changes", "like", "minutes", "count"),
    [
        ([], None, 5.0, 3),
        ([], None, None, 0),
        (["training.steps=10"], None, 5.0, 0),
        (["model.dropout=0.1"], None, 5.0, 1),
        ([], "g2p", 5.0, 0),
    ],
)
def test_when_there_are_candidates(
    tmp_path: Path, changes: list[str], like: str | None, minutes: float | None, count: int
) -> None:
    recommended(tmp_path, SPELLING)
    pairs = find_pairs(str(tmp_path / "pairs.tsv"), None, None, like)
    request = TrainingRequest("", changes, tmp_path / "run", None, False, minutes, None, pairs).with_recommendation()
    assert len(request.candidates()) == count
