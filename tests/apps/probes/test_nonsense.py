"""The probe of nonsense: its sources, its numbers against scores and a literal AUROC, and what is refused."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

import weft
from weft.apps.probes.nonsense import make_nonsense
from weft.errors import DataError
from weft.translation.translator import Translator

REAL = ["a b c", "b a", "c c a b", "e d"]


def test_sources_that_mean_nothing() -> None:
    sources = ["he hit me", "Ça va", "he", "он спит"]
    syllables, shuffled, script = make_nonsense(sources, Random(3)).values()
    assert syllables == ["ag ag ag", "ag ag", "ag ag", "ag ag"]
    assert [sorted(text.split()) for text in shuffled[:2]] == [sorted(text.split()) for text in sources[:2]]
    assert sorted(shuffled[2]) == ["e", "h"]
    assert script[0] == "хе хит ме" and script[3].isascii() and len(script[3]) == len(sources[3])
    assert not any(character.isascii() and character.isalpha() for character in script[1])


def test_the_numbers_are_those_of_score(copier: Translator) -> None:
    data = weft.probes.nonsense(copier, REAL).data
    numbers = {}
    for kind, values in data["kinds"].items():
        numbers[kind] = [output["mean_log_probability"] for output in values["outputs"]]
        for output in values["outputs"]:
            if output["output"].split():  # an output of no token has no pair to score
                [score] = copier.score([(output["source"], output["output"])])
                mean = score.log_probability / len(score.token_scores)
                assert output["mean_log_probability"] == pytest.approx(mean, abs=0.05)
    for kind in list(numbers)[1:]:
        wins = [(real > fake) + 0.5 * (real == fake) for real in numbers["real sources"] for fake in numbers[kind]]
        assert data["kinds"][kind]["auroc"] == pytest.approx(sum(wins) / len(wins))


def test_sources_of_a_file_or_of_the_validation_set(copier: Translator, tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    path.write_text("a b\n\nb c\nc d\n", "utf-8")
    result = weft.probes.nonsense(copier, path, limit=2)
    assert [output["source"] for output in result.data["kinds"]["real sources"]["outputs"]] == ["a b", "b c"]
    assert weft.probes.nonsense(copier, limit=3).data["sources"] == 3
    assert "AUROC" in str(result) and result.chart.categories[0] == "real sources"
    again = weft.probes.nonsense(copier, path, limit=2)
    assert again.data == result.data


def test_errors(copier: Translator) -> None:
    with pytest.raises(DataError, match="1 real sources that are not blank; expected at least 2"):
        weft.probes.nonsense(copier, ["a", " "])
    with pytest.raises(DataError, match="limit: 1; expected at least 2"):
        weft.probes.nonsense(copier, REAL, limit=1)
    with pytest.raises(DataError, match="sources: a text was given"):
        weft.probes.nonsense(copier, "a b")
