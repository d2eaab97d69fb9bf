"""Models of fairseq: Transformers, and LSTMs with attention, of the task translation.

Transformer   x = √d E[y] + PE(position + 2), sines before cosines; or learned positions from row 2 of a table on
              post-norm, or pre-norm with a final norm (encoder_normalize_before, decoder_normalize_before)
LSTM          s_0 = h_S of every layer;  s_t = f(s_{t−1}, [y_{t−1}; ã_{t−1}])
              e_j = (W s_t)·h_j;  ã_t = tanh(W [c_t; s_t])

A source ends with ``</s>``; the decoder reads ``</s>`` first. Vocabularies are files dict.LANGUAGE.txt.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from weft.errors import VocabularyError
from weft.interop.checkpoints.files import find_vocabularies
from weft.interop.checkpoints.importing import CheckpointModel, check_neutral
from weft.interop.checkpoints.recurrent import layer_tensors, with_prefix
from weft.interop.checkpoints.safe_loading import attributes_of
from weft.interop.checkpoints.tensors import CheckpointTensors, stack_tensors
from weft.interop.checkpoints.vocabularies import TokenList, find_pieces, read_lines
from weft.interop.embeddings import EmbeddingNames, Embeddings, read_embeddings
from weft.interop.huggingface.configuration import Configuration
from weft.interop.imported_run import Conversion, ImportOptions
from weft.interop.layer_names import FAIRSEQ
from weft.text.frames import FrameRules
from weft.text.specials import END

ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_accurate": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "swish": "silu",
}
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "adaptive_input": (False,),
    "base_layers": (0,),
    "char_inputs": (False,),
    "cross_self_attention": (False,),
    "no_cross_attention": (False,),
    "no_decoder_final_norm": (False,),
    "encoder_layers_to_keep": (None,),
    "decoder_layers_to_keep": (None,),
    "residuals": (False,),
}
"""Options that would change the model, and the values at which they do not."""
OTHER_ORDERS = re.compile(r"nonautoregressive|levenshtein|insertion|cmlm|_nat\b|latent")
UNUSED = re.compile(
    r"(encoder|decoder)\.(version|embed_positions\.(_float_tensor|weights)|layers\.\d+\.(in_proj|out_proj|fc1|fc2)_\w+)"
)
"""Tensors that are not weights: sinusoids, and placeholders for copies that version 0.12 makes when loading a model."""
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
"""The first tokens of every dictionary, which its file does not list."""
SKIPPED_POSITIONS = 2
"""The position of the first token: the id of the padding token, plus 1."""
OVERWRITTEN = "#fairseq:overwrite"


def read(content: dict[str, Any], path: Path, options: ImportOptions) -> CheckpointModel:
    """The model of a checkpoint of fairseq."""
    config, architecture = _configuration(content, path)
    tensors = CheckpointTensors(_with_new_names(content["model"]), str(path))
    if any(name.startswith("decoder.adaptive_softmax.") for name in tensors.names):
        raise config.error("adaptive_softmax_cutoff", "an adaptive softmax is not imported; weft does not have it")
    if "encoder.lstm.weight_ih_l0" in tensors:
        conversion = _convert_lstm(config, tensors)
    elif "encoder.layers.0.self_attn.q_proj.weight" in tensors:
        conversion = _convert_transformer(config, tensors, architecture)
    else:
        raise config.error("arch", f"{architecture!r} is not imported; weft imports Transformers and LSTMs of fairseq")
    tensors.check_all_taken()
    languages = (config.values.get("source_lang"), config.values.get("target_lang"))
    names = Path(f"dict.{languages[0]}.txt").name, Path(f"dict.{languages[1]}.txt").name  # never outside the folder
    files = find_vocabularies(path.parent, options.vocabularies, names)
    pieces = find_pieces(path.parent, config.values.get("sentencepiece_model"))
    source, target = (TokenList(file, _read_dictionary(file), pieces=pieces) for file in files)
    return CheckpointModel("fairseq", architecture, config, conversion, (source, target), FrameRules(begin=END))


def _configuration(content: dict[str, Any], path: Path) -> tuple[Configuration, str]:
    """The options of the model, and the name of its architecture."""
    where = str(path)
    values = dict(attributes_of(content.get("args")))
    if not values:
        parts = {name: dict(attributes_of(part)) for name, part in attributes_of(content.get("cfg")).items()}
        values = {**parts.get("model", {})}
        values["arch"] = values.get("arch") or values.get("_name")
        task = parts.get("task", {})
        values["task"] = values.get("task") or task.get("_name")
        values |= {name: task[name] for name in ("source_lang", "target_lang") if task.get(name)}
        for side in ("encoder", "decoder"):
            values |= {f"{side}_{name}": value for name, value in attributes_of(values.get(side)).items()}
    config = Configuration(values, where)
    if not values.get("arch"):
        raise config.error("arch", "is missing; is it a checkpoint of fairseq?")
    architecture = str(values["arch"])
    task_name = values.get("task") or "translation"
    if task_name != "translation":
        raise config.error(
            "task",
            f"{task_name!r} is not imported: its texts have another frame; weft imports 'translation'",
        )
    if OTHER_ORDERS.search(architecture):
        raise config.error("arch", f"{architecture!r} is not imported: it does not write a text from left to right")
    check_neutral(config, NEUTRAL)
    return config, architecture


def _with_new_names(model: Any) -> Any:
    """Tensors of older versions under the names of newer ones."""
    if not isinstance(model, dict) or not all(isinstance(tensor, Tensor) for tensor in model.values()):
        return model
    norms = {
        "encoder": ["self_attn_layer_norm", "final_layer_norm", "final_layer_norm"],
        "decoder": ["self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"],
    }
    renamed: dict[str, Any] = {}
    for name, tensor in model.items():
        if match := re.fullmatch(r"((encoder|decoder)\.layers\.\d+)\.layer_norms\.([0-2])\.(\w+)", str(name)):
            renamed[f"{match[1]}.{norms[match[2]][int(match[3])]}.{match[4]}"] = tensor
        elif match := re.fullmatch(r"(.+_attn)\.in_proj_(weight|bias)", str(name)):
            for role, part in zip("qkv", tensor.chunk(3), strict=False):
                renamed[f"{match[1]}.{role}_proj.{match[2]}"] = part
        elif not UNUSED.fullmatch(str(name)):
            renamed[name] = tensor
    return renamed


def _embeddings(tensors: CheckpointTensors, outputs: tuple[str, ...], width: int, output_width: int) -> Embeddings:
    source, target = "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"
    output = next((name for name in outputs if name in tensors), target)
    sizes = tensors.rows(source), tensors.rows(target)
    names = EmbeddingNames((source,), (target,), (output,))
    return read_embeddings(tensors, names, sizes=sizes, width=width, output_width=output_width)


def _convert_transformer(config: Configuration, tensors: CheckpointTensors, architecture: str) -> Conversion:
    width = config.whole("encoder_embed_dim", 512)
    for name in ("decoder_embed_dim", "decoder_input_dim", "decoder_output_dim"):
        if config.whole(name, width) != width:
            raise config.error(name, f"{config.values[name]} is not encoder_embed_dim ({width}); weft has one width")
    embeddings = _embeddings(tensors, ("decoder.output_projection.weight", "decoder.embed_out"), width, width)
    read = {**embeddings.tensors, "output.bias_V": torch.zeros(embeddings.rows[1])}
    model: dict[str, Any] = {"embedding": width, "tie": embeddings.tie, "dropout": config.share("dropout", 0.1)}
    for side in ("encoder", "decoder"):
        settings, own = _stack(side, config, tensors, width)
        own |= stack_tensors(side, tensors, settings, f"{side}.layers.{{}}.", FAIRSEQ)
        model[side] = settings
        read |= with_prefix(f"{side}.stack", own)
    if "align" in architecture:
        layer, heads = config.whole("alignment_layer", 4, least=0), config.whole("alignment_heads", 1)
        model["decoder"]["alignment_heads"] = [[layer, head] for head in range(heads)]
    return Conversion(model, read, embeddings.rows)


def _stack(
    side: str, config: Configuration, tensors: CheckpointTensors, width: int
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """[model.encoder] or [model.decoder], and the tensors before the first layer."""
    activation = config.values.get("activation_fn") or "relu"
    if activation not in ACTIVATIONS:
        raise config.error("activation_fn", f"{activation!r} is not known; weft has {', '.join(ACTIVATIONS)}")
    own: dict[str, Tensor] = {}
    positions: dict[str, Any] = {
        "positions": "sinusoidal",
        "sinusoids": "tensor2tensor",
        "first_position": SKIPPED_POSITIONS,
    }
    table = f"{side}.embed_positions.weight"
    if config.flag("no_token_positional_embeddings", False):
        positions = {"positions": "none"}
    elif table in tensors:
        own["positions.weight_PD"] = tensors.take(table, tensors.rows(table), width)[SKIPPED_POSITIONS:].contiguous()
        positions = {"positions": "learned", "max_positions": len(own["positions.weight_PD"])}
    embedding_norm = f"{side}.layernorm_embedding"
    if f"{embedding_norm}.weight" in tensors:
        own |= {
            f"embedding_norm.{part}": tensors.take(f"{embedding_norm}.{part}", width) for part in ("weight", "bias")
        }
    settings = {
        "kind": "transformer",
        "layers": config.whole(f"{side}_layers", 6),
        "hidden": width,
        "heads": config.whole(f"{side}_attention_heads", 8),
        "feed_forward": config.whole(f"{side}_ffn_embed_dim", 2048),
        "activation": ACTIVATIONS[activation],
        "norm_placement": "pre" if config.flag(f"{side}_normalize_before", False) else "post",
        "embedding_norm": f"{embedding_norm}.weight" in tensors,
        "scale_embedding": not config.flag("no_scale_embedding", False),
        "attention_dropout": config.share("attention_dropout", 0.0),
        "activation_dropout": config.share("activation_dropout", 0.0),
        **positions,
    }
    return settings, own


def _convert_lstm(config: Configuration, tensors: CheckpointTensors) -> Conversion:
    for name, reason in {
        "decoder.encoder_hidden_proj.weight": "maps the states of the encoder to those of the decoder without tanh",
        "decoder.additional_fc.weight": "is a map between the decoder and the output projection",
    }.items():
        if name in tensors:
            raise config.error(name, f"not imported: it {reason}, which weft does not have")
    if "decoder.attention.input_proj.weight" not in tensors:
        raise config.error("decoder_attention", "false is not imported: weft feeds inputs only with an attention")
    width, layers = config.whole("encoder_embed_dim", 512), config.whole("encoder_layers", 1)
    if config.whole("decoder_embed_dim", width) != width:
        raise config.error("decoder_embed_dim", f"is not encoder_embed_dim ({width}); weft has one embedding size")
    directions = 2 if "encoder.lstm.weight_ih_l0_reverse" in tensors else 1
    hidden = config.whole("encoder_hidden_size", width) * directions
    embeddings = _embeddings(tensors, ("decoder.fc_out.weight",), width, hidden)
    read = dict(embeddings.tensors)
    read["output.bias_V"] = tensors.take_or_zeros("decoder.fc_out.bias", embeddings.rows[1])
    stacks = {
        "encoder": ("encoder.lstm.{part}_l{layer}{direction}", (width, hidden), directions),
        "decoder": ("decoder.layers.{layer}.{part}", (width + hidden, hidden), 1),
    }
    for side, (pattern, widths, ways) in stacks.items():
        own = layer_tensors(tensors, pattern, kind="lstm", layers=layers, widths=widths, directions=ways)
        read |= with_prefix(f"{side}.stack", own)
    score = tensors.take("decoder.attention.input_proj.weight", hidden, hidden)
    read["decoder.attention.score.weight_QK"] = score.T.contiguous()
    read["decoder.readout.weight"] = tensors.take("decoder.attention.output_proj.weight", hidden, 2 * hidden)
    read["decoder.readout.bias"] = torch.zeros(hidden)
    recurrent = {"kind": "lstm", "layers": layers, "hidden": hidden}
    model = {
        "embedding": width,
        "tie": embeddings.tie,
        "dropout": config.share("dropout", 0.1),
        "bridge": "copy",
        "encoder": {**recurrent, "bidirectional": directions == 2},
        "decoder": {**recurrent, "input_feeding": True},
        "attention": {"score": "general", "placement": "after"},
    }
    return Conversion(model, read, embeddings.rows)


def _read_dictionary(file: Path) -> tuple[str, ...]:
    """The tokens of a dictionary, by id: a line has a token and its count."""
    names = [*SPECIAL]
    ids = {name: id for id, name in enumerate(names)}
    for number, line in enumerate(read_lines(file), 1):
        overwrites = line.endswith(f" {OVERWRITTEN}")
        name, space, count = line.removesuffix(f" {OVERWRITTEN}").rpartition(" ")
        if not space or not count.lstrip("-").isdecimal():
            raise VocabularyError(f"{file}:{number}: {line[:60]!r} was found, expected a token and its count")
        if name in ids and not overwrites:
            raise VocabularyError(f"{file}:{number}: {name!r} occurs in it twice")
        if name in ids:
            names[ids[name]] = f"<row {ids[name]}>"
        ids[name] = len(names)
        names.append(name)
    return tuple(names)
