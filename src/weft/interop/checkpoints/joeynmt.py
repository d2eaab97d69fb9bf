"""Models of Joey NMT, versions 1 and 2: Transformers, and recurrent models with attention after the step.

Transformer   pre-norm with a final norm, or post-norm; ε = 1e-6;  x = √d E[y] + PE(position), interleaved
recurrent     s_0 = tanh(W h_S + b) of the top layer, or 0;  s_t = f(s_{t−1}, [y_{t−1}; ã_{t−1}])
              e_j = s_tᵀ W h_j (luong) or vᵀ tanh(W₁ h_j + W₂ s_t) (bahdanau);  ã_t = tanh(W [s_t; c_t] + b)

The settings are in config.yaml, the vocabularies in src_vocab.txt and trg_vocab.txt, all beside the checkpoint.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from weft.errors import CheckpointError
from weft.interop.checkpoints.files import find_vocabularies
from weft.interop.checkpoints.importing import CheckpointModel
from weft.interop.checkpoints.recurrent import layer_tensors, with_prefix
from weft.interop.checkpoints.tensors import CheckpointTensors, stack_tensors
from weft.interop.checkpoints.vocabularies import SpecialNames, TokenList, find_pieces, read_lines
from weft.interop.embeddings import EmbeddingNames, read_embeddings
from weft.interop.huggingface.configuration import Configuration
from weft.interop.imported_run import Conversion, ImportOptions
from weft.interop.layer_names import LayerNames
from weft.interop.yaml_files import read_yaml
from weft.text.frames import FrameRules

CONFIGURATION = "config.yaml"
ENCODER_NAMES = LayerNames(
    self_attention="src_src_att.",
    self_attention_norm="layer_norm",
    cross_attention="src_trg_att.",
    cross_attention_norm="dec_layer_norm",
    projections=("q_layer", "k_layer", "v_layer", "output_layer"),
    feed_forward=("feed_forward.pwff_layer.0", "feed_forward.pwff_layer.3"),
    feed_forward_norm="feed_forward.layer_norm",
)
LAYER_NAMES = {
    "encoder": ENCODER_NAMES,
    "decoder": ENCODER_NAMES._replace(self_attention="trg_trg_att.", self_attention_norm="x_layer_norm"),
}
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "silu"}
SCORES = {"luong": "general", "bahdanau": "additive"}
NORM_EPSILON = 1e-6


def read(content: dict[str, Any], path: Path, options: ImportOptions) -> CheckpointModel:
    """The model of a checkpoint of Joey NMT."""
    file = path.parent / CONFIGURATION
    if not file.is_file():
        raise CheckpointError(f"{file}: missing; a checkpoint of Joey NMT needs the {CONFIGURATION} of its folder")
    settings = _Settings(read_yaml(file), str(file))
    tensors = CheckpointTensors(content["model_state"], str(path))
    tensors.ignore("encoder.pe.pe", "decoder.pe.pe")
    kinds = {side: str(settings.of(side).values.get("type", "recurrent")) for side in ("encoder", "decoder")}
    if kinds == {"encoder": "transformer", "decoder": "transformer"}:
        conversion = _convert_transformer(settings, tensors)
    elif kinds == {"encoder": "recurrent", "decoder": "recurrent"}:
        conversion = _convert_recurrent(settings, tensors)
    else:
        both = f"{kinds['encoder']!r} and {kinds['decoder']!r}"
        raise settings.of("encoder").error(
            "type", f"{both} are not imported; weft imports both transformer or recurrent"
        )
    tensors.check_all_taken()
    files = find_vocabularies(path.parent, options.vocabularies, ("src_vocab.txt", "trg_vocab.txt"))
    source, target = (settings.token_list(side, file) for side, file in zip(("src", "trg"), files, strict=True))
    return CheckpointModel(
        "Joey NMT", kinds["decoder"], settings.of("encoder"), conversion, (source, target), FrameRules()
    )


class _Settings:
    """config.yaml, section by section."""

    def __init__(self, values: dict[str, Any], where: str) -> None:
        self.where = where
        self.model = _section(values, "model")
        self.data = _section(values, "data")

    def of(self, side: str) -> Configuration:
        """The settings of the encoder or decoder."""
        return Configuration(_section(self.model, side), f"{self.where}: model.{side}")

    def embedding(self, side: str) -> Configuration:
        values = _section(_section(self.model, side), "embeddings")
        return Configuration(values, f"{self.where}: model.{side}.embeddings")

    def width(self) -> int:
        """The size of embeddings."""
        sizes = [self.embedding(side).whole("embedding_dim") for side in ("encoder", "decoder")]
        if sizes[0] != sizes[1]:
            problem = f"{sizes[1]} is not that of the encoder ({sizes[0]}); weft has one size of embeddings"
            raise self.embedding("decoder").error("embedding_dim", problem)
        return sizes[0]

    def scales(self, side: str) -> bool:
        """Whether embeddings are multiplied by √d."""
        shared = self.model.get("tied_embeddings") is True
        return self.embedding("encoder" if shared else side).flag("scale", False)

    def dropout(self) -> float:
        return self.of("encoder").share("dropout", 0.0)

    def token_list(self, side: str, file: Path) -> TokenList:
        """The vocabulary of one side, which begins with the special tokens."""
        data = _section(self.data, side)
        symbols = _section(self.data, "special_symbols")
        if symbols.get("lang_tags"):
            where = Configuration(symbols, f"{self.where}: data.special_symbols")
            raise where.error("lang_tags", "is not imported: weft imports models of one language pair")
        defaults = SpecialNames()._asdict()
        keys = {"unknown": "unk_token", "begin": "bos_token", "end": "eos_token", "padding": "pad_token"}
        special = SpecialNames(**{role: str(symbols.get(key) or defaults[role]) for role, key in keys.items()})
        first = [special.unknown, special.padding, special.begin, special.end]
        first += [str(symbols["sep_token"])] if symbols.get("sep_token") else []
        level = str(data.get("level") or self.data.get("level") or "word")
        tokenizer = _section(data, "tokenizer_cfg")
        pieces = find_pieces(file.parent, tokenizer.get("model_file")) if level == "bpe" else None
        names = tuple(dict.fromkeys([*first, *read_lines(file)]))
        return TokenList(file, names, special, pieces, "characters" if level == "char" else "words")


def _section(values: dict[str, Any], name: str) -> dict[str, Any]:
    section = values.get(name)
    return section if isinstance(section, dict) else {}


def _embeddings(settings: _Settings, tensors: CheckpointTensors, output_width: int) -> Conversion:
    """Both vocabularies, with the settings of the whole model."""
    source, target, output = "src_embed.lut.weight", "trg_embed.lut.weight", "decoder.output_layer.weight"
    sizes, width = (tensors.rows(source), tensors.rows(target)), settings.width()
    names = EmbeddingNames((source,), (target,), (output,))
    embeddings = read_embeddings(tensors, names, sizes=sizes, width=width, output_width=output_width)
    model = {"embedding": width, "tie": embeddings.tie, "dropout": settings.dropout()}
    return Conversion(model, {**embeddings.tensors, "output.bias_V": torch.zeros(sizes[1])}, sizes)


def _convert_transformer(settings: _Settings, tensors: CheckpointTensors) -> Conversion:
    model, read, rows = _embeddings(settings, tensors, settings.width())
    for side in ("encoder", "decoder"):
        config = settings.of(side)
        if config.number("alpha", 1.0) != 1.0:
            raise config.error("alpha", f"{config.values['alpha']} is not imported: weft does not scale residuals")
        activation = str(config.values.get("activation") or "relu")
        if activation not in ACTIVATIONS:
            raise config.error("activation", f"{activation!r} is not known; weft has {', '.join(ACTIVATIONS)}")
        width = config.whole("hidden_size")
        if width != settings.width():
            raise config.error("hidden_size", f"{width} is not embedding_dim ({settings.width()})")
        model[side] = {
            "kind": "transformer",
            "layers": config.whole("num_layers"),
            "hidden": width,
            "heads": config.whole("num_heads"),
            "feed_forward": config.whole("ff_size"),
            "activation": ACTIVATIONS[activation],
            "norm_epsilon": NORM_EPSILON,
            "norm_placement": _norm_placement(side, config, tensors),
            "scale_embedding": settings.scales(side),
            "attention_dropout": config.share("dropout", 0.0),
            "activation_dropout": config.share("dropout", 0.0),
        }
        own = stack_tensors(side, tensors, model[side], f"{side}.layers.{{}}.", LAYER_NAMES[side])
        read |= with_prefix(f"{side}.stack", own)
    return Conversion(model, read, rows)


def _norm_placement(side: str, config: Configuration, tensors: CheckpointTensors) -> str:
    """pre or post; version 1 knew only the former, and version 2.3 has a default without a final norm."""
    if f"{side}.layer_norm.weight" in tensors:
        return "pre"
    placement = config.values.get("layer_norm", "post" if side == "decoder" else None)
    if placement == "post":
        return "post"
    raise config.error(
        "layer_norm", "is not set, and there is no final norm: versions differ in what that means; set it"
    )


def _convert_recurrent(settings: _Settings, tensors: CheckpointTensors) -> Conversion:
    encoder, decoder, width = settings.of("encoder"), settings.of("decoder"), settings.width()
    _check_recurrent(settings)
    kind = {side.where: str(side.values.get("rnn_type", "gru")) for side in (encoder, decoder)}
    directions = 2 if encoder.flag("bidirectional", True) else 1
    hidden = encoder.whole("hidden_size") * directions, decoder.whole("hidden_size")
    feeding = decoder.flag("input_feeding", True)
    score = SCORES.get(str(decoder.values.get("attention", "bahdanau")))
    if score is None:
        raise decoder.error("attention", f"{decoder.values['attention']!r} is not known; weft has luong, bahdanau")
    model, read, rows = _embeddings(settings, tensors, hidden[1])
    model["encoder"] = {
        "kind": kind[encoder.where],
        "layers": encoder.whole("num_layers", 1),
        "hidden": hidden[0],
        "bidirectional": directions == 2,
    }
    model["decoder"] = {
        "kind": kind[decoder.where],
        "layers": decoder.whole("num_layers", 1),
        "hidden": hidden[1],
        "input_feeding": feeding,
    }
    model["attention"] = {"score": score, "placement": "after"}
    model["bridge"], bridge = _bridge(model, decoder, tensors)
    inputs = {"encoder": width, "decoder": width + (hidden[1] if feeding else 0)}
    for side in ("encoder", "decoder"):
        own = layer_tensors(
            tensors,
            f"{side}.rnn.{{part}}_l{{layer}}{{direction}}",
            kind=model[side]["kind"],
            layers=model[side]["layers"],
            widths=(inputs[side], model[side]["hidden"]),
            directions=directions if side == "encoder" else 1,
        )
        read |= with_prefix(f"{side}.stack", own)
    read |= with_prefix("decoder", {**bridge, **_attention(tensors, score, hidden)})
    return Conversion(model, read, rows)


def _check_recurrent(settings: _Settings) -> None:
    """Fail for what a recurrent model of weft does not have."""
    decoder = settings.of("decoder")
    if decoder.values.get("activation", "tanh") != "tanh":
        raise decoder.error("activation", f"{decoder.values['activation']!r} is not imported; weft has tanh")
    for side in ("encoder", "decoder"):
        if settings.scales(side):
            raise settings.embedding(side).error("scale", "true is not imported for recurrent models")
        kind = settings.of(side).values.get("rnn_type", "gru")
        if kind not in ("gru", "lstm"):
            raise settings.of(side).error("rnn_type", f"{kind!r} is not known; weft has gru, lstm")


def _bridge(model: dict[str, Any], decoder: Configuration, tensors: CheckpointTensors) -> tuple[str, dict[str, Tensor]]:
    """model.bridge, and its tensors: one map for all layers, and for both parts of the state of an LSTM."""
    sizes, layers = model["decoder"]["hidden"], model["decoder"]["layers"]
    if "decoder.bridge_layer.weight" in tensors:
        weight = tensors.take("decoder.bridge_layer.weight", sizes, model["encoder"]["hidden"])
        bias = tensors.take("decoder.bridge_layer.bias", sizes)
        count = layers * (2 if model["decoder"]["kind"] == "lstm" else 1)
        maps = {f"bridge.maps.{number}": {"weight": weight, "bias": bias} for number in range(count)}
        return "project", {f"{name}.{part}": parts[part].clone() for name, parts in maps.items() for part in parts}
    if decoder.values.get("init_hidden") == "last":
        raise decoder.error("init_hidden", "'last' is not imported: weft has no copy of one state to every layer")
    return "zero", {}


def _attention(tensors: CheckpointTensors, score: str, hidden: tuple[int, int]) -> dict[str, Tensor]:
    """The score, and the readout with its columns in weft's order: context, then state."""
    keys, queries = hidden
    key_QK = tensors.take("decoder.attention.key_layer.weight", queries, keys)
    readout = tensors.take("decoder.att_vector_layer.weight", queries, queries + keys)
    read = {
        "readout.weight": torch.cat([readout[:, queries:], readout[:, :queries]], 1),
        "readout.bias": tensors.take("decoder.att_vector_layer.bias", queries),
    }
    if score == "general":
        return {**read, "attention.score.weight_QK": key_QK}
    return {
        **read,
        "attention.score.key_projection.weight": key_QK,
        "attention.score.key_projection.bias": torch.zeros(queries),
        "attention.score.query_projection.weight": tensors.take(
            "decoder.attention.query_layer.weight", queries, queries
        ),
        "attention.score.vector": tensors.take("decoder.attention.energy_layer.weight", 1, queries)[0],
    }
