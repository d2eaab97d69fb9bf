"""The alignment lab: its verdict on made-up numbers, replaced weights, and attention that has learned nothing."""

from __future__ import annotations

import pytest

from weft.apps.labs import short_sentences
from weft.apps.labs.alignment import DIRECTIONS, QUERIES, Condition, alignment, effect, judge_alignment
from weft.apps.labs.training import train_model

MODELS = [Condition(direction, query, "dot", 2, 10) for query in QUERIES for direction in DIRECTIONS]


def test_the_effects() -> None:
    """Direction and query, each a geometric mean over the other; models are after/before × both ways/forward."""
    errors = dict(zip(MODELS, ([4.0, 4.0], [8.0, 8.0], [6.0, 6.0], [48.0, 48.0]), strict=True))
    assert effect(errors, "direction", DIRECTIONS).mean == pytest.approx(4)
    assert effect(errors, "query", QUERIES).mean == pytest.approx(3)
    verdict = judge_alignment(errors, [22.0, 23.0], {model: [90.0, 95.0] for model in MODELS})
    assert [check.effect.mean for check in verdict.checks] == pytest.approx([4, 3, 17.5, 92.5, 92.5])


def test_weights_replaced_by_themselves_change_nothing() -> None:
    layer = {"kind": "gru", "hidden": 8}
    model = {"encoder": layer, "decoder": layer, "attention": {"score": "dot"}}
    run = train_model(short_sentences.settings(model, steps=2), seed=1)
    assert short_sentences.changed(run, short_sentences.pairs("test", 2, seed=1), seed=1, permute=False) == 0.0


@pytest.mark.slow
@pytest.mark.usefixtures("in_process")
def test_attention_that_has_learned_nothing_does_not_align() -> None:
    result = alignment(2, scores=("dot",), steps=10, sentences=50)
    assert result.verdict.outcome == "did not hold"
