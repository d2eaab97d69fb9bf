"""Settings in, models out: what is wired to what, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from weft.attention.relative_positions import AlibiBias
from weft.errors import RecipeError
from weft.models.build import build_model, parameter_shapes, reset_buffers
from weft.models.language_model import RecurrentLanguageModel
from weft.models.prefix_lm import PrefixLM
from weft.models.recurrent import RecurrentEncoder
from weft.models.recurrent_decoder import Copy, Project, RecurrentDecoder, Zero
from weft.models.seq2seq import Seq2Seq
from weft.models.transformer import TransformerEncoder
from weft.models.transformer_decoder import TransformerDecoder
from weft.recipe import ModelSettings, TransformerDecoderSettings


def build(*, source_size: int = 13, target_size: int = 11, seed: int = 1, **model: Any) -> Seq2Seq:
    tree = {"embedding": 5, "encoder": {"hidden": 6}, "decoder": {"hidden": 6}, **model}
    return build_model(ModelSettings.model_validate(tree), source_size=source_size, target_size=target_size, seed=seed)  # type: ignore[return-value]


def test_weights_depend_on_the_seed_alone() -> None:
    torch.manual_seed(1)
    once = build(seed=3).state_dict()
    torch.manual_seed(2)
    again, other = build(seed=3).state_dict(), build(seed=4).state_dict()
    assert all(torch.equal(once[name], again[name]) for name in once)
    assert any(not torch.equal(once[name], other[name]) for name in once)


def test_building_leaves_the_callers_chance_alone() -> None:
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    build(seed=5)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize(
    ("bridge", "decoder", "kind"),
    [
        ("auto", {"hidden": 6}, Copy),
        ("copy", {"hidden": 6}, Copy),
        ("project", {"hidden": 6}, Project),
        ("zero", {"hidden": 6}, Zero),
        ("auto", {"hidden": 7}, Project),
        ("auto", {"hidden": 6, "layers": 2}, Project),
        ("auto", {"hidden": 6, "kind": "gru"}, Project),
    ],
)
def test_bridges(bridge: str, decoder: dict[str, Any], kind: type) -> None:
    assert type(build(bridge=bridge, decoder=decoder).decoder.bridge) is kind


@pytest.mark.parametrize("decoder", [{"hidden": 7}, {"hidden": 6, "layers": 2}, {"hidden": 6, "kind": "gru"}])
def test_a_copy_of_another_shape_is_refused(decoder: dict[str, Any]) -> None:
    with pytest.raises(RecipeError, match=r"^model.bridge: 'copy' needs encoder and decoder of the same kind, layers"):
        build(bridge="copy", decoder=decoder)


def test_tied_matrices_are_one() -> None:
    none = build()
    assert none.output.weight_VD is not none.target_embedding.weight_VE
    target = build(tie="target")
    assert target.output.weight_VD is target.target_embedding.weight_VE
    assert target.source_embedding is not target.target_embedding
    both = build(tie="all", source_size=11)
    assert both.source_embedding.weight_VE is both.target_embedding.weight_VE
    assert both.output.weight_VD is both.target_embedding.weight_VE


def test_tying_two_vocabularies_is_refused() -> None:
    with pytest.raises(RecipeError, match=r"'all' needs one vocabulary, but source and target have 13 and 11$"):
        build(tie="all")


def test_scores_that_need_one_size_can_be_projected() -> None:
    with pytest.raises(RecipeError, match=r"'dot' needs queries and keys of one size, but they have 7 and 6; use"):
        build(attention={"score": "dot"}, decoder={"hidden": 7})
    attention = build(attention={"score": "dot", "project": True}, decoder={"hidden": 7}).decoder.attention
    assert attention is not None
    assert attention.key_projection.weight.shape == attention.value_projection.weight.shape == (7, 6)


def test_the_width_of_a_score_is_the_decoders_unless_set() -> None:
    for size, width in ((0, 7), (3, 3)):
        attention = build(attention={"score": "additive", "size": size}, decoder={"hidden": 7}).decoder.attention
        assert attention is not None and len(attention.score.vector) == width


@pytest.mark.parametrize("bidirectional", [True, False])
def test_the_width_of_the_encoder_is_that_of_both_directions(bidirectional: bool) -> None:
    model = build(encoder={"hidden": 6, "bidirectional": bidirectional})
    assert model.encoder.stack.layers[0].hidden_size == (3 if bidirectional else 6)


def test_a_plain_decoder_has_no_readout() -> None:
    assert build(attention={"score": "none"}).decoder.readout is None
    assert build(attention={"score": "none"}, tie="target").decoder.readout is not None


def test_a_language_model_has_no_source() -> None:
    model = build(kind="language_model")
    assert isinstance(model, RecurrentLanguageModel)
    assert model.embedding.weight_VE.shape == (11, 5)
    assert not any("source" in name or "encoder" in name for name, _ in model.named_parameters())


STACK = {"kind": "transformer", "layers": 2, "hidden": 6, "heads": 3, "feed_forward": 7}


def transformer(**model: Any) -> Any:
    return build(**{"encoder": STACK, "decoder": STACK, **model})


@pytest.mark.parametrize(
    ("kind", "encoder", "decoder", "built"),
    [
        ("seq2seq", STACK, STACK, Seq2Seq),
        ("seq2seq", {**STACK, "kind": "attention"}, STACK, Seq2Seq),
        ("seq2seq", {"hidden": 6}, STACK, Seq2Seq),
        ("seq2seq", STACK, {"hidden": 6}, Seq2Seq),
        ("prefix_lm", STACK, STACK, PrefixLM),
        ("language_model", STACK, STACK, PrefixLM),
        ("language_model", STACK, {"hidden": 6}, RecurrentLanguageModel),
    ],
)
@pytest.mark.parametrize("tie", ["none", "target", "all"])
def test_every_family_of_models(
    kind: str, encoder: dict[str, Any], decoder: dict[str, Any], built: type, tie: str
) -> None:
    model: Any = build(kind=kind, encoder=encoder, decoder=decoder, tie=tie, source_size=11)
    assert type(model) is built
    size = 5 if tie != "none" else 6
    assert model.output.weight_VD.shape == (11, size)
    names = [name for name, _ in model.named_parameters()]
    if kind == "seq2seq":
        recurrent = "kind" not in encoder
        assert isinstance(model.encoder, RecurrentEncoder if recurrent else TransformerEncoder)
        assert isinstance(model.decoder, RecurrentDecoder if "kind" not in decoder else TransformerDecoder)
    else:
        assert not any(name.startswith("encoder") for name in names)
    assert any(name.startswith("source_embedding") for name in names) == (kind != "language_model")


def test_an_encoder_of_attention_alone_has_no_feed_forward_network() -> None:
    model = transformer(encoder={**STACK, "kind": "attention"})
    assert all(layer.feed_forward is None for layer in model.encoder.stack.layers)
    assert all(layer.feed_forward is not None for layer in model.decoder.stack.layers)


def test_settings_of_a_stack_reach_it() -> None:
    """Every setting, each with a value of its own."""
    settings = {
        **STACK,
        "key_value_heads": 1,
        "head_size": 3,
        "activation": "swiglu",
        "norm": "rms",
        "norm_epsilon": 1e-3,
        "norm_placement": "post",
        "positions": "learned",
        "max_positions": 400,
        "sinusoids": "halves",
        "first_position": 2,
        "relative_buckets": 16,
        "relative_max_distance": 50,
        "relative_per_layer": True,
        "scale_embedding": False,
        "embedding_norm": True,
        "embedding_dropout": 0.1,
        "residual_dropout": 0.2,
        "attention_dropout": 0.3,
        "activation_dropout": 0.4,
    }
    decoder = {**settings, "alignment_heads": [[0, 1]]}
    assert decoder.keys() == TransformerDecoderSettings.model_fields.keys()
    for side, own in (("encoder", settings), ("decoder", decoder)):
        model = transformer(**{side: own})
        assert getattr(model, side).stack.settings.model_dump() == own
        other = "decoder" if side == "encoder" else "encoder"
        assert getattr(model, other).stack.settings.positions == "sinusoidal"


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_the_dropout_of_a_transformer_is_the_models_unless_set(dropout: float) -> None:
    model = transformer(dropout=dropout, decoder={**STACK, "residual_dropout": 0.25})
    encoder, decoder = model.encoder.stack.settings, model.decoder.stack.settings
    assert (encoder.embedding_dropout, encoder.residual_dropout) == (dropout, dropout)
    assert (decoder.embedding_dropout, decoder.residual_dropout) == (dropout, 0.25)
    assert (encoder.attention_dropout, encoder.activation_dropout) == (0.0, 0.0)
    assert (model.source_embedding.dropout, model.target_embedding.dropout) == (0.0, 0.0), "after positions are added"


def test_a_decoder_looks_at_the_width_of_its_encoder() -> None:
    cross = transformer(encoder={"hidden": 10}).decoder.stack.layers[0].cross_attention
    assert cross.key_value.weight.shape == (12, 10)
    assert type(transformer(decoder={"hidden": 6}).decoder.bridge) is Project


def test_a_transformer_has_no_final_state_to_copy() -> None:
    with pytest.raises(RecipeError, match=r"^model.bridge: 'copy' needs encoder and decoder of the same kind, layers"):
        transformer(decoder={"hidden": 6, "layers": 2}, bridge="copy")


def test_tied_matrices_of_one_stack_are_one() -> None:
    model = transformer(kind="prefix_lm", tie="all", source_size=11)
    assert model.source_embedding.weight_VE is model.target_embedding.weight_VE is model.output.weight_VD
    with pytest.raises(RecipeError, match=r"'all' needs one vocabulary, but source and target have 13 and 11$"):
        transformer(kind="prefix_lm", tie="all")


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_dropout_reaches_every_part(dropout: float) -> None:
    model = build(dropout=dropout)
    parts = (model.source_embedding, model.target_embedding, model.encoder.stack, model.decoder.stack, model.decoder)
    assert {part.dropout for part in parts} == {dropout}


def test_buffers_of_a_model_on_the_meta_device() -> None:
    with torch.device("meta"):
        bias, model = AlibiBias(2), nn.Linear(2, 3)
    model.add_module("bias_of_distances", bias)
    reset_buffers(model)
    assert bias.slopes_H.tolist() == [2**-4, 2**-8] and all(parameter.is_meta for parameter in model.parameters())
    with torch.device("meta"):
        norm = nn.BatchNorm1d(3)
    with pytest.raises(NotImplementedError, match=r"^running_mean: a buffer that no module computes; write its"):
        reset_buffers(norm)


def test_a_matrix_that_is_too_large_for_torch() -> None:
    size = 1_000_000
    stack = {"kind": "transformer", "hidden": size, "heads": size, "head_size": size}
    settings = ModelSettings.model_validate({"encoder": stack, "decoder": stack})
    with pytest.raises(RecipeError, match=r"^model: a matrix of more than 9,000,000 TB; make it smaller$"):
        parameter_shapes(settings, source_size=7, target_size=5)
