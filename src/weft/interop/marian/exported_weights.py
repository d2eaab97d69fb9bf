"""The weights of a Transformer under the names of Marian: the inverse of conversion.py.

Where positions are not Marian's own sinusoids, they are written as trained ones, ``Wpos``. With those Marian does not
multiply embeddings by √d, so they are multiplied here, and a tied output projection becomes a separate matrix.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch

from weft.interop.layer_names import write_layers
from weft.interop.marian.conversion import NAMES
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
    norms = [("embedding_norm", f"{side}_emb", "_pre")] if stack.embedding_norm else []
    norms += [("final_norm", f"{side}_top", "")] if stack.norm_placement == "pre" else []
    for module, name, ending in norms:
        parts = {part: own[f"{module}.{part}"] for part in ("weight", "bias") if f"{module}.{part}" in own}
        yield from _norm(name, parts, ending)
    layers = [f"{side}_l{number + 1}" for number in range(stack.layers)]
    for name, parts in write_layers(side, own, layers, NAMES):
        if "{}" in name:  # a linear map; Marian multiplies x W
            yield name.format("W"), parts["weight"].T
            yield name.format("b"), parts["bias"]
        else:
            yield from _norm(name, parts, suffix)


def _norm(name: str, parts: Mapping[str, Tensor], suffix: str) -> Iterator[tuple[str, Tensor]]:
    kind = "ln" if "bias" in parts else "rms"
    for part, tensor in parts.items():
        yield f"{name}_{kind}_{'scale' if part == 'weight' else 'bias'}{suffix}", tensor


def same_positions(settings: ModelSettings, tensors: Mapping[str, Tensor]) -> bool:
    """Whether encoder and decoder add the same at every position, as they must in Marian."""
    tables = [position_table(getattr(settings, side), tensors, side) for side in ("encoder", "decoder")]
    return tables[0].shape == tables[1].shape and bool(torch.equal(*tables))
