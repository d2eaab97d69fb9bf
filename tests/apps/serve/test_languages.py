"""The languages of a model that has several, by the names of clients."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from apps.serve.servers import Running
from weft.apps.serve.languages import default, direction, match, names
from weft.apps.serve.model_info import languages
from weft.apps.serve.models import ServedModel
from weft.text.frames import FrameRules
from weft.text.specials import END
from weft.text.tokenizer import Tokenizers

CODES = ["eng_Latn", "fra_Latn", "zho_Hans", "zho_Hant"]
NLLB = FrameRules(("source",), (END,), END, ("target",), {code: number for number, code in enumerate(CODES, 7)})


def info_of(rules: FrameRules) -> dict[str, Any]:
    return languages(cast(Tokenizers, SimpleNamespace(source=SimpleNamespace(rules=rules))))


def served(info: dict[str, Any]) -> ServedModel:
    return cast(ServedModel, SimpleNamespace(info=info, languages=("de", "run")))


def test_a_run_of_one_pair() -> None:
    for info in ({}, info_of(FrameRules())):
        model = served(info)
        assert (names(model, "source"), names(model, "target")) == (["de"], ["run"])
        assert direction(model, "DE", "run") == direction(model, "auto", "run") == ("de", "run", {})
        assert direction(model, "de", "fr") is None


def test_a_model_with_several_languages() -> None:
    model = served(info_of(NLLB.with_languages("eng_Latn", None)))
    assert names(model, "source") == names(model, "target") == CODES
    search = {"source_language": "fra_Latn", "target_language": "zho_Hant"}
    assert direction(model, "fra", "ZHO_hant") == ("fra_Latn", "zho_Hant", search)
    assert direction(model, "auto", "fra") == (
        "eng_Latn",
        "fra_Latn",
        {"source_language": "eng_Latn", "target_language": "fra_Latn"},
    )
    assert direction(model, "fra", "zho") is None, "one of two"
    assert default(served(info_of(NLLB)), "source") is None
    assert direction(served(info_of(NLLB)), "auto", "fra") is None


def test_a_model_with_several_targets() -> None:
    """Of OPUS-MT: the source has no token of its own."""
    model = served(info_of(FrameRules(("target",), languages={"fra": 5, "ita": 6}, required=False)))
    assert direction(model, "de", "ita") == ("de", "ita", {"target_language": "ita"})
    assert direction(model, "en", "ita") is None


@pytest.mark.parametrize(("name", "code"), [("en", "en_XX"), ("EN_xx", "en_XX"), ("e", None), ("pt", "pt")])
def test_names(name: str, code: str | None) -> None:
    assert match(name, ["en_XX", "ro_RO", "pt", "pt_XX"]) == code


def test_they_are_offered_and_chosen(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """LibreTranslate's API lists them, and hands the choice to the model (here one that has none)."""
    model = running.service.models.by_name["transformer"]
    monkeypatch.setattr(model, "info", {**model.info, **info_of(NLLB.with_languages("eng_Latn", None))})
    offered = {one["code"]: one["targets"] for one in running.client.get("/languages").json()}
    assert offered == {"aa": ["bb"], **{code: [other for other in CODES if other != code] for code in CODES}}
    assert running.client.get("/frontend/settings").json()["language"]["source"]["code"] == "aa"
    error = running.error(422, "/translate", q="a b", source="eng", target="fra_Latn")
    assert "takes no source language" in error
    expected = "aa to bb, 4 languages (see /languages) to 4 languages (see /languages)"
    assert expected in running.error(400, "/translate", q="a b", source="eng", target="zho")
