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


class History(NamedTuple):
    """Keys and values (R, H, T, D) of the tokens of R hypotheses."""

    keys: Tensor
    values: Tensor
    rows_R: Tensor | None = None
    """Where those of each hypothesis are; None: in its own row."""

    def append(self, own: KeysValues) -> KeysValues:
        """With the next token (R, H, D) of every hypothesis, each in its own row."""
        return KeysValues(*(self._append(*both) for both in zip((self.keys, self.values), own, strict=True)))

    def _append(self, history_RHTD: Tensor, token_RHD: Tensor) -> Tensor:
        if self.rows_R is None:
            return torch.cat([history_RHTD, token_RHD[:, :, None]], 2)
        _, heads, length, width = history_RHTD.shape
        longer_RHTD = history_RHTD.new_empty(len(self.rows_R), heads, length + 1, width)
        torch.index_select(history_RHTD, 0, self.rows_R, out=longer_RHTD[:, :, :length])
        longer_RHTD[:, :, length] = token_RHD
        return longer_RHTD


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
    outputs_RHD = torch.zeros_like(queries_RHD)
    lengths = [part.keys_BHSD.shape[2] for part in parts]
    for (_, values_BHSD, _), part_RHS in zip(parts, weights_RHS.split(lengths, -1), strict=True):
        sources, kv_heads = values_BHSD.shape[:2]
        outputs_BHKD = _group_by_source(part_RHS, sources, kv_heads) @ values_BHSD
        outputs_RHD = outputs_RHD + _ungroup(outputs_BHKD, rows, heads)
    return outputs_RHD, weights_RHS


def step_attention_output(queries_RHD: Tensor, source: StepKeysValues, normalize: Normalizer = softmax) -> Tensor:
    """The outputs of `step_attention` over a source, without the weights: on CUDA by one kernel."""
    if queries_RHD.is_cuda and source.bias is not None and normalize is softmax:
        from weft.kernels.triton.step_attention import HEAD_WIDTHS, Source, source_attention

        if queries_RHD.shape[-1] in HEAD_WIDTHS and source.bias.shape[1:3] == (1, 1):
            return source_attention(queries_RHD, Source(*source))
    return step_attention(queries_RHD, [source], normalize)[0]


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
