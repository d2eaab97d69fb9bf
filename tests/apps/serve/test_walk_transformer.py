"""The stages of Transformers; tests/apps/serve/test_walk.py compares all with the steps of the models."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from apps.serve.test_walk import walked
from weft.apps.serve.walk import Choice


@pytest.mark.parametrize("case", ["transformer-post", "transformer-shared-heads", "transformer-rms"])
def test_layers_and_heads_of_a_transformer(case: str) -> None:
    """The chosen layer is shown in detail; another head has another query; x + f is the stream after a sub-layer."""
    first, second = walked(case, Choice(1, 0))[1].stages, walked(case, Choice(1, 2))[1].stages
    titles = [stage.title for stage in first]
    assert "Layer 2: self-attention" in titles and "Layer 2: attention to the source" in titles
    assert not any(title.startswith("Layer 1") for title in titles)
    at = titles.index("Layer 2: attention to the source")
    assert not torch.equal(first[at].attention.query, second[at].attention.query)
    stream = first[titles.index("The stream through all layers")].vectors
    last = [stage for stage in first if "residual" in stage.title][-1].vectors
    assert_close([*last.values()][-1], stream["x_2"])


def test_norms_and_positions_have_their_equations() -> None:
    equations = {stage.title: stage.equation for stage in walked("transformer-rms")[1].stages}
    assert equations["Final norm"] == "norm(x) = a ⊙ x / √(mean(x²) + ε)"
    post = {stage.title: stage.equation for stage in walked("transformer-post")[1].stages}
    assert "Final norm" not in post
    assert post["Layer 1: residual and norm of the self-attention"].startswith("x ← norm(x + f(x))")
    rotary = next(stage for stage in walked("transformer-rotary")[1].stages if stage.title == "Embedding")
    assert rotary.equation == "x_0 = √d · E[y]" and rotary.help.endswith("Positions: rotary.")


def test_one_attention_to_the_source_and_the_output_so_far() -> None:
    """Of a prefix language model."""
    attentions = [stage.attention for stage in walked("prefix-post")[1].stages if stage.attention]
    assert [attention.side for attention in attentions] == ["both"] and len(attentions[0].weights) == 3 + 5
