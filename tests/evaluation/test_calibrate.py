"""From a run to confidence.json: what counts as right, which pairs are used, and what is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from weft.errors import DataError, SearchError
from weft.evaluation.calibrate import (
    Criterion,
    calibrate,
    choose_criterion,
    criterion_named,
    parse_criterion,
    sentence_chrf,
    source_groups,
    translate_with_token_scores,
)
from weft.evaluation.pairs import EvaluationItems
from weft.recipe import Recipe
from weft.translation.load import load
from weft.translation.translator import Translator

Tiny = Callable[..., Recipe]
PAIRS = [(f"{a} {b} {c}", f"{a} {b} {c}") for a in "abcd" for b in "abcd" for c in "abcd"]


@pytest.fixture
def folder(copier: Translator, tmp_path: Path) -> Path:
    assert copier.folder is not None
    shutil.copytree(copier.folder, tmp_path / "run")
    return tmp_path / "run"


class TestCriterion:
    ITEMS = EvaluationItems(["a", "b"], [["le chat dort"], ["le chien"]])

    @pytest.mark.parametrize(
        ("metrics", "metric", "given", "expected"),
        [
            (["exact_match"], "loss", None, "exact match"),
            (["item_error_rate"], "loss", None, "exact match"),
            (["bleu", "exact_match"], "item_error_rate", None, "exact match"),
            (["bleu", "exact_match"], "loss", "exact", "exact match"),
            (["exact_match"], "loss", "chrf", "chrF >= 50"),
            (["bleu"], "loss", "chrf>=62.5", "chrF >= 62.5"),
        ],
    )
    def test_by_the_recipe_or_as_asked(
        self, tiny: Tiny, metrics: list[str], metric: str, given: str | None, expected: str
    ) -> None:
        settings = {"evaluation.metrics": metrics, "training.metric": metric, "training.validate_every": 1}
        criterion = parse_criterion(tiny(settings), given)
        assert criterion is not None and criterion.name == expected
        assert criterion_named(tiny(settings), expected) == criterion

    def test_by_the_outputs_where_a_recipe_has_graded_metrics(self, tiny: Tiny) -> None:
        recipe = tiny({"evaluation.metrics": ["bleu", "chrf"]})
        assert parse_criterion(recipe, None) is None
        half = choose_criterion(recipe, None, ["le chat dort", "rien"], self.ITEMS)
        none = choose_criterion(recipe, None, ["le chat dormait", "rien"], self.ITEMS)
        assert (half.name, none.name) == ("exact match", "chrF >= 50")
        assert none.right(["le chat dormait", "rien"], self.ITEMS).tolist() == [True, False]
        assert half.right(["le chat dort", "rien"], self.ITEMS).tolist() == [True, False]

    def test_the_chrf_of_each_sentence(self) -> None:
        values = sentence_chrf(["le chat dort", "x"], self.ITEMS)
        assert values == pytest.approx([100.0, 0.0])
        several = EvaluationItems(["a"], [["rien", "le chat dort"]])
        assert Criterion((), 90.0).right(["le chat dort"], several).tolist() == [True]

    @pytest.mark.parametrize("given", ["bleu", "chrf>=", "chrf>=x", "chrf>=0", "chrf>=101", "exact>=3", ""])
    def test_what_is_refused(self, tiny: Tiny, given: str) -> None:
        if given == "chrf>=":
            assert parse_criterion(tiny(), given) == parse_criterion(tiny(), "chrf")
            return
        with pytest.raises(
            DataError, match=r"^right: .* was given; use exact, chrf, or chrf>=60 with a number up to 100"
        ):
            parse_criterion(tiny(), given)


class TestCalibrate:
    def test_given_pairs_and_the_file(self, folder: Path) -> None:
        run = load(folder)
        model = calibrate(run, PAIRS, right="exact", limit=50)
        assert run.confidence is model and model.outputs == 50 and model.search.startswith("search:")
        again = load(folder)
        assert again.confidence is not None and again.confidence.weights == model.weights != ""
        assert again.translate("a b c").confidence == pytest.approx(run.translate("a b c").confidence, abs=1e-4)
        assert json.loads((folder / "confidence.json").read_text("utf-8"))["accuracy"] == pytest.approx(
            model.accuracy, abs=1e-6
        )

    def test_the_validation_set_of_the_recipe(self, folder: Path) -> None:
        with pytest.raises(DataError, match=r"^confidence: 20 pairs were given; it is fitted to at least 40$"):
            calibrate(folder)
        assert not (folder / "confidence.json").exists()

    def test_an_ensemble_is_calibrated_in_memory_only(self, folder: Path) -> None:
        ensemble = load(folder, folder)
        assert calibrate(ensemble, PAIRS).weights == "" and ensemble.translate("a b").confidence is not None
        assert not (folder / "confidence.json").exists()

    def test_pairs_in_the_order_of_their_outcomes(self, folder: Path) -> None:
        """Files may be sorted: folds are drawn from all of it."""
        sorted_pairs = sorted(PAIRS, key=lambda pair: len(set(pair[0])))
        model = calibrate(load(folder), sorted_pairs, right="exact")
        assert model.outputs == len(PAIRS)

    def test_a_language_model(self, speaker: Translator) -> None:
        with pytest.raises(
            SearchError, match="a language model without sources has no outputs that are right or wrong"
        ):
            calibrate(speaker)

    def test_a_wrong_criterion_is_refused_before_anything_is_translated(self, folder: Path) -> None:
        with pytest.raises(DataError, match="right: 'bleu' was given"):
            calibrate(folder, PAIRS, right="bleu")

    def test_engines_that_return_token_scores_with_attention_only(self, copier: Translator) -> None:
        calls: list[bool] = []

        class Scoreless:
            def translate(self, sources: list[str], *, return_attention: bool, **search: Any) -> list[Any]:
                calls.append(return_attention)
                outputs = copier.translate(sources, return_attention=True, **search)
                from dataclasses import replace

                return outputs if return_attention else [replace(one, token_scores=[]) for one in outputs]

        outputs = translate_with_token_scores(Scoreless(), ["a b", "c"], {})  # type: ignore[arg-type]
        assert calls == [False, True] and all(np.isfinite(one.token_scores).all() for one in outputs)


class TestGroups:
    def test_sources_with_the_same_first_column(self) -> None:
        sources = [f"{lemma}\t{form}" for form in range(3) for lemma in range(20)]
        assert source_groups(sources).tolist() == [*range(20)] * 3
        assert source_groups(["a", "b", "a", *map(str, range(20))]).tolist() == [0, 1, 0, *range(2, 22)]

    def test_a_first_column_of_few_values_is_a_kind(self) -> None:
        sources = [f"{kind}\t{number}" for kind in "abc" for number in range(10)]
        assert source_groups(sources).tolist() == [*range(30)]

    def test_a_run_whose_outputs_come_in_groups(self, folder: Path) -> None:
        """Each source three times: an output that is wrong is wrong three times."""
        model = calibrate(load(folder), [(text, text.replace("d", "x")) for text, _ in PAIRS] * 3, right="exact")
        assert 0 < model.accuracy < 1 and model.design_effect == pytest.approx(3.0, abs=0.2)
        assert load(folder).confidence is not None and json.loads((folder / "confidence.json").read_text("utf-8"))[
            "design_effect"
        ] == pytest.approx(model.design_effect, abs=1e-5)
