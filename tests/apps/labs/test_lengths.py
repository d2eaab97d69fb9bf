"""The lengths lab: its kinds of positions, and a world without any."""

from __future__ import annotations

import pytest

import weft
from weft.apps.labs.lengths import KINDS, RECURRENT, lengths


def test_seven_kinds_of_positions() -> None:
    stacks = [KINDS[kind] for kind in KINDS if kind != RECURRENT]
    assert len(stacks) == 7
    for stack in stacks:
        layer = {"kind": "transformer", "hidden": 8, "heads": 2, **stack}
        recipe = weft.make_recipe({"model": {"embedding": 8, "encoder": layer, "decoder": layer}})
        assert recipe.model.encoder.positions == stack.get("positions", "sinusoidal")  # type: ignore[union-attr]


@pytest.mark.slow
@pytest.mark.usefixtures("in_process")
def test_what_has_learned_nothing_does_not_extend() -> None:
    result = lengths(2, quick=True, kinds=("sinusoidal", "learned"), steps=12)
    assert result.verdict.outcome == "did not hold"
