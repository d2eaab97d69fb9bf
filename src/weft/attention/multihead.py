"""Multi-head attention: several attentions in parallel, each over its own projections of the states.

    head_h = Attention(X W_h^Q, Y W_h^K, Y W_h^V);   out = [head_1; …; head_H] W^O      Vaswani et al. 2017, 3.2.2

With fewer key–value heads than heads, neighboring heads share one (Ainslie et al. 2023).

`forward` attends with all tokens of a batch, by an `AttentionPattern`; `step` with one token of every row of a search,
by `step_attention`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from weft.attention.initialization import initialize, initialize_projections
from weft.attention.normalizers import Normalizer, softmax
from weft.attention.ragged_attention import AttentionPattern, AttentionRecorder
from weft.attention.relative_positions import Rotation


class Heads(NamedTuple):
    """The number of heads, and their width."""

    queries: int
    keys_values: int
    width: int

    @property
    def query_width(self) -> int:
        """Total width of the queries of all heads."""
        return self.queries * self.width

    @property
    def key_width(self) -> int:
        """Total width of the keys of all heads, and of their values."""
        return self.keys_values * self.width


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


class MultiHeadAttention(nn.Module):
    """The common base of self-attention and cross-attention."""

    output: nn.Linear

    def __init__(self, heads: Heads, *, dropout: float = 0.0, normalize: Normalizer = softmax) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_width = heads
        self.dropout = dropout
        self.normalize = normalize

    def split_heads(self, projected_ND: Tensor) -> Tensor:
        """(N, heads × D) -> (N, heads, D)."""
        return projected_ND.unflatten(-1, (-1, self.head_width))

    def _attend(
        self, queries_NHD: Tensor, source: KeysValues, pattern: AttentionPattern, recorder: AttentionRecorder | None
    ) -> Tensor:
        dropout = self.dropout if self.training else 0.0
        outputs_NHD = pattern.attend(
            queries_NHD, source.keys, source.values, dropout=dropout, normalize=self.normalize, recorder=recorder
        )
        attended_ND: Tensor = self.output(outputs_NHD.flatten(1))
        return attended_ND


class SelfAttention(MultiHeadAttention):
    """Attention of a sequence to itself, or of a search step to its history."""

    def __init__(self, width: int, heads: Heads, *, dropout: float = 0.0, normalize: Normalizer = softmax) -> None:
        super().__init__(heads, dropout=dropout, normalize=normalize)
        of_queries, of_keys = heads.query_width, heads.key_width
        self.query_key_value = nn.Linear(width, of_queries + 2 * of_keys)
        self.output = nn.Linear(of_queries, width)
        initialize(self)

    def reset_parameters(self) -> None:
        of_keys = self.kv_heads * self.head_width
        initialize_projections(self.query_key_value, [self.heads * self.head_width, of_keys, of_keys])
        initialize_projections(self.output, [self.output.out_features])

    def forward(
        self,
        stream_ND: Tensor,
        pattern: AttentionPattern,
        rotation: Rotation | None = None,
        recorder: AttentionRecorder | None = None,
    ) -> Tensor:
        """Every token attends to the tokens that the pattern allows."""
        queries_NHD, own = self._project(stream_ND, rotation)
        return self._attend(queries_NHD, own, pattern, recorder)

    def keys_values(self, stream_ND: Tensor, rotation: Rotation | None) -> KeysValues:
        """Keys and values (N, H, D) of the stream."""
        return self._project(stream_ND, rotation)[1]

    def step(
        self,
        stream_RD: Tensor,
        history: KeysValues,
        rotation: Rotation | None,
        bias: Tensor | None,
        prefix: StepKeysValues | None,
    ) -> tuple[Tensor, KeysValues, Tensor]:
        """One token per row over a prefix, its history and itself: output, longer history, weights (R, H, S)."""
        queries_RHD, own = self._project(stream_RD, rotation)
        longer = append(history, own)
        parts = [StepKeysValues(longer.keys, longer.values, bias)]
        parts = parts if prefix is None else [prefix, *parts]
        outputs_RHD, weights_RHS = step_attention(queries_RHD, parts, self.normalize)
        return self.output(outputs_RHD.flatten(1)), longer, weights_RHS

    def _project(self, stream_ND: Tensor, rotation: Rotation | None) -> tuple[Tensor, KeysValues]:
        projected_NHD = self.split_heads(self.query_key_value(stream_ND))
        queries_NHD, keys_NHD, values_NHD = projected_NHD.split([self.heads, self.kv_heads, self.kv_heads], -2)
        if rotation is not None:
            queries_NHD, keys_NHD = rotation.rotate(queries_NHD), rotation.rotate(keys_NHD)
        return queries_NHD, KeysValues(keys_NHD, values_NHD)


class CrossAttention(MultiHeadAttention):
    """Attention of a sequence, or of a search step, to the states of a source."""

    def __init__(
        self,
        width: int,
        source_width: int,
        heads: Heads,
        *,
        dropout: float = 0.0,
        normalize: Normalizer = softmax,
    ) -> None:
        super().__init__(heads, dropout=dropout, normalize=normalize)
        of_queries, of_keys = heads.query_width, heads.key_width
        self.query = nn.Linear(width, of_queries)
        self.key_value = nn.Linear(source_width, 2 * of_keys)
        self.output = nn.Linear(of_queries, width)
        initialize(self)

    def reset_parameters(self) -> None:
        of_keys = self.kv_heads * self.head_width
        initialize_projections(self.query, [self.query.out_features])
        initialize_projections(self.key_value, [of_keys, of_keys])
        initialize_projections(self.output, [self.output.out_features])

    def forward(
        self, stream_ND: Tensor, source_MD: Tensor, pattern: AttentionPattern, recorder: AttentionRecorder | None = None
    ) -> Tensor:
        """Every token attends to the source states of its row."""
        queries_NHD = self.split_heads(self.query(stream_ND))
        return self._attend(queries_NHD, self.keys_values(source_MD), pattern, recorder)

    def keys_values(self, source_MD: Tensor) -> KeysValues:
        """Keys and values (M, H, D) of source states."""
        return KeysValues(*self.split_heads(self.key_value(source_MD)).split(self.kv_heads, -2))

    def step(self, stream_RD: Tensor, source: StepKeysValues) -> tuple[Tensor, Tensor]:
        """One token per row over its source: the output and the weights (R, H, S)."""
        outputs_RHD, weights_RHS = step_attention(self.split_heads(self.query(stream_RD)), [source], self.normalize)
        return self.output(outputs_RHD.flatten(1)), weights_RHS


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
