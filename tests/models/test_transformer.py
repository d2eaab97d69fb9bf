"""Transformer stacks with every option against the oracle: one row, one token, one scalar after the other."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
from torch import nn

from fixtures.transformers import DECODER, ENCODER, INPUTS, check, make, sources_for
from oracles.transformer import POSITIONS
from weft.attention.ragged_attention import alignment_weights
from weft.models.layers import NORMS
from weft.models.seq2seq import Seq2Seq
from weft.models.transformer import ACTIVATIONS
from weft.ragged import Ragged

MODELS = ("seq2seq", "prefix_lm", "language_model")
NORMS_AND_ACTIVATIONS = list(product(("pre", "post"), NORMS, ("relu", "gelu", "swiglu")))
OTHER_OPTIONS = {
    "head-size": {"head_size": 5},
    "epsilon": {"norm_epsilon": 0.3},
    "rms-epsilon": {"norm_epsilon": 0.3, "norm": "rms"},
    "embedding-norm": {"embedding_norm": True},
    "halves": {"sinusoids": "halves", "first_position": 3},
    "tensor2tensor": {"sinusoids": "tensor2tensor", "first_position": 2},
    "buckets": {"positions": "relative", "relative_buckets": 8, "relative_max_distance": 9},
    "bias-per-layer": {"positions": "relative", "relative_per_layer": True},
}
LONG_SOURCES = [[3 + (7 * i) % 10 for i in range(23)], [11, 5], [4 + (3 * i) % 8 for i in range(17)]]
LONG_INPUTS = [[1, *((5 * i) % 11 for i in range(18))], [1, *((7 * i) % 11 for i in range(28))], [1, 3, 7]]


@pytest.mark.parametrize("number", range(len(NORMS_AND_ACTIVATIONS)))
@pytest.mark.parametrize("kind", MODELS)
def test_every_option(kind: str, number: int) -> None:
    """Every norm with every activation and placement; every kind of positions with both placements."""
    placement, norm, activation = NORMS_AND_ACTIVATIONS[number]
    options = {"norm_placement": placement, "norm": norm, "activation": activation}
    positions = POSITIONS[number % len(POSITIONS)]
    check(*make(kind, both={**options, "positions": positions, "layers": 2 if kind == "seq2seq" else 1}))


def test_the_options_are_all_there_are() -> None:
    assert len(NORMS_AND_ACTIVATIONS) == 2 * len(POSITIONS)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations(activation: str) -> None:
    check(*make(both={"activation": activation, "layers": 1}), inputs=INPUTS[:2])


@pytest.mark.parametrize("options", OTHER_OPTIONS.values(), ids=OTHER_OPTIONS)
@pytest.mark.parametrize("kind", MODELS)
def test_options_of_other_toolkits(kind: str, options: dict[str, Any]) -> None:
    check(*make(kind, both={**options, "layers": 2}))


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("kind", MODELS)
def test_long_distances(kind: str, positions: str) -> None:
    """Long enough for the ranges of distances that share a bucket, in both directions."""
    check(*make(kind, both={"positions": positions, "layers": 1}), LONG_SOURCES, LONG_INPUTS)


@pytest.mark.parametrize("positions", ["sinusoidal", "relative", "rotary"])
@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("kv_heads", [(1, 1), (2, 5)])
def test_shared_keys_and_values(kv_heads: tuple[int, int], kind: str, positions: str) -> None:
    encoder = {**ENCODER, "heads": 6, "key_value_heads": kv_heads[0], "positions": positions}
    decoder = {**DECODER, "heads": 10, "key_value_heads": kv_heads[1], "positions": positions}
    check(*make(kind, encoder=encoder, decoder=decoder))


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("kind", MODELS)
def test_layers(kind: str, layers: int) -> None:
    check(*make(kind, both={"layers": layers}))


@pytest.mark.parametrize("kind", MODELS)
def test_unscaled_embeddings(kind: str) -> None:
    check(*make(kind, both={"scale_embedding": False}))


@pytest.mark.parametrize("embedding", [12, 20])
@pytest.mark.parametrize("kind", MODELS)
def test_embeddings_as_wide_as_the_states(kind: str, embedding: int) -> None:
    """On the encoder's side, or on the decoder's: there is no input projection then."""
    settings, model = make(kind, embedding=embedding)
    for stack in [model.encoder.stack, model.decoder.stack] if isinstance(model, Seq2Seq) else [model.stack]:
        assert isinstance(stack.input_projection, nn.Identity) == (stack.width == embedding)
    check(settings, model)


@pytest.mark.parametrize("embedding", [5, 20])
@pytest.mark.parametrize("tie", ["target", "all"])
@pytest.mark.parametrize("kind", MODELS)
def test_tied_output(kind: str, tie: str, embedding: int) -> None:
    """With a readout where the embedding is narrower than the states, and without."""
    settings, model = make(kind, tie=tie, embedding=embedding)
    assert model.output.weight_VD is model.target_embedding.weight_VE
    readout = model.decoder.readout if isinstance(model, Seq2Seq) else model.readout
    assert isinstance(readout, nn.Linear) == (embedding == 5)
    check(settings, model)


def test_tied_inputs() -> None:
    """Source and target embedding are one matrix; the output has its own, as wide as the states."""
    settings, model = make(tie="inputs")
    assert model.source_embedding.weight_VE is model.target_embedding.weight_VE
    assert model.output.weight_VD is not model.target_embedding.weight_VE
    assert model.output.weight_VD.shape == (13, 20)
    check(settings, model)


@pytest.mark.parametrize("kind", MODELS)
def test_returning_attention_does_not_change_the_logits(kind: str) -> None:
    """The weights are computed explicitly, the outputs without them by PyTorch's scaled_dot_product_attention."""
    _, model = make(kind)
    source, inputs = Ragged.of(sources_for(kind)), Ragged.of(INPUTS)
    plain = model(source, inputs)
    assert plain.attention == ()
    every, aligned = (model(source, inputs, return_attention=which).attention for which in (True, "alignment"))
    for records in (every, aligned):
        weights = alignment_weights(records, source.layout)
        expected = alignment_weights(every, source.layout)
        assert (weights is None) == (expected is None) == (kind == "language_model")
        if weights is not None:
            torch.testing.assert_close(weights, expected)
    assert 1 <= len(aligned) < len(every)
    torch.testing.assert_close(model(source, inputs, return_attention=True).logits_NV, plain.logits_NV)
