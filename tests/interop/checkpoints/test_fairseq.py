"""Models of fairseq against literal readings of its forward pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from fixtures import toolkit_checkpoints, toolkit_models, toolkit_recurrent_models
from fixtures.conversions import largest_difference
from fixtures.toolkit_models import Model, Shape, Transformer, gelu, gelu_accurate
from fixtures.toolkit_recurrent_models import Recurrent, RecurrentShape
from weft.errors import WeftError
from weft.interop.checkpoints import fairseq
from weft.interop.checkpoints.importing import CheckpointModel
from weft.interop.checkpoints.safe_loading import load_checkpoint
from weft.interop.imported_run import ImportOptions

PRE_NORM = {"encoder_normalize_before": True, "decoder_normalize_before": True}
VARIANTS: dict[str, tuple[Shape, dict[str, Any]]] = {
    "as trained by default": (Shape(), {}),
    "pre-norm, all tied": (Shape(sizes=(23, 23), pre_norm=True, tie="all"), PRE_NORM),
    "learned positions": (
        Shape(positions=None, embedding_norm=True, activation=gelu, tie="target"),
        {"activation_fn": "gelu", "layernorm_embedding": True, "encoder_learned_pos": True},
    ),
    "not scaled": (
        Shape(scale=False, activation=gelu_accurate),
        {"activation_fn": "gelu_accurate", "no_scale_embedding": True},
    ),
}
LSTM = {"arch": "lstm", "encoder_embed_dim": 10, "decoder_embed_dim": 10, "encoder_hidden_size": 8, "decoder_layers": 2}


def read(content: dict[str, Any], folder: Path) -> CheckpointModel:
    path = toolkit_checkpoints.save_fairseq(folder, content)
    return fairseq.read(load_checkpoint(path), path, ImportOptions())


def difference(original: Model, model: CheckpointModel) -> float:
    return largest_difference(original, model.conversion, start=2, source_end=(2,))


@pytest.mark.parametrize("variant", VARIANTS)
def test_transformer(tmp_path: Path, variant: str) -> None:
    shape, changes = VARIANTS[variant]
    original = Transformer(toolkit_models.FAIRSEQ, shape)
    model = read(toolkit_checkpoints.fairseq(original, nested=shape.pre_norm, **changes), tmp_path)
    assert model.conversion.model["tie"] == shape.tie
    assert difference(original, model) < 1e-5


def test_names_of_older_versions(tmp_path: Path) -> None:
    """One projection for queries, keys and values, numbered norms, and a table of sinusoids."""
    original = Transformer(toolkit_models.FAIRSEQ)
    content = toolkit_checkpoints.fairseq(original)
    state = content["model"]
    for side, norms in (("encoder", ("self_attn", "final")), ("decoder", ("self_attn", "encoder_attn", "final"))):
        state[f"{side}.embed_positions.weights"] = torch.zeros(3, 12)
        for layer in range(FAIRSEQ_LAYERS[side]):
            prefix = f"{side}.layers.{layer}"
            for part in ("weight", "bias"):
                for number, norm in enumerate(norms):
                    state[f"{prefix}.layer_norms.{number}.{part}"] = state.pop(f"{prefix}.{norm}_layer_norm.{part}")
                for attention in norms[:-1]:
                    parts = [state.pop(f"{prefix}.{attention}.{role}_proj.{part}") for role in "qkv"]
                    state[f"{prefix}.{attention}.in_proj_{part}"] = torch.cat(parts)
    state["decoder.embed_out"] = state.pop("decoder.output_projection.weight")
    assert difference(original, read(content, tmp_path)) < 1e-5


FAIRSEQ_LAYERS = {"encoder": 2, "decoder": 3}


def test_copies_of_version_0_12_are_left_out(tmp_path: Path) -> None:
    content = toolkit_checkpoints.fairseq(Transformer(toolkit_models.FAIRSEQ))
    content["model"] |= {
        "encoder.layers.0.in_proj_weight": torch.zeros(36, 12),
        "encoder.layers.0.fc1_bias": torch.zeros(14),
    }
    assert read(content, tmp_path).conversion.rows == (23, 19)


def test_alignment_heads(tmp_path: Path) -> None:
    changes = {"arch": "transformer_align", "alignment_layer": 1, "alignment_heads": 2}
    model = read(toolkit_checkpoints.fairseq(Transformer(toolkit_models.FAIRSEQ), **changes), tmp_path)
    assert model.conversion.model["decoder"]["alignment_heads"] == [[1, 0], [1, 1]]


@pytest.mark.parametrize(
    "shape",
    [RecurrentShape(), RecurrentShape(directions=2, embedding=12, encoder=12, decoder=12, tie=True, biases=False)],
    ids=["LSTM", "bidirectional, tied"],
)
def test_lstm(tmp_path: Path, shape: RecurrentShape) -> None:
    original = Recurrent(toolkit_recurrent_models.FAIRSEQ, shape)
    if shape.tie:
        original.parameters.pop("decoder.fc_out.weight")
    sizes = {"encoder_embed_dim": shape.embedding, "decoder_embed_dim": shape.embedding}
    hidden = {"encoder_hidden_size": shape.encoder // shape.directions}
    model = read(toolkit_checkpoints.fairseq(original, **{**LSTM, **sizes, **hidden}), tmp_path)
    if shape.tie:
        original.parameters["decoder.fc_out.weight"] = original.parameters["decoder.embed_tokens.weight"]
    assert model.conversion.model["tie"] == ("target" if shape.tie else "none")
    assert difference(original, model) < 1e-5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arch": ""}, "arch: is missing; is it a checkpoint of fairseq?"),
        (
            {"arch": "levenshtein_transformer"},
            "arch: 'levenshtein_transformer' is not imported: it does not write a text",
        ),
        (
            {"task": "translation_multi_simple_epoch"},
            "task: 'translation_multi_simple_epoch' is not imported: its texts",
        ),
        ({"cross_self_attention": True}, "cross_self_attention: True is not imported; weft imports models without it"),
        ({"decoder_output_dim": 7}, r"decoder_output_dim: 7 is not encoder_embed_dim \(12\); weft has one width"),
        ({"activation_fn": "tanh"}, "activation_fn: 'tanh' is not known; weft has relu, gelu, "),
        ({"encoder_layers": 3}, "lacks tensor 'encoder.layers.2.self_attn.q_proj.weight', which its options call for"),
        (
            {"encoder_layers": 1},
            r"tensor 'encoder.layers.1.fc1.bias' \(one of 16\) has no place in the model of its op",
        ),
        ({"encoder_ffn_embed_dim": 5}, r"tensor 'encoder.layers.0.fc1.weight' is \(14, 12\), but the options say \(5"),
        ({"encoder_layers": "many"}, "encoder_layers: 'many' was found, expected a whole number of at least 1"),
    ],
)
def test_refused_options(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    content = toolkit_checkpoints.fairseq(Transformer(toolkit_models.FAIRSEQ), **changes)
    with pytest.raises(WeftError, match=message) as error:
        read(content, tmp_path)
    assert "\n" not in str(error.value) and "checkpoint_best.pt: " in str(error.value)


CHANGING = {
    "adaptive_input": (False, True),
    "base_layers": (0, 1),
    "char_inputs": (False, True),
    "cross_self_attention": (False, True),
    "no_cross_attention": (False, True),
    "no_decoder_final_norm": (False, True),
    "encoder_layers_to_keep": (None, "0,1"),
    "decoder_layers_to_keep": (None, "0,1"),
    "residuals": (False, True),
}
"""Options that would change the model: their default, and another value."""


def test_options_at_their_default_are_accepted(tmp_path: Path) -> None:
    defaults: dict[str, Any] = {name: default for name, (default, _) in CHANGING.items()}
    content = toolkit_checkpoints.fairseq(Transformer(toolkit_models.FAIRSEQ), **defaults)
    assert read(content, tmp_path).conversion.rows == (23, 19)


@pytest.mark.parametrize("name", CHANGING)
def test_options_that_would_change_the_model_are_refused(tmp_path: Path, name: str) -> None:
    _, other = CHANGING[name]
    content = toolkit_checkpoints.fairseq(Transformer(toolkit_models.FAIRSEQ), **{name: other})
    with pytest.raises(WeftError, match=f"checkpoint_best.pt: {name}: {other!r} is not imported; weft imports models"):
        read(content, tmp_path)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "decoder.encoder_hidden_proj.weight",
            "not imported: it maps the states of the encoder to those of the decoder",
        ),
        ("decoder.additional_fc.weight", "not imported: it is a map between the decoder and the output projection"),
        ("decoder.adaptive_softmax.head.weight", "adaptive_softmax_cutoff: an adaptive softmax is not imported"),
    ],
)
def test_refused_tensors(tmp_path: Path, name: str, message: str) -> None:
    content = toolkit_checkpoints.fairseq(Recurrent(toolkit_recurrent_models.FAIRSEQ), **LSTM)
    content["model"][name] = torch.zeros(2, 2)
    with pytest.raises(WeftError, match=message):
        read(content, tmp_path)


def test_damaged_tensors(tmp_path: Path) -> None:
    """Something among the tensors that is none, and a joined projection of too few rows."""
    content = toolkit_checkpoints.fairseq(Transformer(toolkit_models.FAIRSEQ))
    content["model"]["encoder.layers.0.self_attn.in_proj_weight"] = "text"
    with pytest.raises(WeftError, match=r"checkpoint_best.pt: damaged: its model is not a dictionary of tensors"):
        read(content, tmp_path)
    content = toolkit_checkpoints.fairseq(Transformer(toolkit_models.FAIRSEQ))
    own = "encoder.layers.0.self_attn."
    content["model"] = {name: tensor for name, tensor in content["model"].items() if not name.startswith(own)}
    content["model"] |= {f"{own}in_proj_weight": torch.zeros(2, 12)}
    with pytest.raises(WeftError, match=r"tensor 'encoder.layers.0.self_attn.q_proj.weight' is \(1, 12\), but the opt"):
        read(content, tmp_path)


def test_lstm_without_attention_is_refused(tmp_path: Path) -> None:
    content = toolkit_checkpoints.fairseq(Recurrent(toolkit_recurrent_models.FAIRSEQ), **LSTM)
    content["model"] = {name: tensor for name, tensor in content["model"].items() if "attention" not in name}
    with pytest.raises(WeftError, match="decoder_attention: false is not imported"):
        read(content, tmp_path)


def test_other_architectures_are_refused(tmp_path: Path) -> None:
    content = toolkit_checkpoints.fairseq(Transformer(toolkit_models.FAIRSEQ), arch="fconv_iwslt_de_en")
    content["model"] = {"encoder.fc1.weight": torch.zeros(2, 2)}
    with pytest.raises(
        WeftError, match="arch: 'fconv_iwslt_de_en' is not imported; weft imports Transformers and LSTMs"
    ):
        read(content, tmp_path)


class TestDictionaries:
    """dict.LANGUAGE.txt."""

    def names(self, folder: Path, text: str) -> tuple[str, ...]:
        (folder / "dict.en.txt").write_text(text, "utf-8")
        return fairseq._read_dictionary(folder / "dict.en.txt")

    def test_tokens_and_counts(self, tmp_path: Path) -> None:
        assert self.names(tmp_path, "the 5\na b 3\nmadeupword0000 0\n")[4:] == ("the", "a b", "madeupword0000")

    def test_a_token_that_replaces_another(self, tmp_path: Path) -> None:
        assert self.names(tmp_path, "the 5\nthe 3 #fairseq:overwrite\n")[4:] == ("<row 4>", "the")

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("the 5\nking\n", r"dict.en.txt:2: 'king' was found, expected a token and its count"),
            ("the 5\nthe 3\n", r"dict.en.txt:2: 'the' occurs in it twice"),
        ],
    )
    def test_damaged(self, tmp_path: Path, text: str, message: str) -> None:
        with pytest.raises(WeftError, match=message):
            self.names(tmp_path, text)
