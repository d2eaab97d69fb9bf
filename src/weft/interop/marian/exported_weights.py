"""The weights of a Transformer under the names of Marian: the inverse of conversion.py.

Where positions are not Marian's own sinusoids, they are written as trained ones, ``Wpos``. With those Marian does not
multiply embeddings by √d, so they are multiplied here, and a tied output projection becomes a separate matrix.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch

from weft.models.positions import sinusoids

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from weft.recipe import ModelSettings

POSITIONS = 1024
"""Rows of ``Wpos`` where sinusoids have no end."""


def has_own_sinusoids(settings: ModelSettings) -> bool:
    """Whether positions are the sinusoids that Marian computes."""
    stacks: list[Any] = [settings.encoder, settings.decoder]
    return all(
        stack.positions == "sinusoidal"
        and stack.sinusoids == "tensor2tensor"
        and stack.first_position == 0
        and stack.scale_embedding
        for stack in stacks
    )


def arrays(settings: ModelSettings, tensors: Mapping[str, Tensor]) -> dict[str, np.ndarray]:
    """Arrays by their names in Marian.

    ``tensors``: weights by their names in weft, with the rows of vocabularies in the order of Marian.
    """
    named = dict(_embeddings(settings, tensors))
    if not has_own_sinusoids(settings):
        named["Wpos"] = position_table(settings.encoder, tensors, "encoder")
    for side in ("encoder", "decoder"):
        prefix = f"{side}.stack."
        own = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
        named |= dict(_stack(side, getattr(settings, side), own))
    return {
        name: (tensor[None] if tensor.dim() == 1 else tensor).float().contiguous().cpu().numpy()
        for name, tensor in named.items()
    }


def position_table(stack: Any, tensors: Mapping[str, Tensor], side: str) -> Tensor:
    """(P, D) what is added at each position."""
    if stack.positions == "learned":
        return tensors[f"{side}.stack.positions.weight_PD"]
    return sinusoids(POSITIONS, stack.hidden, layout=stack.sinusoids, first=stack.first_position).float()


def output_is_tied(settings: ModelSettings) -> bool:
    """Whether the output projection of the export is an embedding."""
    scaled = settings.decoder.scale_embedding and not has_own_sinusoids(settings)  # type: ignore[union-attr]
    return settings.tie in ("all", "target") and not scaled


def _embeddings(settings: ModelSettings, tensors: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    source = tensors["source_embedding.weight_VE"]
    target = tensors.get("target_embedding.weight_VE", source)
    decoder: Any = settings.decoder
    scaled = decoder.scale_embedding and not has_own_sinusoids(settings)
    scale = math.sqrt(settings.embedding) if scaled else 1.0
    if settings.tie in ("all", "inputs"):
        yield "Wemb", source * scale
    else:
        yield "encoder_Wemb", source * scale
        yield "decoder_Wemb", target * scale
    if not output_is_tied(settings):
        yield "decoder_ff_logit_out_Wt", tensors.get("output.weight_VD", target)
    yield "decoder_ff_logit_out_b", tensors["output.bias_V"]


def _stack(side: str, stack: Any, own: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    suffix = "_pre" if stack.norm_placement == "pre" else ""
    if stack.embedding_norm:
        yield from _norm(f"{side}_emb", own, "embedding_norm", "_pre")
    for number in range(stack.layers):
        name, layer = f"{side}_l{number + 1}", f"layers.{number}"
        yield from _linear(f"{name}_self", "qkv", own, f"{layer}.self_attention.query_key_value")
        yield from _linear(f"{name}_self", "o", own, f"{layer}.self_attention.output")
        yield from _norm(f"{name}_self_Wo", own, f"{layer}.self_attention_residual.norm", suffix)
        if side == "decoder":
            yield from _linear(f"{name}_context", "q", own, f"{layer}.cross_attention.query")
            yield from _linear(f"{name}_context", "kv", own, f"{layer}.cross_attention.key_value")
            yield from _linear(f"{name}_context", "o", own, f"{layer}.cross_attention.output")
            yield from _norm(f"{name}_context_Wo", own, f"{layer}.cross_attention_residual.norm", suffix)
        yield from _linear(f"{name}_ffn", "1", own, f"{layer}.feed_forward.linear1")
        yield from _linear(f"{name}_ffn", "2", own, f"{layer}.feed_forward.linear2")
        yield from _norm(f"{name}_ffn_ffn", own, f"{layer}.feed_forward_residual.norm", suffix)
    if stack.norm_placement == "pre":
        yield from _norm(f"{side}_top", own, "final_norm", "")


def _linear(name: str, projections: str, own: Mapping[str, Tensor], module: str) -> Iterator[tuple[str, Tensor]]:
    """One matrix for each projection, as Marian multiplies: x W."""
    count = len(projections)
    parts = zip(own[f"{module}.weight"].chunk(count), own[f"{module}.bias"].chunk(count), strict=True)
    for projection, (weight, bias) in zip(projections, parts, strict=True):
        yield f"{name}_W{projection}", weight.T
        yield f"{name}_b{projection}", bias


def _norm(name: str, own: Mapping[str, Tensor], module: str, suffix: str) -> Iterator[tuple[str, Tensor]]:
    if f"{module}.bias" not in own:
        yield f"{name}_rms_scale{suffix}", own[f"{module}.weight"]
        return
    yield f"{name}_ln_scale{suffix}", own[f"{module}.weight"]
    yield f"{name}_ln_bias{suffix}", own[f"{module}.bias"]


def same_positions(settings: ModelSettings, tensors: Mapping[str, Tensor]) -> bool:
    """Whether encoder and decoder add the same at every position, as they must in Marian."""
    tables = [position_table(getattr(settings, side), tensors, side) for side in ("encoder", "decoder")]
    return tables[0].shape == tables[1].shape and bool(torch.equal(*tables))
