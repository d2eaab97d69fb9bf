"""Attention of one search step: one query per row, the rows of one source side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from weft.attention.normalizers import Normalizer, softmax


class KeysValues(NamedTuple):
    """Keys and values: (N, H, D) each end to end, or (R, H, T, D) each of the history of R hypotheses."""

    keys: Tensor
    values: Tensor


def append(history: KeysValues, own: KeysValues) -> KeysValues:
    """The history (R, H, T, D) with the next token (R, H, D) of every hypothesis."""
    return KeysValues(*(torch.cat([part, new[:, :, None]], 2) for part, new in zip(history, own, strict=True)))


class StepKeysValues(NamedTuple):
    """Keys and values (B or R, H, S, D) of a search step, and what is added to the scores."""

    keys_BHSD: Tensor
    values_BHSD: Tensor
    bias: Tensor | None = None
    """Anything that broadcasts to (B or R, H, 1, S)."""


def step_attention(
    queries_RHD: Tensor, parts: Sequence[StepKeysValues], normalize: Normalizer = softmax
) -> tuple[Tensor, Tensor]:
    """One query per row over all parts together: outputs (R, H, D) and weights (R, H, S), the parts concatenated.

    A part has either one row per hypothesis or one per source.
    """
    rows, heads, width = queries_RHD.shape
    scores = []
    for keys_BHSD, _, bias in parts:
        sources, kv_heads, length = keys_BHSD.shape[:3]
        scores_BHKS = _group_by_source(queries_RHD, sources, kv_heads) @ keys_BHSD.transpose(2, 3) / math.sqrt(width)
        scores_RHS = _ungroup(scores_BHKS, rows, heads)
        if bias is not None:
            scores_BKHS = scores_RHS.view(sources, rows // sources, heads, length) + bias.transpose(1, 2)
            scores_RHS = scores_BKHS.view(rows, heads, length)
        scores.append(scores_RHS)
    weights_RHS = normalize(torch.cat(scores, -1) if len(scores) > 1 else scores[0])
    outputs = []
    lengths = [part.keys_BHSD.shape[2] for part in parts]
    for (_, values_BHSD, _), part_RHS in zip(parts, weights_RHS.split(lengths, -1), strict=True):
        sources, kv_heads = values_BHSD.shape[:2]
        outputs_BHKD = _group_by_source(part_RHS, sources, kv_heads) @ values_BHSD
        outputs.append(_ungroup(outputs_BHKD, rows, heads))
    return sum(outputs[1:], outputs[0]), weights_RHS


def _group_by_source(values_RHD: Tensor, sources: int, kv_heads: int) -> Tensor:
    """(R, H, D) -> (B, key–value heads, rows per source × heads per key–value head, D)."""
    rows, heads, width = values_RHD.shape
    grouped = values_RHD.view(sources, rows // sources, kv_heads, heads // kv_heads, width)
    return grouped.transpose(1, 2).reshape(sources, kv_heads, rows // sources * (heads // kv_heads), width)


def _ungroup(values_BHKD: Tensor, rows: int, heads: int) -> Tensor:
    """The inverse of `_group_by_source`."""
    sources, kv_heads, _, width = values_BHKD.shape
    grouped = values_BHKD.view(sources, kv_heads, rows // sources, heads // kv_heads, width)
    return grouped.transpose(1, 2).reshape(rows, heads, width)
