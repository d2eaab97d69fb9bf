"""Tokenizers for pairs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fixtures.kinds_of_pairs import sentences
from weft.data.columns.rows import PairInput
from weft.pairs.profiling.profile import profile_pairs
from weft.pairs.recommendation.settings import choose_settings


@pytest.mark.parametrize(
    ("source", "target", "size"),
    [
        (30, 40, 300),  # that of so few words
        (125, 40, 300),
        (126, 40, 302),  # each character twice, and fifty more
        (40, 126, 302),
        (400, 300, 850),
    ],
)
def test_a_vocabulary_has_room_for_the_characters(source: int, target: int, size: int, tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("".join("\t".join(row) + "\n" for row in sentences(400)), "utf-8")
    profile = profile_pairs(PairInput(str(path)))
    sides = {
        "source": replace(profile.source, alphabet=source),
        "target": replace(profile.target, alphabet=target),
    }
    assert choose_settings(replace(profile, **sides), device="cuda").tree()["tokenizer"]["size"] == size
