"""Multi-head attention: several attentions in parallel, each over its own projections of the states.

    head_h = Attention(X W_h^Q, Y W_h^K, Y W_h^V);   out = [head_1; …; head_H] W^O      Vaswani et al. 2017, 3.2.2

With fewer key–value heads than heads, neighboring heads share one (Ainslie et al. 2023).
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor, nn

from weft.attention.initialization import initialize, initialize_projections
from weft.attention.normalizers import Normalizer, softmax
from weft.attention.ragged_attention import AttentionPattern, AttentionRecorder
from weft.attention.relative_positions import Rotation
from weft.attention.step_attention import KeysValues, StepKeysValues, append, step_attention


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
