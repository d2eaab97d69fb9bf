"""The weights of a Transformer under the names of BART, Marian, mBART, Pegasus and M2M100: the inverse of bart.py.

Sinusoids of weft are interleaved, those of Marian and Pegasus are sines before cosines. Both are the same model with
its hidden dimensions in another order, so they are reordered; the positions of the export are then the ones that these
classes make themselves, also after the model is saved again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch

from weft.interop.huggingface.architectures import BART_ACTIVATIONS
from weft.interop.huggingface.bart import SKIPPED_POSITIONS
from weft.interop.layer_names import FAIRSEQ, write_layers
from weft.models.positions import sinusoids
from weft.recipe import ModelSettings, TransformerSettings

if TYPE_CHECKING:
    from torch import Tensor

POSITIONS = 1024
"""Positions of a table of sinusoids."""
OUTPUTS = ("attention.output", "feed_forward.linear2")
"""Linear maps whose outputs are added to the stream of hidden states."""


def configuration(kind: str, settings: ModelSettings) -> dict[str, Any]:
    """The entries of config.json that describe the layers."""
    encoder, decoder = settings.encoder, settings.decoder
    assert isinstance(encoder, TransformerSettings) and isinstance(decoder, TransformerSettings)
    sides: dict[str, Any] = {}
    for side, stack in (("encoder", encoder), ("decoder", decoder)):
        sides[f"{side}_layers"] = stack.layers
        sides[f"{side}_attention_heads"] = stack.heads
        sides[f"{side}_ffn_dim"] = stack.feed_forward
    config = {
        "d_model": settings.embedding,
        **sides,
        "activation_function": BART_ACTIVATIONS[decoder.activation],
        "max_position_embeddings": positions(settings),
        "scale_embedding": decoder.scale_embedding,
        "dropout": settings.dropout,
        "attention_dropout": decoder.attention_dropout,
        "activation_dropout": decoder.activation_dropout,
        "tie_word_embeddings": settings.tie in ("all", "target"),
    }
    if kind == "marian":
        config["share_encoder_decoder_embeddings"] = settings.tie in ("all", "inputs")
    return config


def positions(settings: ModelSettings) -> int:
    """The number of positions on both sides."""
    learned = [
        stack.max_positions
        for stack in (settings.encoder, settings.decoder)
        if isinstance(stack, TransformerSettings) and stack.positions == "learned"
    ]
    return min(learned, default=POSITIONS)


def weights(kind: str, settings: ModelSettings, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights by their names in transformers.

    ``tensors``: weights by their names in weft, with the rows of vocabularies in the order of the export.
    """
    layouts = {
        stack.sinusoids if isinstance(stack, TransformerSettings) and stack.positions == "sinusoidal" else ""
        for stack in (settings.encoder, settings.decoder)
    }
    if layouts == {"interleaved"} and settings.embedding % 2 == 0:
        width = settings.embedding
        order_D = torch.cat([torch.arange(0, width, 2), torch.arange(1, width, 2)])
        tensors = {name: _reordered(name, tensor, order_D) for name, tensor in tensors.items()}
        reordered = {"sinusoids": "halves"}
    else:
        reordered = {}
    converted = dict(_embeddings(kind, settings.tie, tensors))
    for side in ("encoder", "decoder"):
        stack: Any = getattr(settings, side)
        stack = stack.model_copy(update=reordered)
        prefix = f"{side}.stack."
        own = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
        table = _position_table(kind, stack, own, positions(settings))
        if table is not None:
            converted[f"model.{side}.embed_positions.weight"] = table
        for name, tensor in _stack(side, own, stack):
            converted[f"model.{side}.{name}"] = tensor
    return converted


def _reordered(name: str, tensor: Tensor, order_D: Tensor) -> Tensor:
    """A tensor with the hidden dimensions in another order."""
    if name.startswith("output.bias"):
        return tensor
    module, _, _ = name.rpartition(".")
    if tensor.dim() == 1:
        is_stream = "norm" in module or module.endswith(OUTPUTS)
        return tensor[order_D] if is_stream else tensor
    return tensor[order_D] if module.endswith(OUTPUTS) else tensor[:, order_D]


def _embeddings(kind: str, tie: str, tensors: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    source = tensors["source_embedding.weight_VE"]
    target = tensors.get("target_embedding.weight_VE", source)
    if tie in ("all", "inputs"):
        yield "model.shared.weight", source
    elif kind != "marian":
        source = target = source + target  # each has zeros in the rows of the other
        yield "model.shared.weight", source
    if tie != "all":
        yield "model.encoder.embed_tokens.weight", source
        yield "model.decoder.embed_tokens.weight", target
    if tie in ("inputs", "none"):
        yield "lm_head.weight", tensors["output.weight_VD"]
    if kind != "m2m_100":
        yield "final_logits_bias", tensors["output.bias_V"][None]


def _position_table(kind: str, stack: Any, own: Mapping[str, Tensor], count: int) -> Tensor | None:
    """The table in the file; None: the class makes it itself."""
    if kind == "m2m_100":
        return None
    if stack.positions == "learned":
        table_PD = own["positions.weight_PD"][:count]
    else:
        table_PD = sinusoids(count, stack.hidden, layout=stack.sinusoids, first=stack.first_position).float()
    if kind in ("bart", "mbart"):
        return torch.cat([table_PD.new_zeros(SKIPPED_POSITIONS, table_PD.shape[1]), table_PD])
    return table_PD


def _stack(side: str, own: Mapping[str, Tensor], stack: Any) -> Iterator[tuple[str, Tensor]]:
    """The layers of one side, and its norms."""
    for part in ("weight", "bias"):
        if stack.embedding_norm:
            yield f"layernorm_embedding.{part}", own[f"embedding_norm.{part}"]
        if stack.norm_placement == "pre":
            yield f"layer_norm.{part}", own[f"final_norm.{part}"]
    layers = [f"layers.{number}." for number in range(stack.layers)]
    for name, parts in write_layers(side, own, layers, FAIRSEQ):
        yield from ((f"{name}.{part}", tensor) for part, tensor in parts.items())
