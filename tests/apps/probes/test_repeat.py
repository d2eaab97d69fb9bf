"""The probe of repeated phrases against scores of each number of copies; its errors."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import weft
from weft.apps.probes.repeat import MAX_POINTS
from weft.errors import DataError
from weft.translation.translator import Translator


@pytest.fixture(scope="module")
def language(tiny, tmp_path_factory: pytest.TempPathFactory) -> Translator:  # type: ignore[no-untyped-def]
    path = tmp_path_factory.mktemp("language") / "run"
    list(weft.train(tiny({"model.kind": "language_model", "training.steps": 2}), path))
    return weft.load(path, device="cpu")


def cumulated_by_score(run: Translator, source: str, phrase: str, times: int) -> list[float]:
    """log p of 1, 2, … copies, the end token left out: each text is scored by itself."""
    texts = [" ".join([phrase] * copies) for copies in range(1, times + 1)]
    return [sum(score.token_scores[:-1]) for score in run.score([(source, text) for text in texts])]


@pytest.mark.parametrize("phrase", ["a", "a b", "a b c d e a b c"])
def test_the_sums_are_those_of_score(copier: Translator, language: Translator, phrase: str) -> None:
    for run, source in ((copier, "a b"), (language, "")):
        data = weft.probes.repeat(run, phrase, times=5, source=source).data
        length = len(phrase.split())
        sums = [math.fsum(data["token_scores"][: copies * length]) for copies in range(1, 6)]
        assert sums == pytest.approx(cumulated_by_score(run, source, phrase, 5), abs=1e-3)
        assert data["log_probability"] == pytest.approx(sums[-1])
        assert data["copies"][0] == pytest.approx(sums[0] / length)
        assert data["tokens"] == phrase.split() * 5


def test_a_series_for_each_token(language: Translator) -> None:
    result = weft.probes.repeat(language, "a b", times=120)
    assert [series.name for series in result.chart.series] == ["geometric mean", "p(a)", "p(b)"]
    (first, probability), *_, (last, _) = result.chart.series[1].points
    assert (first, last) == (1, 120) and probability == pytest.approx(math.exp(result.data["token_scores"][0]))
    assert len(result.chart.series[1].points) <= MAX_POINTS + 1
    assert [row[0] for row in result.tables[0].rows] == ["1", "2", "4", "8", "16", "32", "64", "120"]
    assert len(weft.probes.repeat(language, "a b c d e f", times=3).chart.series) == 1


def test_a_folder_may_be_given(language: Translator) -> None:
    assert isinstance(language.folder, Path)
    assert weft.probes.repeat(language.folder, "a", times=2).data["times"] == 2


@pytest.mark.parametrize(
    ("phrase", "options", "message"),
    [
        (" ", {}, "PHRASE is empty: there is nothing to repeat"),
        ("a", {"times": 1}, "times: 1; expected 2 to 10,000 copies"),
        ("a", {"source": "b"}, "source: this language model has no source; leave it out"),
    ],
)
def test_errors(language: Translator, phrase: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(DataError) as error:
        weft.probes.repeat(language, phrase, **options)  # type: ignore[arg-type]
    assert str(error.value) == message


def test_a_translation_model_needs_a_source(copier: Translator) -> None:
    with pytest.raises(DataError, match="source: none was given; this model translates"):
        weft.probes.repeat(copier, "a")
