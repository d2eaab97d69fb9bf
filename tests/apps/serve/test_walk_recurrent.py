"""The stages of recurrent decoders and language models; tests/apps/serve/test_walk.py compares all with their steps."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from apps.serve.test_walk import walked
from contracts.test_models import settings
from weft.apps.serve.walk import Choice, walk_step
from weft.models.build import build_model
from weft.recipe import ModelSettings
from weft.runtime.replaceable import plain_only


def test_gates() -> None:
    """The states follow from the gates by the equations that are shown."""
    for case, cell in (("lstm-plain-1-after", "LSTM"), ("gru-plain-1-after", "GRU"), ("rnn-plain-1-after", "RNN")):
        stage = next(stage for stage in walked(case)[1].stages if stage.title == f"Layer 1: {cell}")
        vectors = stage.vectors
        if cell == "LSTM":
            cell_RD = vectors["f"] * vectors["c_{t−1}"] + vectors["i"] * vectors["g"]
            assert_close(vectors["c_t"], cell_RD)
            assert_close(vectors["h_t"], vectors["o"] * cell_RD.tanh())
        elif cell == "GRU":
            expected = (1 - vectors["z"]) * vectors["n"] + vectors["z"] * vectors["h_{t−1}"]
            assert_close(vectors["h_t"], expected)
        else:
            assert [*vectors] == ["x_t", "h_{t−1}", "h_t"]


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_eight_bits(kind: str) -> None:
    """The gates are those of the products in eight bits."""
    from weft.fast.steps.quantization import quantize

    values = settings("after", encoder={"kind": kind}, decoder={"kind": kind})
    model = quantize(build_model(ModelSettings.model_validate(values), source_size=13, target_size=11).eval())
    with torch.no_grad(), plain_only():
        result = walk_step(model, [3, 7, 5], [1, 5], Choice(0, 0))
    assert_close(model.output_layer()(result.output_RD), result.logits_RV)
    stage = next(stage for stage in result.stages if stage.title.startswith("Layer 1"))
    assert {"lstm": "f", "gru": "z"}[kind] in stage.vectors


def test_attention_to_the_states_before() -> None:
    """A language model with attention: over 0 and the states before, as many as there are inputs."""
    attention = next(stage.attention for stage in walked("lm-general")[1].stages if stage.attention)
    assert attention.side == "zero" and len(attention.weights) == 5


def test_the_parts_of_a_decoder_have_their_symbols() -> None:
    """Input feeding, a context before the recurrence, a summary at every step."""
    inputs = {stage.title: stage.equation for stage in walked("lstm-plain-1-after+feeding")[1].stages}
    assert inputs["Input of the recurrence"] == "[x_t; ã_{t−1}]" and inputs["Readout"] == "ã_t = tanh(W [c_t; s_t])"
    inputs = {stage.title: stage.equation for stage in walked("gru-plain-1-before+summary")[1].stages}
    assert inputs["Input of the recurrence"] == "[x_t; c_t; c]"
    assert inputs["Readout"] == "ã_t = tanh(W [c_t; c; s_t; y_{t−1}])"
    assert inputs["Attention to the source"].startswith("e_j = score(s_{t−1}, k_j)")
