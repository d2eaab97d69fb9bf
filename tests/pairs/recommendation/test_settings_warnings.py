"""What a person should know before training: a profile on each side of every threshold."""

from __future__ import annotations

from typing import Any

import pytest

from fixtures.profiles import made_up_profile
from weft.data.columns.columns import ColumnLayout
from weft.data.columns.rows import PairInput
from weft.pairs.profiling.samples import SourceSample
from weft.pairs.recommendation.kinds import find_task
from weft.pairs.recommendation.schedule import epoch_tokens
from weft.pairs.recommendation.settings import choose_settings
from weft.pairs.recommendation.speed import epochs_in

EQUAL = "all targets are equal; there is nothing to learn"
SWAPPED = "the sides look swapped: symbols in the source, words in the target; if so, swap them"
PIPE = {"input": PairInput("-")}


@pytest.mark.parametrize(
    ("changes", "warnings"),
    [
        ({}, []),
        ({"pairs": 500}, []),
        ({"pairs": 499}, ["499 pairs: very few; expect errors, and collect more"]),
        ({"pairs": 1, "target.distinct": 1.0}, ["1 pair: very few; expect errors, and collect more"]),
        ({"pairs": 512, "target.distinct": 1 / 512}, [EQUAL]),
        ({"pairs": 512, "target.distinct": 2 / 512}, []),
        ({"relations.identical": 0.5}, []),
        ({"relations.identical": 0.51}, ["51% of the pairs have equal sides; a copy would score well"]),
        ({"looks_swapped": True}, [f"{SWAPPED}: --source 2 --target 1"]),
        ({"looks_swapped": True, "columns": ColumnLayout((0, 1), (2,))}, [SWAPPED]),
        ({"looks_swapped": True, "input": PairInput("a.de", "a.en")}, [SWAPPED]),
        ({"overlaps": {"test": 0.01}}, []),
        ({"overlaps": {"test": 0.011}},
         ["1% of the test pairs have a source that is trained on; scores will be too good"]),
        ({"duplicates": 0.05}, []),
        ({"duplicates": 0.06}, ["6% of the pairs are duplicates"]),
        ({"blank": 0.001}, ["0.1% of the pairs have a blank side and are left out"]),
        ({"bad_rows": 1, "first_error": "f:3: no"}, ["1 row that cannot be read is left out: f:3: no"]),
        ({"bad_rows": 2, "first_error": "f:3: no"}, ["2 rows that cannot be read are left out; the first: f:3: no"]),
        ({"part_errors": {"valid": "1 row …"}}, ["validation pairs: 1 row …"]),
        ({"sorted_by_length": True}, ["sorted by length; training shuffles the pairs"]),
    ],
)  # fmt: skip
def test_warnings(changes: dict[str, Any], warnings: list[str]) -> None:
    assert choose_settings(made_up_profile("text", "text", {**PIPE, **changes}), device="cuda").warnings == warnings


def test_few_epochs_are_fewer_than_ten() -> None:
    """Ten epochs of the usual Transformer are enough for it; a little less are not."""
    profile = made_up_profile("text", "text", PIPE)
    usual = choose_settings(profile, device="cpu").tree()
    minutes = 10 / epochs_in(60, usual, epoch_tokens(profile, find_task(profile)))
    for time, layers in ((minutes * 1.001, 4), (minutes * 0.999, 2)):
        assert choose_settings(profile, device="cpu", minutes=time).tree()["model"]["encoder"]["layers"] == layers


@pytest.mark.parametrize(("source", "target", "tied"), [("text", "text", "all"), ("text", "chinese", "target")])
def test_embeddings_are_shared_if_there_is_one_vocabulary(source: str, target: str, tied: str) -> None:
    assert choose_settings(made_up_profile(source, target, PIPE), device="cuda").tree()["model"]["tie"] == tied


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"sources": SourceSample(seen=5, targets={n: [1] for n in range(5)})}, "5 different sources"),
        ({"sources": SourceSample(seen=5, targets={n: [1] for n in range(9)})}, "9 different sources"),
        ({"sources": SourceSample(seen=5, targets={n: [1] for n in range(10)})}, "5 pairs"),
    ],
)
def test_few_pairs_are_not_split(changes: dict[str, Any], reason: str) -> None:
    profile = made_up_profile("text", "text", {"pairs": 5, **PIPE, **changes})
    lines = [choice.line() for choice in choose_settings(profile, device="cuda").choices]
    assert f"validation pairs: the training pairs ({reason}, too few to hold some out)" in lines
