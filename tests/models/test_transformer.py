"""Transformers of every make against the slow reference: one row, one token, one scalar after the other."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from oracles.transformer import POSITIONS, LayerWeights, SlowPairing, SlowPrefixLM
from weft.attention import AttentionRecord
from weft.models import AnyModel, PrefixLM, Seq2Seq
from weft.models.build import build_model
from weft.models.interface import alignment_weights
from weft.models.transformer import ACTIVATIONS, NORMS
from weft.ragged import Ragged
from weft.recipe import ModelSettings
from weft.recipe.choices import CELLS

SOURCES = [[3, 7, 5], [11], [4, 9, 3, 12, 6], [8, 2]]
INPUTS = [[1, 5], [1, 9, 4, 6, 10, 2, 7], [1], [1, 3, 7]]
LONG_SOURCES = [[3 + (7 * i) % 10 for i in range(23)], [11, 5], [4 + (3 * i) % 8 for i in range(17)]]
LONG_INPUTS = [[1, *((5 * i) % 11 for i in range(18))], [1, *((7 * i) % 11 for i in range(28))], [1, 3, 7]]
ENCODER = {"kind": "transformer", "layers": 2, "hidden": 12, "heads": 3, "feed_forward": 7}
DECODER = {"kind": "transformer", "layers": 3, "hidden": 20, "heads": 2, "feed_forward": 11}
PLACEMENTS = {
    "none": {"attention": {"score": "none"}},
    "none+summary": {"attention": {"score": "none"}, "decoder": {"feed_summary": True}},
    "after": {"attention": {"placement": "after"}},
    "after+feeding": {"attention": {"placement": "after"}, "decoder": {"input_feeding": True}},
    "before": {"attention": {"placement": "before"}},
    "before+summary": {"attention": {"placement": "before"}, "decoder": {"feed_summary": True}},
}
OPTIONS = {
    "-".join(chosen): dict(zip(("positions", "norm", "norm_placement", "activation"), chosen, strict=True))
    for chosen in product(POSITIONS, NORMS, ("pre", "post"), ACTIVATIONS)
}
MODELS = ("seq2seq", "prefix_lm", "language_model")


def make(
    kind: str = "seq2seq",
    *,
    both: dict[str, Any] | None = None,
    encoder: dict[str, Any] | None = None,
    decoder: dict[str, Any] | None = None,
    **model: Any,
) -> tuple[ModelSettings, AnyModel]:
    """A small model in double precision, none of whose biases is 0 and none of whose norms is 1."""
    settings = ModelSettings.model_validate(
        {
            "kind": kind,
            "embedding": 5,
            "dropout": 0.0,
            "encoder": encoder or {**ENCODER, **(both or {})},
            "decoder": decoder or {**DECODER, **(both or {})},
            **model,
        }
    )
    size = 13 if model.get("tie") == "all" else 11
    built = build_model(settings, source_size=13, target_size=size, seed=7)
    torch.manual_seed(8)
    for name, parameter in built.named_parameters():
        if "bias" in name:
            nn.init.normal_(parameter, std=0.5)
        if "norm.weight" in name:
            nn.init.uniform_(parameter, 0.5, 1.5)
        if "relative" in name:
            nn.init.normal_(parameter)
    return settings, built.double().eval()


def check(
    settings: ModelSettings, model: AnyModel, sources: list[list[int]] = SOURCES, inputs: list[list[int]] = INPUTS
) -> None:
    """Logits, the weights that `forward` gives, and those of every layer and head."""
    if settings.kind == "language_model":
        sources = [[] for _ in inputs]
    hidden = model.hidden_states(Ragged.of(sources), Ragged.of(inputs), return_attention=True)
    said = model(Ragged.of(sources), Ragged.of(inputs), return_attention=True)
    seen = said.attention
    weights_BTS = alignment_weights(seen, Ragged.of(sources).layout)
    close(model.output(hidden.states.values), said.logits_NV)
    found = Ragged.of(inputs).like(said.logits_NV).split()
    slow = SlowPairing(settings, model) if isinstance(model, Seq2Seq) else SlowPrefixLM(settings, model)
    for row, (source, target) in enumerate(zip(sources, inputs, strict=True)):
        logits, weights = slow.logits(source, target)
        close(found[row], as_tensor(logits))
        if not settings.attends or settings.kind == "language_model":
            assert weights_BTS is None
        else:
            own_TS = weights_BTS[row, : len(target)]
            close(own_TS[:, : len(source)], as_tensor(weights))
            assert not own_TS[:, len(source) :].any()
        if isinstance(slow, SlowPairing):
            check_heads([one for one in seen if one.kind == "encoder"], slow.source_weights, row, len(source))
            check_heads([one for one in seen if one.kind == "decoder"], slow.target_weights, row, len(target))
            crossing = [one for one in seen if one.kind == "cross"]
            for one, layer in zip(crossing if slow.target_weights else [], slow.target_weights, strict=True):
                close(one.weights_BHTS[row, :, : len(target), : len(source)], as_tensor(layer.cross))
        else:
            both = len(source) + len(target)
            for one, layer in zip([one for one in seen if one.kind == "decoder"], slow.both_weights, strict=True):
                of_target = [head[len(source) :] for head in layer.own]
                close(one.weights_BHTS[row, :, : len(target), :both], as_tensor(of_target))
            for one, layer in zip([one for one in seen if one.kind == "encoder"], slow.both_weights, strict=False):
                of_source = [[query[: len(source)] for query in head[: len(source)]] for head in layer.own]
                close(one.weights_BHTS[row, :, : len(source), : len(source)], as_tensor(of_source))


def check_heads(seen: list[AttentionRecord], layers: list[LayerWeights], row: int, length: int) -> None:
    for one, layer in zip(seen, layers, strict=True):
        close(one.weights_BHTS[row, :, :length, :length], as_tensor(layer.own))


def close(one: Tensor, other: Tensor) -> None:
    """The tables of sinusoids and slopes are rounded to single precision."""
    torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)


def as_tensor(numbers: list[Any]) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("kind", MODELS)
def test_every_option(kind: str, options: str) -> None:
    check(*make(kind, both={**OPTIONS[options], "layers": 2 if kind == "seq2seq" else 1}))


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("kind", MODELS)
def test_long_distances(kind: str, positions: str) -> None:
    """Long enough for the ranges of distances that share a bucket, looking back and ahead."""
    check(*make(kind, both={"positions": positions, "layers": 1}), LONG_SOURCES, LONG_INPUTS)


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("shared", [1, 2])
def test_shared_keys_and_values(shared: int, kind: str, positions: str) -> None:
    encoder = {**ENCODER, "heads": 6, "key_value_heads": 3 - shared, "positions": positions}
    decoder = {**DECODER, "heads": 10, "key_value_heads": 5 if shared == 2 else 1, "positions": positions}
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
    """Then nothing stands between them: on the encoder's side, or on the decoder's."""
    _, model = found = make(kind, embedding=embedding)
    stacks = [model.encoder.stack, model.decoder.stack] if isinstance(model, Seq2Seq) else [model.stack]
    assert [isinstance(stack.input_projection, nn.Identity) for stack in stacks] == [
        stack.width == embedding for stack in stacks
    ]
    check(*found)


@pytest.mark.parametrize("embedding", [5, 20])
@pytest.mark.parametrize("tie", ["target", "all"])
@pytest.mark.parametrize("kind", MODELS)
def test_tied_output(kind: str, tie: str, embedding: int) -> None:
    """With a readout where the embedding is narrower than the states, and without."""
    _, model = found = make(kind, tie=tie, embedding=embedding)
    assert model.output.weight_VD is model.target_embedding.weight_VE
    readout = model.decoder.readout if isinstance(model, Seq2Seq) else model.readout
    assert isinstance(readout, nn.Linear) == (embedding == 5)
    check(*found)


@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("decoder", [*CELLS, "transformer"])
def test_attention_only_encoder(decoder: str, positions: str, placement: str) -> None:
    encoder = {**ENCODER, "kind": "attention", "positions": positions, "norm_placement": placement}
    check(*make(encoder=encoder, decoder=DECODER if decoder == "transformer" else {"kind": decoder, "hidden": 7}))


@pytest.mark.parametrize("encoder", ["attention", "transformer"])
@pytest.mark.parametrize("decoder", CELLS)
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_recurrent_decoders(placement: str, decoder: str, encoder: str) -> None:
    """The mean of the encoder's states stands for the final state that it has not."""
    placed = PLACEMENTS[placement]
    check(
        *make(
            encoder={**ENCODER, "kind": encoder},
            decoder={"kind": decoder, "hidden": 7, "layers": 2, **placed.get("decoder", {})},
            attention={"score": "general", **placed["attention"]},
        )
    )


@pytest.mark.parametrize("bridge", ["auto", "project", "zero"])
@pytest.mark.parametrize("decoder", CELLS)
def test_bridges_from_the_mean_of_the_states(decoder: str, bridge: str) -> None:
    for layers in (1, 2):
        check(*make(decoder={"kind": decoder, "hidden": 12, "layers": layers}, bridge=bridge))


@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("encoder", CELLS)
def test_recurrent_encoders(encoder: str, bidirectional: bool, placement: str) -> None:
    recurrent = {"kind": encoder, "hidden": 14, "layers": 2, "bidirectional": bidirectional}
    check(*make(encoder=recurrent, decoder={**DECODER, "norm_placement": placement}))


def test_a_source_read_back_to_front() -> None:
    check(*make(encoder={"kind": "gru", "hidden": 7, "bidirectional": False, "reverse_source": True}))


@pytest.mark.parametrize("kind", MODELS)
def test_weights_come_only_on_request(kind: str) -> None:
    _, model = make(kind)
    sources = Ragged.of([[] for _ in INPUTS] if kind == "language_model" else SOURCES)
    assert model(sources, Ragged.of(INPUTS)).attention == ()


def test_seen_of_an_encoder_and_a_decoder() -> None:
    """Every attention, each row of weights a share of one, none of what comes later."""
    _, model = make()
    seen = model(Ragged.of(SOURCES), Ragged.of(INPUTS), return_attention=True).attention
    both = [pair for layer in range(3) for pair in (("decoder", layer), ("cross", layer))]
    assert [(one.kind, one.layer) for one in seen] == [("encoder", 0), ("encoder", 1), *both]
    shapes = {"encoder": (4, 3, 5, 5), "decoder": (4, 2, 7, 7), "cross": (4, 2, 7, 5)}
    for one in seen:
        assert one.weights_BHTS.shape == shapes[one.kind]
        for row, (source, target) in enumerate(zip(SOURCES, INPUTS, strict=True)):
            queries = len(source if one.kind == "encoder" else target)
            items = len(target if one.kind == "decoder" else source)
            check_shares(one.weights_BHTS[row, :, :queries], items)
            if one.kind == "decoder":
                assert not one.weights_BHTS[row, :, :queries].triu(1).any()


def test_seen_of_one_stack() -> None:
    _, model = make("prefix_lm")
    seen = model(Ragged.of(SOURCES), Ragged.of(INPUTS), return_attention=True).attention
    assert [(one.kind, one.layer) for one in seen] == [
        pair for layer in range(3) for pair in (("encoder", layer), ("decoder", layer))
    ]
    longest = max(len(source) + len(target) for source, target in zip(SOURCES, INPUTS, strict=True))
    for one in seen:
        assert one.weights_BHTS.shape == ((4, 2, 5, 5) if one.kind == "encoder" else (4, 2, 7, longest))
        for row, (source, target) in enumerate(zip(SOURCES, INPUTS, strict=True)):
            if one.kind == "encoder":
                check_shares(one.weights_BHTS[row, :, : len(source)], len(source))
            else:
                own_HTS = one.weights_BHTS[row, :, : len(target)]
                check_shares(own_HTS, len(source) + len(target))
                assert not own_HTS.triu(len(source) + 1).any()


def test_seen_of_a_language_model() -> None:
    _, model = make("language_model")
    assert isinstance(model, PrefixLM)
    seen = model(Ragged.of([[] for _ in INPUTS]), Ragged.of(INPUTS), return_attention=True).attention
    assert [(one.kind, one.layer) for one in seen] == [("decoder", layer) for layer in range(3)]
    for one in seen:
        assert one.weights_BHTS.shape == (4, 2, 7, 7)
        for row, target in enumerate(INPUTS):
            own_HTS = one.weights_BHTS[row, :, : len(target)]
            check_shares(own_HTS, len(target))
            assert not own_HTS.triu(1).any()


@pytest.mark.parametrize(
    ("encoder", "decoder", "kinds"),
    [
        ("transformer", "lstm", [("encoder", 0), ("encoder", 1), ("cross", 0)]),
        ("lstm", "transformer", [(kind, layer) for layer in range(3) for kind in ("decoder", "cross")]),
    ],
)
def test_seen_of_mixed_pairs(encoder: str, decoder: str, kinds: list[tuple[str, int]]) -> None:
    """A recurrent decoder has one cross-attention with one head; a recurrent encoder has none."""
    recurrent = {"kind": "lstm", "hidden": 6}
    _, model = make(
        encoder=recurrent if encoder == "lstm" else ENCODER, decoder=recurrent if decoder == "lstm" else DECODER
    )
    seen = model(Ragged.of(SOURCES), Ragged.of(INPUTS), return_attention=True).attention
    assert [(one.kind, one.layer) for one in seen] == kinds
    assert seen[-1].weights_BHTS.shape == (4, 1 if decoder == "lstm" else 2, 7, 5)
    for row, (source, target) in enumerate(zip(SOURCES, INPUTS, strict=True)):
        check_shares(seen[-1].weights_BHTS[row, :, : len(target)], len(source))


def test_watching_changes_no_number() -> None:
    """The weights are worked out another way than the answers without them."""
    for kind in MODELS:
        _, model = make(kind)
        sources = Ragged.of([[] for _ in INPUTS] if kind == "language_model" else SOURCES)
        recorded = model(sources, Ragged.of(INPUTS), return_attention=True).logits_NV
        torch.testing.assert_close(recorded, model(sources, Ragged.of(INPUTS)).logits_NV)


def check_shares(weights_HTS: Tensor, items: int) -> None:
    assert bool((weights_HTS >= 0).all())
    torch.testing.assert_close(weights_HTS.sum(-1), torch.ones(weights_HTS.shape[:-1], dtype=torch.float64))
    assert not weights_HTS[..., items:].any()
