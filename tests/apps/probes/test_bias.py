"""The probe of bias: counts against a model written by hand, shipped templates, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

import weft
from weft.apps.probes.bias import SLOT, TEMPLATES, read_templates
from weft.errors import WeftError
from weft.evaluation.statistics import binomial
from weft.translation.translator import Translator

TOY = """
source = "toy"
target = "English"
templates = ["o {profession}", "O da {profession}"]
feminine = ["she", "her"]
masculine = ["he", "his"]
[professions]
doctor = "doktor"
nurse = "hemşire"
"""


class Output(NamedTuple):
    text: str


class ByHand(Translator):
    """Nurses are women; doctors are men, unless the sentence says "da"; and one output has both genders."""

    def __init__(self) -> None:
        pass

    def translate(self, sources: Any, **options: Any) -> Any:
        return [Output(self.answer(source)) for source in sources]

    def answer(self, source: str) -> str:
        if "hemşire" in source:
            return "She's a nurse." if "da" not in source else "he and her"
        return "HE is a doctor" if "da" not in source else "a doctor"


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    path = tmp_path / "toy.toml"
    path.write_text(TOY, "utf-8")
    return path


def test_counts(toy: Path) -> None:
    result = weft.probes.bias(ByHand(), toy)
    assert result.data["professions"] == {
        "doctor": {"feminine": 0, "masculine": 1, "both": 0, "neither": 1},
        "nurse": {"feminine": 1, "masculine": 0, "both": 1, "neither": 0},
    }
    assert result.data["total"] == {"feminine": 1, "masculine": 1, "both": 1, "neither": 1}
    assert result.chart.categories == ("doctor", "nurse")
    assert result.tables[0].rows[2][-1] == binomial(1, 2).scaled(100)
    assert result.chart.title == "toy to English: 1 of 2 outputs with a gender are feminine"
    assert "feminine: o hemşire → She's a nurse." in str(result)


def test_a_model_of_another_language(copier: Translator, toy: Path) -> None:
    with pytest.raises(WeftError, match=r"none of 4 outputs states one gender .* from toy to English") as error:
        weft.probes.bias(copier, toy)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("path", TEMPLATES.shipped(), ids=lambda path: path.stem)
def test_shipped_templates(path: Path) -> None:
    templates = read_templates(path.stem)
    sources = [source for name in templates.professions for source in templates.sources(name)]
    assert len(set(sources)) == len(sources) >= 30 and not any(SLOT in source for source in sources)
    assert not any(templates.gender(source) in ("feminine", "masculine") for source in sources)


def test_the_languages_that_are_shipped() -> None:
    assert [path.stem for path in TEMPLATES.shipped()] == ["english", "finnish", "hungarian", "malay", "turkish"]
    assert "english (to French),\n    finnish, hungarian, malay and turkish" in (weft.probes.bias.__doc__ or "")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('["o {profession}", "O da {profession}"]', "[]", "templates: expected a list of texts, at least 1"),
        ("o {profession}", "o", "templates: 'o'; expected {profession} once in each template"),
        ('"she", "her"', '"she", "he"', "'he' is feminine and masculine; expected words of one gender"),
        ('["she", "her"]', "3", "feminine: expected a list of texts"),
        ('"doktor"', "3", "expected a section [professions] of names and words"),
        ("source =", "sauce =", "sauce: unknown; did you mean 'source'?"),
    ],
)
def test_errors(toy: Path, old: str, new: str, message: str) -> None:
    assert old in TOY
    toy.write_text(TOY.replace(old, new), "utf-8")
    with pytest.raises(WeftError) as error:
        read_templates(toy)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_a_name_that_is_not_shipped() -> None:
    with pytest.raises(WeftError, match=r"turkisch: no such templates; .*: did you mean 'turkish'?"):
        read_templates("turkisch")
