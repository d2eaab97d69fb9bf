"""Models of OpenNMT-py, versions 1 to 3: Transformers, and recurrent models with Luong's attention.

Transformer   pre-norm, ε = 1e-6, a final norm;  x = √d E[y] + PE(position), interleaved sines and cosines
recurrent     s_0 = h_S of every layer;  s_t = f(s_{t−1}, [y_{t−1}; ã_{t−1}])
              e_j = (W s_t)·h_j;  ã_t = tanh(W [c_t; s_t])

A source has no special tokens around it. Vocabularies are inside the checkpoint: lists of tokens, or, before version 3,
fields of torchtext.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from weft.errors import RecipeError, VocabularyError, option
from weft.interop.checkpoints.importing import CheckpointModel, check_neutral
from weft.interop.checkpoints.recurrent import layer_tensors, with_prefix
from weft.interop.checkpoints.safe_loading import Record, attributes_of
from weft.interop.checkpoints.tensors import CheckpointTensors, stack_tensors
from weft.interop.checkpoints.vocabularies import SpecialNames, TokenList, find_pieces
from weft.interop.embeddings import EmbeddingNames, Embeddings, read_embeddings
from weft.interop.huggingface.configuration import Configuration
from weft.interop.imported_run import Conversion, ImportOptions
from weft.interop.layer_names import LayerNames
from weft.text.frames import FrameRules
from weft.text.specials import BEGIN, END

NAMES = LayerNames(
    self_attention="self_attn.",
    self_attention_norm="layer_norm",
    cross_attention="context_attn.",
    cross_attention_norm="layer_norm_2",
    projections=("linear_query", "linear_keys", "linear_values", "final_linear"),
    feed_forward=("feed_forward.w_1", "feed_forward.w_2"),
    feed_forward_norm="feed_forward.layer_norm",
)
"""Names in the encoder; in the decoder the first norm is called layer_norm_1."""
GATE = "feed_forward.w_3"
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "silu": "swiglu", "gated-gelu": "geglu", "gated-silu": "swiglu"}
POSITIONS = {"SinusoidalInterleaved": "interleaved", "SinusoidalConcat": "tensor2tensor"}
NORMS = {"standard": "layer", "rms": "rms"}
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "model_task": ("seq2seq",),
    "model_type": ("text",),
    "copy_attn": (False,),
    "generator_function": ("softmax",),
    "max_relative_positions": (0,),
    "self_attn_type": ("scaled-dot", "scaled-dot-flash"),
    "parallel_residual": (False,),
    "num_experts": (0,),
    "sliding_window": (0,),
    "lora_layers": ([],),
    "quant_layers": ([],),
    "bridge": (False,),
    "context_gate": (None,),
    "coverage_attn": (False,),
}
"""Options that would change the model, and the values at which they do not."""
EMBEDDING = "embeddings.make_embedding.emb_luts.0.weight"


def read(content: dict[str, Any], path: Path, options: ImportOptions) -> CheckpointModel:
    """The model of a checkpoint of OpenNMT-py."""
    config = Configuration(_flat(dict(attributes_of(content["opt"]))), str(path))
    check_neutral(config, NEUTRAL)
    if options.vocabularies:
        where = option("vocab", str(options.vocabularies[0]))
        raise RecipeError(f"{where}: the vocabularies of OpenNMT-py are inside its checkpoint; leave it out")
    tensors = _tensors(content, path)
    kinds = str(config.values.get("encoder_type", "rnn")), str(config.values.get("decoder_type", "rnn"))
    if kinds == ("transformer", "transformer"):
        conversion = _convert_transformer(config, tensors)
    elif kinds[0] in ("rnn", "brnn") and kinds[1] == "rnn":
        conversion = _convert_recurrent(config, tensors, bidirectional=kinds[0] == "brnn")
    else:
        raise config.error("encoder_type", f"{' and '.join(kinds)} are not imported; weft imports transformer and rnn")
    tensors.check_all_taken()
    lists = tuple(_token_list(content.get("vocab"), side, config, path) for side in ("src", "tgt"))
    start = attributes_of(content.get("vocab")).get("decoder_start_token", "<s>")
    if start not in ("<s>", "</s>"):
        raise config.error("decoder_start_token", f"{start!r} is not imported; weft imports '<s>' and '</s>'")
    rules = FrameRules(source_after=(), begin=END if start == "</s>" else BEGIN)
    return CheckpointModel("OpenNMT-py", kinds[1], config, conversion, (lists[0], lists[1]), rules)


def _flat(values: dict[str, Any]) -> dict[str, Any]:
    """Options of which newer versions keep a list over the steps of a training: the first."""
    for name in ("dropout", "attention_dropout"):
        if isinstance(values.get(name), list):
            values[name] = values[name][0] if values[name] else None
    return values


def _tensors(content: dict[str, Any], path: Path) -> CheckpointTensors:
    """The tensors of the model, with those of the generator, under the names of newer versions."""
    model, generator = content.get("model"), content.get("generator")
    if not isinstance(model, dict) or not isinstance(generator, dict):
        raise Configuration({}, str(path)).error("model", "holds no weights; are they in a separate file?")
    renamed: dict[str, Any] = {}
    for name, tensor in model.items():
        name = re.sub(r"\.b_2$", ".bias", re.sub(r"\.a_2$", ".weight", str(name)))
        if not re.search(r"\.pe\.pe$|\.mask$", name):
            renamed[name] = tensor
    renamed |= {f"generator.{str(name).removeprefix('0.')}": tensor for name, tensor in generator.items()}
    return CheckpointTensors(renamed, str(path))


def _size(config: Configuration, *names: str) -> int:
    """The first of these options that is set, and not -1, which stands for another one."""
    values = config.values
    name = next((name for name in names if values.get(name) not in (None, -1)), names[-1])
    return config.whole(name)


def _widths(config: Configuration) -> tuple[int, int]:
    """The size of embeddings, and of hidden states, which are the same in encoder and decoder."""
    embeddings = [_size(config, f"{side}_word_vec_size", "word_vec_size") for side in ("src", "tgt")]
    hidden = [
        _size(config, f"{side}_hid_size", f"{side}_rnn_size", "hidden_size", "rnn_size") for side in ("enc", "dec")
    ]
    if embeddings[0] != embeddings[1]:
        sizes = f"{embeddings[0]}, tgt_word_vec_size {embeddings[1]}"
        raise config.error("src_word_vec_size", f"{sizes}: weft has one size of embeddings")
    if hidden[0] != hidden[1]:
        raise config.error(
            "enc_hid_size", f"{hidden[0]} is not that of the decoder ({hidden[1]}), which starts from it"
        )
    return embeddings[0], hidden[0]


def _embeddings(tensors: CheckpointTensors, width: int, output_width: int) -> tuple[Embeddings, dict[str, Tensor]]:
    """Both vocabularies, and all tensors that belong to them."""
    source, target, output = f"encoder.{EMBEDDING}", f"decoder.{EMBEDDING}", "generator.weight"
    sizes = tensors.rows(source), tensors.rows(target)
    names = EmbeddingNames((source,), (target,), (output if output in tensors else target,))
    embeddings = read_embeddings(tensors, names, sizes=sizes, width=width, output_width=output_width)
    bias = tensors.take_or_zeros("generator.bias", sizes[1])
    return embeddings, {**embeddings.tensors, "output.bias_V": bias}


def _convert_transformer(config: Configuration, tensors: CheckpointTensors) -> Conversion:
    embedding, width = _widths(config)
    if embedding != width:
        raise config.error("src_word_vec_size", f"{embedding} is not the hidden size ({width})")
    embeddings, read = _embeddings(tensors, width, width)
    model: dict[str, Any] = {"embedding": width, "tie": embeddings.tie, "dropout": config.share("dropout", 0.1)}
    activation = str(config.values.get("pos_ffn_activation_fn") or "relu")
    norm = str(config.values.get("layer_norm") or "standard")
    for name, value, known in (("pos_ffn_activation_fn", activation, ACTIVATIONS), ("layer_norm", norm, NORMS)):
        if value not in known:
            raise config.error(name, f"{value!r} is not known; weft has {', '.join(known)}")
    for side, prefix, layer in (("encoder", "enc", "transformer"), ("decoder", "dec", "transformer_layers")):
        model[side] = {
            "kind": "transformer",
            "layers": _size(config, f"{prefix}_layers", "layers"),
            "hidden": width,
            "heads": config.whole("heads", 8),
            "key_value_heads": config.whole("num_kv", 0, least=0),
            "feed_forward": config.whole("transformer_ff", 2048),
            "activation": ACTIVATIONS[activation],
            "norm": NORMS[norm],
            "norm_epsilon": config.number("norm_eps", 1e-6),
            "norm_placement": "pre",
            "attention_dropout": config.share("attention_dropout", 0.0),
            "activation_dropout": config.share("dropout", 0.1),
            **_positions(config),
        }
        names = NAMES if side == "encoder" else NAMES._replace(self_attention_norm="layer_norm_1")
        if ACTIVATIONS[activation] in ("swiglu", "geglu"):
            names = names._replace(feed_forward=(*names.feed_forward, GATE))
        own = stack_tensors(side, tensors, model[side], f"{side}.{layer}.{{}}.", names)
        read |= with_prefix(f"{side}.stack", own)
    model["decoder"]["alignment_heads"] = _alignment_heads(config, model["decoder"])
    return Conversion(model, read, embeddings.rows)


def _positions(config: Configuration) -> dict[str, Any]:
    if not config.flag("position_encoding", False):
        return {"positions": "none", "scale_embedding": False}
    kind = str(config.values.get("position_encoding_type") or "SinusoidalInterleaved")
    if kind not in POSITIONS:
        raise config.error("position_encoding_type", f"{kind!r} is not known; weft has {', '.join(POSITIONS)}")
    return {"positions": "sinusoidal", "sinusoids": POSITIONS[kind], "scale_embedding": True}


def _alignment_heads(config: Configuration, decoder: dict[str, Any]) -> list[list[int]]:
    """The heads that guided alignment has trained; none without it."""
    if not config.number("lambda_align", 0.0):
        return []
    layer = config.values.get("alignment_layer", -3)
    count = config.whole("alignment_heads", 0, least=0) or decoder["heads"]
    if type(layer) is not int or not -decoder["layers"] <= layer < decoder["layers"]:
        raise config.error("alignment_layer", f"{layer!r} is not a layer of the decoder, which has {decoder['layers']}")
    return [[layer % decoder["layers"], head] for head in range(count)]


def _convert_recurrent(config: Configuration, tensors: CheckpointTensors, *, bidirectional: bool) -> Conversion:
    embedding, hidden = _widths(config)
    kind = str(config.values.get("rnn_type", "LSTM")).lower()
    score = str(config.values.get("global_attention") or "none")
    feeding = bool(config.values.get("input_feed", 1))
    if kind not in ("lstm", "gru"):
        raise config.error("rnn_type", f"{kind.upper()!r} is not imported; weft imports 'LSTM' and 'GRU'")
    if score not in ("dot", "general") and (score != "none" or feeding):
        reason = "its readout has no tanh" if score == "mlp" else "weft feeds inputs only with an attention"
        raise config.error("global_attention", f"{score!r} is not imported: {reason}; weft imports 'dot' and 'general'")
    embeddings, read = _embeddings(tensors, embedding, hidden)
    layers = [_size(config, f"{side}_layers", "layers") for side in ("enc", "dec")]
    if layers[0] != layers[1]:
        raise config.error("enc_layers", f"{layers[0]} is not that of the decoder ({layers[1]}), which starts from it")
    decoder = "decoder.rnn.layers.{layer}.{part}" if feeding else "decoder.rnn.{part}_l{layer}"
    stacks = {
        "encoder": ("encoder.rnn.{part}_l{layer}{direction}", embedding, 2 if bidirectional else 1),
        "decoder": (decoder, embedding + (hidden if feeding else 0), 1),
    }
    for side, (pattern, inputs, directions) in stacks.items():
        own = layer_tensors(
            tensors, pattern, kind=kind, layers=layers[0], widths=(inputs, hidden), directions=directions
        )
        read |= with_prefix(f"{side}.stack", own)
    if score == "general":
        weight = tensors.take("decoder.attn.linear_in.weight", hidden, hidden)
        read["decoder.attention.score.weight_QK"] = weight.T.contiguous()
    if score != "none":
        read["decoder.readout.weight"] = tensors.take("decoder.attn.linear_out.weight", hidden, 2 * hidden)
        read["decoder.readout.bias"] = torch.zeros(hidden)
    recurrent = {"kind": kind, "layers": layers[0], "hidden": hidden}
    normalizer = str(config.values.get("global_attention_function") or "softmax")
    model = {
        "embedding": embedding,
        "tie": embeddings.tie,
        "dropout": config.share("dropout", 0.3),
        "bridge": "copy",
        "encoder": {**recurrent, "bidirectional": bidirectional},
        "decoder": {**recurrent, "input_feeding": feeding},
        "attention": {"score": score, "normalizer": normalizer, "placement": "after"},
    }
    return Conversion(model, read, embeddings.rows)


def _token_list(vocabularies: Any, side: str, config: Configuration, path: Path) -> TokenList:
    if isinstance(vocabularies, list):  # of version 0: pairs of a name and a vocabulary
        vocabularies = {pair[0]: pair[1] for pair in vocabularies if isinstance(pair, tuple | list) and len(pair) == 2}
    names = _tokens(attributes_of(vocabularies).get(side))
    if names is None:
        raise VocabularyError(f"{path}: has no vocabulary of its {'source' if side == 'src' else 'target'}")
    padding = "<blank>" if "<blank>" in names else "<pad>"
    pieces = None
    if "sentencepiece" in (config.values.get("transforms") or []):
        named = config.values.get(f"{side}_subword_model")
        if side == "tgt" and not named:
            named = config.values.get("src_subword_model")
        pieces = find_pieces(path.parent, named)
    return TokenList(path, names, SpecialNames(padding=padding), pieces)


def _tokens(value: Any) -> tuple[str, ...] | None:
    """The tokens of a vocabulary: a list, or inside fields of torchtext."""
    if isinstance(value, list) and value and isinstance(value[0], tuple):  # of version 1.0: a list of named fields
        return _tokens(value[0][-1])
    if isinstance(value, list):
        return tuple(value) if all(isinstance(name, str) for name in value) else None
    if not isinstance(value, Record):
        return None
    for name in ("itos", "vocab", "fields"):
        if value.attributes.get(name) is not None:
            return _tokens(value.attributes[name])
    return None
