"""The architecture of every model of the contracts, held to its modules and settings."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

from contracts.test_models import CASES, SOURCE_SIZE, TARGET_SIZE, model_of
from weft.attention.attention import Attention
from weft.attention.edits import AttentionEdits
from weft.attention.hard_alignment import HardAlignment
from weft.attention.multihead import CrossAttention, SelfAttention
from weft.models.architecture import Architecture, architecture_of, part_architecture_of
from weft.models.build import build_model
from weft.models.copying import CopyAttention, CopySource
from weft.models.edited import edit_attention
from weft.models.ensemble import Ensemble
from weft.models.layers import Embedding
from weft.models.lora import add_adapters
from weft.models.recurrent import RecurrentStack
from weft.models.seq2seq import Seq2Seq
from weft.models.stems import Stem
from weft.models.transformer import TransformerStack
from weft.ragged import Ragged
from weft.recipe import ModelSettings
from weft.recipe.training import LoraSettings

every_model = pytest.mark.parametrize("case", CASES)
STACKS = {"recurrent": RecurrentStack, "transformer": TransformerStack}
TRANSFORMER = {"kind": "transformer", "layers": 2, "hidden": 6, "heads": 3, "feed_forward": 7}


def described(case: str) -> tuple[nn.Module, ModelSettings, Architecture]:
    model: Any = model_of(case)
    return model, ModelSettings.model_validate(CASES[case]), architecture_of(model)


def built(**settings: Any) -> Any:
    sizes = {"source_size": SOURCE_SIZE, "target_size": TARGET_SIZE}
    return build_model(ModelSettings.model_validate({"dropout": 0.0, **settings}), **sizes).eval()


@every_model
def test_kind_and_sides(case: str) -> None:
    model, settings, architecture = described(case)
    assert architecture.kind == ("hard_attention" if settings.attention.hard != "none" else settings.kind)
    assert architecture.copies == settings.copies == isinstance(model, CopySource)
    assert architecture.source_columns == settings.sources.count
    assert bool(architecture.encoders) == (settings.kind != "language_model") == settings.has_source
    assert not architecture.edited and not architecture.subclassed and not architecture.members
    assert architecture.has_ctc == (settings.kind == "ctc")
    assert architecture.is_plain != (settings.copies or architecture.has_ctc)
    assert hash(architecture) == hash(architecture_of(model))


@every_model
def test_every_stack_with_its_layers_and_width(case: str) -> None:
    model, settings, architecture = described(case)
    modules = {name: module for name, module in model.named_modules() if isinstance(module, (*STACKS.values(),))}
    assert {stack.module for stack in architecture.stacks} == set(modules)
    assert (architecture.decoder is None) == (settings.kind == "ctc")
    for stack in architecture.stacks:
        module: Any = modules[stack.module]
        assert isinstance(module, STACKS[stack.family])
        side = settings.decoder if stack == architecture.decoder else settings.encoder
        assert (stack.layers, stack.width) == (len(module.layers), side.hidden) == (side.layers, side.hidden)
        assert stack.positions == (module.settings.positions if stack.family == "transformer" else None)
        assert stack.max_positions == (side.max_positions if stack.positions == "learned" else None)
    assert architecture.is_transformer == (
        architecture.decoder is not None and architecture.decoder.family == "transformer"
    )


@every_model
def test_every_attention_with_its_role(case: str) -> None:
    model, settings, architecture = described(case)
    kinds = (SelfAttention, CrossAttention, Attention, CopyAttention, HardAlignment)
    hard = settings.attention.hard != "none"
    modules = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, kinds) and not (hard and isinstance(module, Attention))
    }
    assert {attention.module for attention in architecture.attentions} == set(modules)
    for name, role, heads in architecture.attentions:
        module: Any = modules[name]
        assert role.multihead == isinstance(module, SelfAttention | CrossAttention)
        assert heads == (module.output.in_features // module.head_width if role.multihead else 1)
        if role.multihead:
            assert f".layers.{role.layer}." in name
        expected = {
            SelfAttention: "encoder" if name.startswith("encoder") else "decoder",
            CopyAttention: "copy",
            Attention: "decoder" if settings.kind == "language_model" else "cross",
        }.get(type(module), "hard" if isinstance(module, HardAlignment) else "cross")
        assert role.kind == ("prefix" if settings.kind == "prefix_lm" else expected)


@every_model
def test_embeddings_by_side(case: str) -> None:
    model, settings, architecture = described(case)
    sides = {"source": architecture.source_embedding, "target": architecture.target_embedding}
    embeddings = {name for name, module in model.named_modules() if isinstance(module, Embedding | Stem)}
    assert {side.module for side in sides.values() if side is not None} == embeddings
    for side in sides.values():
        if side is not None and isinstance(module := model.get_submodule(side.module), Stem):
            assert (side.vocabulary, side.width) == (0, module.width) == (0, settings.embedding)
        elif side is not None:
            weight_VE = model.get_parameter(f"{side.module}.weight_VE")
            assert (side.vocabulary, side.width) == tuple(weight_VE.shape)
            assert side.width == settings.embedding
    if settings.kind == "ctc":
        assert sides["target"] is None
    else:
        assert sides["target"] is not None and sides["target"].vocabulary == TARGET_SIZE
    assert (sides["source"] is not None) == settings.has_source


def test_what_has_fixed_shapes() -> None:
    assert built(encoder={"hidden": 6}, decoder={"hidden": 5}).architecture().fixed_shapes
    reversing = {"hidden": 6, "bidirectional": False, "reverse_source": True}
    assert not built(encoder=reversing, decoder={"hidden": 5}).architecture().fixed_shapes
    columns = built(encoder=reversing, decoder={"hidden": 5}, sources={"count": 2}).architecture()
    assert len(columns.encoders) == 2 and columns.encoder is None and not columns.fixed_shapes


def test_models_of_users_are_unknown_unless_they_say_what_they_are() -> None:
    class Own(nn.Module):
        pass

    class Described(nn.Module):
        def architecture(self) -> Architecture:
            return Architecture("language_model")

    assert architecture_of(Own()) == Architecture.unknown()
    assert not Architecture.unknown().fixed_shapes and not Architecture.unknown().is_plain
    assert architecture_of(Described()).kind == "language_model"
    encoder, attentions = part_architecture_of(Own(), "encoder")
    assert (encoder[0].module, encoder[0].family, encoder[0].fixed_shapes, attentions) == (
        "encoder", "unknown", False, ()
    )  # fmt: skip


def test_a_subclass_is_not_its_class() -> None:
    class Own(Seq2Seq):
        pass

    plain = built(encoder={"hidden": 6}, decoder={"hidden": 5})
    assert plain.architecture().is_plain
    plain.__class__ = Own
    assert plain.architecture().subclassed and not plain.architecture().is_plain


def test_an_ensemble_has_the_architectures_of_its_members() -> None:
    members = [built(encoder=TRANSFORMER, decoder={"hidden": 5}, embedding=6), built(embedding=4)]
    ensemble = Ensemble(members)
    architecture = ensemble.architecture()
    assert (architecture.kind, architecture.decoder, architecture.fixed_shapes) == ("ensemble", None, False)
    assert [stack.module for stack in architecture.stacks][:2] == ["members.0.encoder.stack", "members.0.decoder.stack"]
    for member, inside in zip(members, architecture.members, strict=True):
        assert inside.kind == "seq2seq" and inside.decoder is not None
        assert ensemble.get_submodule(inside.decoder.module) is member.decoder.stack


def test_an_edited_model_is_what_it_was() -> None:
    model = built(encoder=TRANSFORMER, decoder=TRANSFORMER, embedding=6)
    edited: Any = edit_attention(model, AttentionEdits(blocked=(1,)))
    architecture = edited.architecture()
    assert architecture.edited and not architecture.fixed_shapes and not architecture.is_plain
    assert architecture.decoder.module == "model.decoder.stack"
    assert edited.get_submodule(architecture.attentions[0].module) is model.encoder.stack.layers[0].self_attention


@pytest.mark.parametrize(
    "settings",
    [
        {"encoder": {"hidden": 6, "layers": 2}, "decoder": {"hidden": 5}},
        {"encoder": TRANSFORMER, "decoder": TRANSFORMER, "embedding": 6, "copy": True},
        {"kind": "prefix_lm", "decoder": TRANSFORMER, "embedding": 6},
        {"kind": "language_model", "decoder": {"hidden": 5}},
        {"encoder": {"hidden": 6}, "decoder": {"hidden": 5}, "attention": {"hard": "first"}},
        {"encoder": TRANSFORMER, "decoder": TRANSFORMER, "embedding": 6, "sources": {"count": 2}},
    ],
)
def test_quantized_and_adapted_models_are_what_they_were(settings: dict[str, Any]) -> None:
    model = built(**settings)
    adapted = copy.deepcopy(model)
    add_adapters(adapted, LoraSettings(rank=2), seed=1)
    quantize = pytest.importorskip("weft.fast.steps.quantization").quantize
    assert quantize(model).architecture() == adapted.architecture() == model.architecture()  # type: ignore[attr-defined]


def test_one_stack_is_encoder_and_decoder_of_a_prefix_language_model() -> None:
    architecture = built(kind="prefix_lm", decoder=TRANSFORMER, embedding=6).architecture()
    assert architecture.encoders == (architecture.decoder,) == architecture.stacks
    assert architecture.encoder == architecture.decoder


def test_names_are_those_of_modules_that_run() -> None:
    """A model of a user's own encoder has an architecture too, in which that encoder is unknown."""

    class Reader(nn.Module):
        def __init__(self, inner: Any) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, embedded: Ragged, **options: Any) -> Any:
            return self.inner(embedded, **options)

    model = built(encoder={"hidden": 6}, decoder={"hidden": 5})
    model.encoder = Reader(model.encoder)
    architecture = model.architecture()
    assert [(stack.module, stack.family) for stack in architecture.encoders] == [("encoder", "unknown")]
    assert architecture.encoder is not None and not architecture.fixed_shapes
    assert torch.isfinite(model(Ragged.of([[3, 4]]), Ragged.of([[1, 5]])).logits_NV).all()
