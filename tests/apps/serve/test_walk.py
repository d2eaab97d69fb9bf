"""The walk through a step: its stages end in the logits of the model's own step, for every model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing import assert_close

import weft
from apps.serve.servers import Running
from contracts.test_models import CASES, INPUTS, model_of, sources_of
from weft.apps.serve.walk import LISTED, MOST_POSITIONS, Choice, check_walkable, walk, walk_step
from weft.errors import SearchError
from weft.models.architecture import architecture_of
from weft.runtime.replaceable import plain_only

WALKABLE = [name for name in CASES if "hard" not in name and CASES[name].get("kind") != "ctc"]


def walked(case: str, choice: Choice = Choice(0, 0)) -> Any:
    model = model_of(case)
    source = sources_of(case, [0]).values.tolist()
    with torch.no_grad(), plain_only():
        return model, walk_step(model, source, INPUTS[1], choice)


@pytest.mark.parametrize("case", WALKABLE)
def test_the_walk_ends_where_the_step_does(case: str) -> None:
    model, result = walked(case)
    logits_RV = result.logits_RV
    if not architecture_of(model).copies:  # a mixture with what is copied
        assert_close(model.output_layer()(result.output_RD), logits_RV)
    attentions = [stage.attention for stage in result.stages if stage.attention is not None]
    for attention in attentions:
        assert_close(attention.weights @ attention.values_SD, attention.context) if "columns" not in case else None
        if attention.scores is None or "window" in case or "predictive" in case:
            continue  # several attentions together; weights that a window has changed
        normalizer = CASES[case].get("attention", {}).get("normalizer", "softmax")
        if normalizer == "softmax":
            assert_close(attention.scores.softmax(-1), attention.weights)


def test_models_without_a_walk() -> None:
    with pytest.raises(SearchError, match=r"walk: there is none for a model of this kind \(hard attention\)"):
        check_walkable(architecture_of(model_of("hard-zeroth")))


def test_an_ensemble_has_none(recurrent_run: Path) -> None:
    both = weft.load(recurrent_run, recurrent_run)
    with pytest.raises(SearchError, match="walk: this is an ensemble; walk through one of its models at a time"):
        walk(both, {"texts": ["a"], "search": {}, "step": 0, "layer": 1, "head": 1})


@pytest.mark.parametrize("name", ["recurrent", "transformer"])
def test_a_walk_from_the_service(running: Running, name: str) -> None:
    """The model's own output; its probability is that of the score."""
    source = "a b c d"
    [translation] = running.translate(source, model=name)
    answer = running.post("/api/walk", model=name, text=source, step=1, layer=1, head=1)
    assert answer.status_code == 200, answer.text
    record = answer.json()
    assert record["target_ids"] == translation["ids"]
    output = record["output"]
    chosen = next(entry for entry in output["tokens"] if entry["id"] == output["chosen"])
    log_normalizer = output["log_normalizers"][output["temperatures"].index(1.0)]
    assert chosen["logit"] - log_normalizer == pytest.approx(translation["token_scores"][1], abs=1e-4)
    assert len(output["tokens"]) <= LISTED
    [attention] = [
        stage["attention"] for stage in record["stages"] if stage["attention"] and "the source" in stage["title"]
    ]
    assert [position["token"] for position in attention["positions"]] == record["source_tokens"]
    assert sum(position["weight"] for position in attention["positions"]) == pytest.approx(1, abs=1e-2)
    same = running.post("/api/walk", model=name, text=source, target_ids=translation["ids"], step=1).json()
    assert same == record


def test_what_a_walk_refuses(running: Running) -> None:
    refused = {
        "step: 90; this output has": {"step": 90},
        "layer: 7; the decoder of this model has": {"layer": 7},
        "head: 7; the decoder of this model has": {"head": 7},
        "target_ids: 99999; the tokens of this output have ids below": {"target_ids": [99999]},
        "text: it is empty; there is nothing to walk through": {"text": " "},
    }
    for sentence, changes in refused.items():
        assert sentence in running.error(422, "/api/walk", **{"text": "a b", "model": "transformer", **changes})


def test_long_sources_are_shortened(running: Running) -> None:
    """The positions with the largest weights are sent."""
    answer = running.post("/api/walk", model="recurrent", text=" ".join("abcd" * 30), target_ids=[5], step=0).json()
    [attention] = [stage["attention"] for stage in answer["stages"] if stage["attention"]]
    assert attention["count"] == 121 and len(attention["positions"]) == MOST_POSITIONS
    positions = [position["position"] for position in attention["positions"]]
    assert positions == sorted(positions)
    json.dumps(answer, allow_nan=False)
