"""Models of OpenNMT-py against literal readings of its forward pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from fixtures import toolkit_checkpoints, toolkit_models, toolkit_recurrent_models
from fixtures.conversions import largest_difference
from fixtures.toolkit_models import Shape, Transformer, concatenated, gelu, interleaved, silu, sparsemax
from fixtures.toolkit_recurrent_models import Recurrent, RecurrentShape
from weft.errors import WeftError
from weft.interop.checkpoints import opennmt
from weft.interop.checkpoints.importing import CheckpointModel
from weft.interop.checkpoints.safe_loading import load_checkpoint
from weft.interop.imported_run import ImportOptions

BASE = Shape(epsilon=1e-6, pre_norm=True, positions=interleaved, output_bias=True)
VARIANTS: dict[str, tuple[Shape, dict[str, Any]]] = {
    "as trained by default": (BASE, {}),
    "all tied": (BASE._replace(sizes=(23, 23), tie="all"), {"share_embeddings": True}),
    "GELU, without biases": (
        BASE._replace(activation=gelu, attention_biases=False),
        {"pos_ffn_activation_fn": "gelu", "rnn_size": 12, "hidden_size": None},
    ),
    "gated, RMSNorm, concatenated sinusoids": (
        BASE._replace(activation=silu, gated=True, rms=True, epsilon=1e-5, positions=concatenated),
        {
            "pos_ffn_activation_fn": "silu",
            "layer_norm": "rms",
            "norm_eps": 1e-5,
            "position_encoding_type": "SinusoidalConcat",
        },
    ),
    "fewer key-value heads": (BASE._replace(heads=4, key_value_heads=2), {"heads": 4, "num_kv": 2}),
}
RECURRENT = {"encoder_type": "rnn", "decoder_type": "rnn", "rnn_type": "LSTM", "word_vec_size": 10, "hidden_size": 8}
RECURRENT |= {"enc_layers": 2, "dec_layers": 2, "global_attention": "general", "input_feed": 1}
STANDARD = toolkit_recurrent_models.OPENNMT._replace(decoder="decoder.rnn.{part}_l{layer}")
RECURRENT_VARIANTS: dict[str, tuple[RecurrentShape, dict[str, Any]]] = {
    "LSTM": (RecurrentShape(), {}),
    "bidirectional": (RecurrentShape(directions=2), {"encoder_type": "brnn"}),
    "sparsemax": (RecurrentShape(normalize=sparsemax), {"global_attention_function": "sparsemax"}),
    "GRU without input feeding": (
        RecurrentShape(kind="gru", feeding=False, score="dot"),
        {"rnn_type": "GRU", "input_feed": 0, "global_attention": "dot"},
    ),
}


def read(content: dict[str, Any], folder: Path) -> CheckpointModel:
    torch.save(content, folder / "model_step_10.pt")
    return opennmt.read(load_checkpoint(folder / "model_step_10.pt"), folder / "model_step_10.pt", ImportOptions())


@pytest.mark.parametrize("variant", VARIANTS)
def test_transformer(tmp_path: Path, variant: str) -> None:
    shape, changes = VARIANTS[variant]
    original = Transformer(toolkit_models.OPENNMT, shape)
    model = read(toolkit_checkpoints.opennmt(original, **changes), tmp_path)
    assert model.conversion.model["tie"] == shape.tie
    assert largest_difference(original, model.conversion, start=2) < 1e-5


@pytest.mark.parametrize("variant", RECURRENT_VARIANTS)
def test_recurrent(tmp_path: Path, variant: str) -> None:
    shape, changes = RECURRENT_VARIANTS[variant]
    original = Recurrent(toolkit_recurrent_models.OPENNMT if shape.feeding else STANDARD, shape)
    model = read(toolkit_checkpoints.opennmt(original, **{**RECURRENT, **changes}), tmp_path)
    assert largest_difference(original, model.conversion, start=2) < 1e-5


def test_fields_of_torchtext(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Versions 1 and 2 save objects of torchtext, of which only the tokens are read."""
    original = Transformer(toolkit_models.OPENNMT, BASE._replace(sizes=(21, 19)))
    model = read(toolkit_checkpoints.with_fields(toolkit_checkpoints.opennmt(original), monkeypatch), tmp_path)
    assert model.vocabularies[0].names == ("<unk>", "<blank>", *toolkit_checkpoints.SOURCE)
    assert model.vocabularies[1].names == ("<unk>", "<blank>", "<s>", "</s>", *toolkit_checkpoints.TARGET)
    assert model.vocabularies[0].special.padding == "<blank>"
    assert largest_difference(original, model.conversion, start=2) < 1e-5


def test_vocabularies_of_version_0(tmp_path: Path) -> None:
    content = toolkit_checkpoints.opennmt(Transformer(toolkit_models.OPENNMT, BASE))
    content["vocab"] = [("src", ["<unk>", "a"]), ("tgt", ["<unk>", "b"])]
    assert [tokens.names[1] for tokens in read(content, tmp_path).vocabularies] == ["a", "b"]


def test_older_names_and_buffers(tmp_path: Path) -> None:
    original = Transformer(toolkit_models.OPENNMT, BASE)
    content = toolkit_checkpoints.opennmt(original)
    for name in [*content["model"]]:
        if "layer_norm" in name:
            ending = {"weight": "a_2", "bias": "b_2"}[name.split(".")[-1]]
            content["model"][f"{name.rpartition('.')[0]}.{ending}"] = content["model"].pop(name)
    content["model"]["encoder.embeddings.make_embedding.pe.pe"] = torch.zeros(5, 1, 12)
    assert largest_difference(original, read(content, tmp_path).conversion, start=2) < 1e-5


def test_alignment_heads(tmp_path: Path) -> None:
    changes = {"lambda_align": 0.05, "alignment_layer": -2, "alignment_heads": 2}
    model = read(toolkit_checkpoints.opennmt(Transformer(toolkit_models.OPENNMT, BASE), **changes), tmp_path)
    assert model.conversion.model["decoder"]["alignment_heads"] == [[1, 0], [1, 1]]


def test_zeros_that_mean_all_heads(tmp_path: Path) -> None:
    changes = {"lambda_align": 0.05, "alignment_layer": 0, "alignment_heads": 0, "num_kv": 0}
    model = read(toolkit_checkpoints.opennmt(Transformer(toolkit_models.OPENNMT, BASE), **changes), tmp_path)
    decoder = model.conversion.model["decoder"]
    assert decoder["alignment_heads"] == [[0, head] for head in range(decoder["heads"])]
    assert decoder["key_value_heads"] == 0


PIECES = {"src_subword_model": "/elsewhere/src.spm", "tgt_subword_model": "tgt.spm"}


@pytest.mark.parametrize(
    ("options", "files", "pieces"),
    [
        ({"transforms": ["sentencepiece"], **PIECES}, ("src.spm", "tgt.spm"), ("src.spm", "tgt.spm")),
        ({"transforms": ["sentencepiece"], **PIECES, "tgt_subword_model": ""}, ("src.spm",), ("src.spm", "src.spm")),
        ({"transforms": ["sentencepiece"], **PIECES}, ("tgt.spm",), (None, "tgt.spm")),
        ({"transforms": ["bpe"], **PIECES}, ("src.spm", "tgt.spm"), (None, None)),
        ({"transforms": None, **PIECES}, ("src.spm", "tgt.spm"), (None, None)),
    ],
)
def test_pieces(
    tmp_path: Path, options: dict[str, Any], files: tuple[str, ...], pieces: tuple[str | None, ...]
) -> None:
    """SentencePiece models beside the checkpoint, wherever they were in training."""
    for name in files:
        (tmp_path / name).touch()
    model = read(toolkit_checkpoints.opennmt(Transformer(toolkit_models.OPENNMT, BASE), **options), tmp_path)
    expected = tuple(None if name is None else tmp_path / name for name in pieces)
    assert tuple(tokens.pieces for tokens in model.vocabularies) == expected


def test_a_decoder_that_starts_with_the_end(tmp_path: Path) -> None:
    content = toolkit_checkpoints.opennmt(Transformer(toolkit_models.OPENNMT, BASE))
    content["vocab"]["decoder_start_token"] = "</s>"
    frame = read(content, tmp_path).rules.frame()
    assert frame.begin == 2 and frame.source([7]) == [7]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"encoder_type": "cnn"},
            "encoder_type: cnn and transformer are not imported; weft imports transformer and rnn",
        ),
        ({"pos_ffn_activation_fn": "tanh"}, "pos_ffn_activation_fn: 'tanh' is not known; weft has relu, "),
        ({"src_word_vec_size": 5}, "src_word_vec_size: 5, tgt_word_vec_size 12: weft has one size of embeddings"),
        ({"enc_hid_size": 5}, r"enc_hid_size: 5 is not that of the decoder \(12\), which starts from it"),
        ({"lambda_align": 1.0, "alignment_layer": 9}, "alignment_layer: 9 is not a layer of the decoder, which has 3"),
        ({"position_encoding_type": "Rotary"}, "position_encoding_type: 'Rotary' is not known; weft has Sinus"),
    ],
)
def test_refused_options(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    content = toolkit_checkpoints.opennmt(Transformer(toolkit_models.OPENNMT, BASE), **changes)
    with pytest.raises(WeftError, match=message) as error:
        read(content, tmp_path)
    assert "\n" not in str(error.value)


CHANGING: dict[str, tuple[Any, Any]] = {
    "model_task": ("seq2seq", "lm"),
    "model_type": ("text", "audio"),
    "copy_attn": (False, True),
    "generator_function": ("softmax", "sparsemax"),
    "max_relative_positions": (0, 20),
    "self_attn_type": ("scaled-dot-flash", "average"),
    "parallel_residual": (False, True),
    "num_experts": (0, 8),
    "sliding_window": (0, 4096),
    "lora_layers": ([], ["linear_values"]),
    "quant_layers": ([], ["w_1"]),
    "bridge": (False, True),
    "context_gate": (None, "both"),
    "coverage_attn": (False, True),
}
"""Options that would change the model: a value at which they do not, and another."""


def test_options_that_change_nothing_are_accepted(tmp_path: Path) -> None:
    for changes in ({name: neutral for name, (neutral, _) in CHANGING.items()}, {"self_attn_type": "scaled-dot"}):
        content = toolkit_checkpoints.opennmt(Transformer(toolkit_models.OPENNMT, BASE), **changes)
        assert read(content, tmp_path).conversion.model["decoder"]["kind"] == "transformer"


@pytest.mark.parametrize("name", CHANGING)
def test_options_that_would_change_the_model_are_refused(tmp_path: Path, name: str) -> None:
    _, other = CHANGING[name]
    content = toolkit_checkpoints.opennmt(Transformer(toolkit_models.OPENNMT, BASE), **{name: other})
    with pytest.raises(WeftError) as error:
        read(content, tmp_path)
    assert f"{name}: {other!r} is not imported; weft imports models without it" in str(error.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"global_attention": "mlp"}, "global_attention: 'mlp' is not imported: its readout has no tanh; weft imports"),
        ({"global_attention": "none"}, "global_attention: 'none' is not imported: weft feeds inputs only with an att"),
        ({"rnn_type": "SRU"}, "rnn_type: 'SRU' is not imported; weft imports 'LSTM' and 'GRU'"),
        ({"bridge": True}, "bridge: True is not imported"),
        ({"dec_layers": 1}, r"enc_layers: 2 is not that of the decoder \(1\), which starts from it"),
    ],
)
def test_refused_recurrent_models(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    original = Recurrent(toolkit_recurrent_models.OPENNMT)
    with pytest.raises(WeftError, match=message):
        read(toolkit_checkpoints.opennmt(original, **{**RECURRENT, **changes}), tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vocab": {"src": ["<unk>"]}}, "has no vocabulary of its target"),
        ({"vocab": {"src": ["<unk>"], "tgt": ["<unk>", 3]}}, "has no vocabulary of its target"),
        ({"vocab": 3}, "has no vocabulary of its source"),
        ({"vocab": [("src", ["<unk>", "a"]), ["tgt"], "it"]}, "has no vocabulary of its target"),
        ({"model": None}, "model: holds no weights; are they in a separate file?"),
        (
            {"vocab": {"src": ["a"], "tgt": ["a"], "decoder_start_token": "x"}},
            "decoder_start_token: 'x' is not imported",
        ),
    ],
)
def test_damaged(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    content = {**toolkit_checkpoints.opennmt(Transformer(toolkit_models.OPENNMT, BASE)), **changes}
    with pytest.raises(WeftError, match=message):
        read(content, tmp_path)


def test_vocabularies_cannot_be_named(tmp_path: Path) -> None:
    content = toolkit_checkpoints.opennmt(Transformer(toolkit_models.OPENNMT, BASE))
    torch.save(content, tmp_path / "m.pt")
    with pytest.raises(WeftError, match="the vocabularies of OpenNMT-py are inside its checkpoint; leave it out"):
        opennmt.read(load_checkpoint(tmp_path / "m.pt"), tmp_path / "m.pt", ImportOptions(vocabularies=(Path("v"),)))
