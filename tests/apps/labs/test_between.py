"""The between lab: its models, and a world in which all have learned nothing."""

from __future__ import annotations

import pytest

import weft
from weft.apps.labs.between import FLAT, MODELS, ORDERED, RATES, between


def test_the_models() -> None:
    assert set(RATES) == set(MODELS)
    for name, settings in MODELS.items():
        recipe = weft.make_recipe({"model": {"embedding": 64, **settings}})
        assert (recipe.model.encoder.kind == "attention") == (name in (FLAT, ORDERED))


@pytest.mark.slow
@pytest.mark.usefixtures("in_process")
def test_what_has_learned_nothing_does_not_differ() -> None:
    result = between(2, quick=True, steps=2, sentences=20)
    assert result.verdict.outcome == "did not hold"
