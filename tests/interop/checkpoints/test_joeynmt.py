"""Models of Joey NMT against literal readings of its forward pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fixtures import toolkit_checkpoints, toolkit_models, toolkit_recurrent_models
from fixtures.conversions import largest_difference
from fixtures.toolkit_checkpoints import JOEY_STACK
from fixtures.toolkit_models import Model, Shape, Transformer, gelu, interleaved
from fixtures.toolkit_recurrent_models import Recurrent, RecurrentShape
from weft.errors import WeftError
from weft.interop.checkpoints import joeynmt
from weft.interop.checkpoints.importing import CheckpointModel
from weft.interop.checkpoints.safe_loading import load_checkpoint
from weft.interop.imported_run import ImportOptions

BASE = Shape(layers=(2, 2), epsilon=1e-6, pre_norm=True, positions=interleaved)
VERSION_1 = {name: value for name, value in JOEY_STACK.items() if name != "layer_norm"}
VARIANTS: dict[str, tuple[Shape, dict[str, Any], dict[str, Any]]] = {
    "pre-norm": (BASE, JOEY_STACK, {}),
    "version 1": (BASE._replace(tie="target"), VERSION_1, {"tied_softmax": True}),
    "post-norm, GELU": (
        BASE._replace(pre_norm=False, activation=gelu),
        {**JOEY_STACK, "layer_norm": "post", "activation": "gelu"},
        {},
    ),
    "all tied, not scaled": (
        BASE._replace(sizes=(23, 23), tie="all", scale=False),
        {**JOEY_STACK, "embeddings": {"embedding_dim": 12, "scale": False}},
        {"tied_embeddings": True, "tied_softmax": True},
    ),
}
SMALL = {"embeddings": {"embedding_dim": 10}, "num_layers": 2}
GRU = RecurrentShape(
    "gru", encoder=10, directions=2, bridge="project", score="additive", state_first=True, biases=False
)
RECURRENT: dict[str, tuple[RecurrentShape, dict[str, Any]]] = {
    "GRU": (GRU, {"attention": "bahdanau"}),
    "LSTM": (GRU._replace(kind="lstm", score="general"), {"attention": "luong", "rnn_type": "lstm"}),
    "without bridge and input feeding": (
        GRU._replace(score="general", bridge="zero", feeding=False),
        {"attention": "luong", "init_hidden": "zero", "input_feeding": False},
    ),
}


def read(folder: Path, model: Model, settings: dict[str, Any], data: dict[str, Any] | None = None) -> CheckpointModel:
    path = toolkit_checkpoints.save_joey(folder, model, settings, data)
    return joeynmt.read(load_checkpoint(path), path, ImportOptions())


def recurrent(**changes: Any) -> dict[str, Any]:
    """[model] with a GRU encoder of two directions of size 5."""
    kind = {"rnn_type": changes.pop("rnn_type", "gru")}
    return {"encoder": {**SMALL, **kind, "hidden_size": 5}, "decoder": {**SMALL, **kind, "hidden_size": 8, **changes}}


def difference(original: Model, model: CheckpointModel) -> float:
    return largest_difference(original, model.conversion, start=2, source_end=(3,))


@pytest.mark.parametrize("variant", VARIANTS)
def test_transformer(tmp_path: Path, variant: str) -> None:
    shape, stack, ties = VARIANTS[variant]
    original = Transformer(toolkit_models.JOEY, shape)
    model = read(tmp_path, original, {"encoder": stack, "decoder": stack, **ties})
    assert model.conversion.model["tie"] == shape.tie
    assert difference(original, model) < 1e-5


@pytest.mark.parametrize("variant", RECURRENT)
def test_recurrent(tmp_path: Path, variant: str) -> None:
    shape, changes = RECURRENT[variant]
    original = Recurrent(toolkit_recurrent_models.JOEY, shape)
    assert difference(original, read(tmp_path, original, recurrent(**changes))) < 1e-5


def test_vocabularies_begin_with_special_tokens(tmp_path: Path) -> None:
    """A file of tokens that the user made may lack them."""
    original = Transformer(toolkit_models.JOEY, BASE)
    path = toolkit_checkpoints.save_joey(tmp_path, original, {"encoder": JOEY_STACK, "decoder": JOEY_STACK})
    (tmp_path / "src_vocab.txt").write_text("a\nb\n", "utf-8")
    model = joeynmt.read(load_checkpoint(path), path, ImportOptions())
    assert model.vocabularies[0].names == ("<unk>", "<pad>", "<s>", "</s>", "a", "b")
    assert model.vocabularies[0].texts == "tokens separated by spaces"


def test_special_tokens_of_other_names(tmp_path: Path) -> None:
    """And one that separates a prompt from a text."""
    original, settings = Transformer(toolkit_models.JOEY, BASE), {"encoder": JOEY_STACK, "decoder": JOEY_STACK}
    symbols = {"unk_token": "<u>", "sep_token": "<sep>", "eos_token": "<e>"}
    path = toolkit_checkpoints.save_joey(tmp_path, original, settings, {"special_symbols": symbols})
    (tmp_path / "src_vocab.txt").write_text("a\nb\n", "utf-8")
    tokens = joeynmt.read(load_checkpoint(path), path, ImportOptions()).vocabularies[0]
    assert tokens.names == ("<u>", "<pad>", "<s>", "<e>", "<sep>", "a", "b")
    assert (tokens.special.unknown, tokens.special.begin, tokens.special.end) == ("<u>", "<s>", "<e>")


def test_levels(tmp_path: Path) -> None:
    """Characters; pieces of a SentencePiece model, if it lies beside the checkpoint."""
    (tmp_path / "sp.model").write_bytes(b"x")
    pieces = {"level": "bpe", "tokenizer_cfg": {"model_file": "/elsewhere/sp.model"}}
    data = {"src": {"level": "char"}, "trg": pieces}
    model = read(tmp_path, Transformer(toolkit_models.JOEY, BASE), {"encoder": JOEY_STACK, "decoder": JOEY_STACK}, data)
    assert model.vocabularies[0].level == "characters" and model.vocabularies[0].pieces is None
    assert model.vocabularies[1].pieces == tmp_path / "sp.model"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"alpha": 0.5}, "model.encoder: alpha: 0.5 is not imported: weft does not scale residuals"),
        ({"activation": "tanh"}, "model.encoder: activation: 'tanh' is not known; weft has relu, gelu, swish"),
        ({"hidden_size": 24}, r"model.encoder: hidden_size: 24 is not embedding_dim \(12\)"),
        ({"type": "conv"}, "model.encoder: type: 'conv' and 'transformer' are not imported; weft imports both"),
        ({"num_layers": None}, "model.encoder: num_layers: is missing"),
    ],
)
def test_refused_settings(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    settings = {"encoder": {**JOEY_STACK, **changes}, "decoder": JOEY_STACK}
    with pytest.raises(WeftError, match=message) as error:
        read(tmp_path, Transformer(toolkit_models.JOEY, BASE), settings)
    assert "\n" not in str(error.value) and "config.yaml: " in str(error.value)


def test_pre_norm_without_a_final_norm_is_refused(tmp_path: Path) -> None:
    original = Transformer(toolkit_models.JOEY, BASE._replace(pre_norm=False))
    with pytest.raises(WeftError, match="layer_norm: is not set, and there is no final norm: versions differ"):
        read(tmp_path, original, {"encoder": VERSION_1, "decoder": VERSION_1})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"init_hidden": "last"}, "init_hidden: 'last' is not imported: weft has no copy of one state to every layer"),
        ({"activation": "relu"}, "model.decoder: activation: 'relu' is not imported; weft has tanh"),
        ({"attention": "dot"}, "model.decoder: attention: 'dot' is not known; weft has luong, bahdanau"),
        ({"rnn_type": "sru"}, "model.encoder: rnn_type: 'sru' is not known; weft has gru, lstm"),
        (
            {"embeddings": {"embedding_dim": 7}},
            r"embedding_dim: 7 is not that of the encoder \(10\); weft has one size",
        ),
        ({"embeddings": {"embedding_dim": 10, "scale": True}}, "embeddings: scale: true is not imported for recurrent"),
    ],
)
def test_refused_recurrent_models(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    original = Recurrent(toolkit_recurrent_models.JOEY, GRU._replace(bridge="zero"))
    with pytest.raises(WeftError, match=message):
        read(tmp_path, original, recurrent(**changes))


def test_several_languages_are_refused(tmp_path: Path) -> None:
    data = {"special_symbols": {"lang_tags": ["<en>", "<de>"]}}
    with pytest.raises(
        WeftError, match=r"data.special_symbols: lang_tags: is not imported: weft imports models of one"
    ):
        read(tmp_path, Transformer(toolkit_models.JOEY, BASE), {"encoder": JOEY_STACK, "decoder": JOEY_STACK}, data)


def test_no_configuration(tmp_path: Path) -> None:
    settings = {"encoder": JOEY_STACK, "decoder": JOEY_STACK}
    path = toolkit_checkpoints.save_joey(tmp_path, Transformer(toolkit_models.JOEY, BASE), settings)
    (tmp_path / "config.yaml").unlink()
    with pytest.raises(WeftError, match=r"config.yaml: missing; a checkpoint of Joey NMT needs the config.yaml of its"):
        joeynmt.read(load_checkpoint(path), path, ImportOptions())


@pytest.mark.parametrize("kind", ["transformer", "recurrent"])
def test_tensors_without_a_place_are_refused(tmp_path: Path, kind: str) -> None:
    if kind == "transformer":
        original: Any = Transformer(toolkit_models.JOEY, BASE)
        settings = {"encoder": JOEY_STACK, "decoder": JOEY_STACK}
    else:
        original, settings = Recurrent(toolkit_recurrent_models.JOEY, GRU), recurrent()
    original.parameters["decoder.adapter.weight"] = np.zeros((2, 2), np.float32)
    with pytest.raises(WeftError, match=r"tensor 'decoder.adapter.weight' has no place in the model of its options"):
        read(tmp_path, original, settings)
