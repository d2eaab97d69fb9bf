"""Transformer decoders with every encoder, and every decoder over a Transformer encoder, against the oracle."""

from __future__ import annotations

import pytest

from fixtures.transformers import DECODER, ENCODER, INPUTS, SOURCES, check, check_weights, make
from oracles.transformer import POSITIONS
from weft.ragged import Ragged
from weft.recipe.choices import CELLS

PLACEMENTS = {
    "none": {"attention": {"score": "none"}},
    "none+summary": {"attention": {"score": "none"}, "decoder": {"feed_summary": True}},
    "after": {"attention": {"placement": "after"}},
    "after+feeding": {"attention": {"placement": "after"}, "decoder": {"input_feeding": True}},
    "before": {"attention": {"placement": "before"}},
    "before+summary": {"attention": {"placement": "before"}, "decoder": {"feed_summary": True}},
}


@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("encoder", CELLS)
def test_recurrent_encoders(encoder: str, bidirectional: bool, placement: str) -> None:
    recurrent = {"kind": encoder, "hidden": 14, "layers": 2, "bidirectional": bidirectional}
    check(*make(encoder=recurrent, decoder={**DECODER, "norm_placement": placement}))


def test_a_reversed_source() -> None:
    check(*make(encoder={"kind": "gru", "hidden": 7, "bidirectional": False, "reverse_source": True}))


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("placement", ["pre", "post"])
def test_attention_only_encoders(placement: str, positions: str) -> None:
    encoder = {**ENCODER, "kind": "attention", "positions": positions, "norm_placement": placement}
    check(*make(encoder=encoder, decoder=DECODER))


@pytest.mark.parametrize("encoder", ["attention", "transformer"])
@pytest.mark.parametrize("decoder", CELLS)
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_recurrent_decoders(placement: str, decoder: str, encoder: str) -> None:
    """The mean of the encoder's states takes the place of a final state."""
    options = PLACEMENTS[placement]
    check(
        *make(
            encoder={**ENCODER, "kind": encoder},
            decoder={"kind": decoder, "hidden": 7, "layers": 2, **options.get("decoder", {})},
            attention={"score": "general", **options["attention"]},
        )
    )


@pytest.mark.parametrize("bridge", ["auto", "project", "zero"])
@pytest.mark.parametrize("decoder", CELLS)
def test_bridges_from_the_mean_of_the_states(decoder: str, bridge: str) -> None:
    for layers in (1, 2):
        check(*make(decoder={"kind": decoder, "hidden": 12, "layers": layers}, bridge=bridge))


def test_attention_of_encoder_and_decoder() -> None:
    """Every attention; weights that sum to one, none of them on later tokens."""
    _, model = make()
    records = model(Ragged.of(SOURCES), Ragged.of(INPUTS), return_attention=True).attention
    decoder = [pair for layer in range(3) for pair in (("decoder", layer), ("cross", layer))]
    assert [(record.kind, record.layer) for record in records] == [("encoder", 0), ("encoder", 1), *decoder]
    shapes = {"encoder": (4, 3, 5, 5), "decoder": (4, 2, 7, 7), "cross": (4, 2, 7, 5)}
    for kind, _, weights_BHTS, _ in records:
        assert weights_BHTS.shape == shapes[kind]
        for row, (source, target) in enumerate(zip(SOURCES, INPUTS, strict=True)):
            queries = len(source if kind == "encoder" else target)
            check_weights(weights_BHTS[row, :, :queries], len(target if kind == "decoder" else source))
            if kind == "decoder":
                assert not weights_BHTS[row, :, :queries].triu(1).any()


@pytest.mark.parametrize(
    ("encoder", "decoder", "kinds"),
    [
        ("transformer", "lstm", [("encoder", 0), ("encoder", 1), ("cross", 0)]),
        ("lstm", "transformer", [(kind, layer) for layer in range(3) for kind in ("decoder", "cross")]),
    ],
)
def test_attention_of_mixed_pairs(encoder: str, decoder: str, kinds: list[tuple[str, int]]) -> None:
    """A recurrent decoder has one cross-attention with one head; a recurrent encoder has no attention."""
    recurrent = {"kind": "lstm", "hidden": 6}
    _, model = make(
        encoder=recurrent if encoder == "lstm" else ENCODER, decoder=recurrent if decoder == "lstm" else DECODER
    )
    records = model(Ragged.of(SOURCES), Ragged.of(INPUTS), return_attention=True).attention
    assert [(record.kind, record.layer) for record in records] == kinds
    weights_BHTS = records[-1].weights_BHTS
    assert weights_BHTS.shape == (4, 1 if decoder == "lstm" else 2, 7, 5)
    for row, (source, target) in enumerate(zip(SOURCES, INPUTS, strict=True)):
        check_weights(weights_BHTS[row, :, : len(target)], len(source))
