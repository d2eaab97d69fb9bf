"""The one ragged attention primitive: who may look at whom, and what they get.

    out_i = Σ_j α_ij v_j,   α_i = softmax_j(q_i·k_j / √d + b_ij)      Vaswani et al. 2017, eq. 1, in every head

Queries, keys and values are laid end to end (N, H, D). On CUDA in half precision the work is one kernel for rows of
unequal length (short_attention.py, or PyTorch's own); elsewhere, or where a bias, dropout or the weights themselves are
wanted, the rows are laid out as a grid inside, and nothing of that grid leaves this file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn import functional

from weft.ragged import Layout, Ragged

AttentionRecorder = Callable[[str, Tensor], None]
"""Told of every attention: its kind ("encoder", "decoder", "cross") and its weights (B, H, T, S)."""


class AttentionRecord(NamedTuple):
    """The weights of all heads of one attention of a model."""

    kind: str
    """"encoder" (self-attention over the source), "decoder" (over the target's history), "cross" (over the source) or
    "history" (of a recurrent language model over its previous states)."""
    layer: int
    """From 0."""
    weights_BHTS: Tensor


def recorder_for(seen: list[AttentionRecord] | None, layer: int) -> AttentionRecorder | None:
    """A watch that writes down what it is told."""
    return None if seen is None else lambda kind, weights: seen.append(AttentionRecord(kind, layer, weights))


class AttentionPattern(Protocol):
    """Who may look at whom in one attention."""

    def attend(
        self,
        queries_NHD: Tensor,
        keys_NHD: Tensor,
        values_NHD: Tensor,
        *,
        dropout: float = 0.0,
        watch: AttentionRecorder | None = None,
    ) -> Tensor: ...


class RaggedAttention:
    """Every query over the items of its row: all of them, or (``causal``) those up to its own place.

    Where a row has fewer queries than items, they are the last of them: query T stands at item S.
    """

    def __init__(
        self, kind: str, queries: Layout, items: Layout, *, causal: bool = False, bias: Tensor | None = None
    ) -> None:
        """``bias``: added to the scores, (1 or B, H, T, S)."""
        self.kind = kind
        self.queries = queries
        self.items = items
        self.causal = causal
        self.bias = bias

    @cached_property
    def _hidden_BTS(self) -> Tensor:
        """True where a query may not look. A row without items hides nothing: it has no query whose answer counts."""
        device = self.queries.device
        items_S = torch.arange(self.items.longest, device=device)
        counts_B = self.items.device_lengths.clamp(min=1)
        hidden_BTS = (items_S >= counts_B[:, None])[:, None]
        if self.causal:
            ahead_B = counts_B - self.queries.device_lengths.clamp(min=1)
            places_BT = torch.arange(self.queries.longest, device=device) + ahead_B[:, None]
            hidden_BTS = hidden_BTS | (items_S > places_BT[:, :, None])
        return hidden_BTS

    def _mask(self, dtype: torch.dtype) -> Tensor:
        """What is added to the scores, (1 or B, 1 or H, T, S)."""
        hidden = self._hidden_BTS[:, None]
        if self.bias is None:
            return torch.zeros_like(hidden, dtype=dtype).masked_fill_(hidden, float("-inf"))
        return self.bias.to(dtype).masked_fill(hidden, float("-inf"))

    @cached_property
    def _masks(self) -> dict[torch.dtype, Tensor]:
        return {}

    def attend(
        self,
        queries_NHD: Tensor,
        keys_NHD: Tensor,
        values_NHD: Tensor,
        *,
        dropout: float = 0.0,
        watch: AttentionRecorder | None = None,
    ) -> Tensor:
        """The answers (N, H, D); keys and values may have fewer heads, each then shared by several of the queries."""
        half = queries_NHD.dtype in (torch.bfloat16, torch.float16)
        if queries_NHD.is_cuda and half and self.bias is None and dropout == 0.0 and watch is None:
            return _unequal_rows(
                queries_NHD, keys_NHD, values_NHD, queries=self.queries, items=self.items, causal=self.causal
            )
        groups = queries_NHD.shape[1] // keys_NHD.shape[1]
        if groups > 1:
            keys_NHD, values_NHD = (part.repeat_interleave(groups, 1) for part in (keys_NHD, values_NHD))
        queries = Ragged(queries_NHD, self.queries)
        queries_BHTD = queries.to_padded().transpose(1, 2)
        keys_BHSD = Ragged(keys_NHD, self.items).to_padded().transpose(1, 2)
        values_BHSD = Ragged(values_NHD, self.items).to_padded().transpose(1, 2)
        backwards = self.causal and self.queries is self.items and self.bias is None
        mask = None
        if not backwards and not (self.items.is_rectangular and self.bias is None and not self.causal):
            mask = self._masks.get(queries_NHD.dtype)
            if mask is None:
                mask = self._masks[queries_NHD.dtype] = self._mask(queries_NHD.dtype)
        if watch is None:
            answers_BHTD = functional.scaled_dot_product_attention(
                queries_BHTD, keys_BHSD, values_BHSD, attn_mask=mask, dropout_p=dropout, is_causal=backwards
            )
        else:
            scores_BHTS = queries_BHTD @ keys_BHSD.transpose(2, 3) / math.sqrt(queries_BHTD.shape[-1])
            weights_BHTS = torch.softmax(scores_BHTS + self._mask(queries_NHD.dtype), -1)
            watch(self.kind, weights_BHTS)
            answers_BHTD = functional.dropout(weights_BHTS, dropout) @ values_BHSD
        return queries.from_padded(answers_BHTD.transpose(1, 2)).values


class PrefixAttention:
    """Sources and targets in one stream, sources first: a source sees itself both ways, a target looks back over its
    source and itself   Dong et al. 2019 (UniLM); Raffel et al. 2020, figure 4."""

    def __init__(
        self, source: Layout, target: Layout, *, source_bias: Tensor | None = None, target_bias: Tensor | None = None
    ) -> None:
        both = Layout(source.lengths + target.lengths, source.device)
        self.source = RaggedAttention("encoder", source, source, bias=source_bias)
        self.target = RaggedAttention("decoder", target, both, causal=True, bias=target_bias)
        self.split = source.total

    @cached_property
    def _join(self) -> Tensor:
        """(N,) places of the stream in the order source 1, target 1, source 2, target 2, …"""
        source, target, both = self.source.queries, self.target.queries, self.target.items
        row, time = both.row_ids.cpu(), both.positions.cpu()
        after = time - source.lengths[row]
        in_source, in_target = source.offsets[row] + time, self.split + target.offsets[row] + after
        return torch.where(after < 0, in_source, in_target).to(source.device)

    def attend(
        self,
        queries_NHD: Tensor,
        keys_NHD: Tensor,
        values_NHD: Tensor,
        *,
        dropout: float = 0.0,
        watch: AttentionRecorder | None = None,
    ) -> Tensor:
        whole = (queries_NHD, keys_NHD, values_NHD)
        parts: list[Tensor] = []
        if self.split:
            parts.append(self.source.attend(*(part[: self.split] for part in whole), dropout=dropout, watch=watch))
        keys_NHD, values_NHD = keys_NHD[self._join], values_NHD[self._join]
        targets_NHD = queries_NHD[self.split :]
        parts.append(self.target.attend(targets_NHD, keys_NHD, values_NHD, dropout=dropout, watch=watch))
        return torch.cat(parts)


class StepKeysValues(NamedTuple):
    """What one step may look at: keys and values (B or R, H, S, D), and what is added to the scores."""

    keys_BHSD: Tensor
    values_BHSD: Tensor
    bias: Tensor | None = None
    """Anything that broadcasts to (B or R, H, 1, S)."""


def step_attention(queries_RHD: Tensor, parts: Sequence[StepKeysValues]) -> tuple[Tensor, Tensor]:
    """One query a row over all the parts together: answers (R, H, D) and weights (R, H, S), the parts side by side.

    A part has a row for each row of the search or one for each source; rows of one source stand side by side.
    """
    rows, heads, width = queries_RHD.shape
    scores = []
    for keys_BHSD, _, bias in parts:
        sources, shared, items = keys_BHSD.shape[:3]
        asked = _by_source(queries_RHD, sources, shared)
        scores_BHKS = asked @ keys_BHSD.transpose(2, 3) / math.sqrt(width)
        scores_RHS = _by_row(scores_BHKS, rows, heads)
        if bias is not None:
            scores_BKHS = scores_RHS.view(sources, rows // sources, heads, items) + bias.transpose(1, 2)
            scores_RHS = scores_BKHS.view(rows, heads, items)
        scores.append(scores_RHS)
    weights_RHS = torch.softmax(torch.cat(scores, -1) if len(scores) > 1 else scores[0], -1)
    answers_RHD = torch.zeros_like(queries_RHD)
    for (_, values_BHSD, _), share_RHS in zip(
        parts, weights_RHS.split([part.keys_BHSD.shape[2] for part in parts], -1), strict=True
    ):
        sources, shared = values_BHSD.shape[:2]
        answers_BHKD = _by_source(share_RHS, sources, shared) @ values_BHSD
        answers_RHD = answers_RHD + _by_row(answers_BHKD, rows, heads)
    return answers_RHD, weights_RHS


def step_self_attention(
    all_RHD: Tensor,
    heads: int,
    keys_RHTD: Tensor,
    values_RHTD: Tensor,
    table_RT: Tensor,
    time_1: Tensor,
    bias_HT: Tensor | None,
    *,
    notes_row: bool,
) -> Tensor:
    """One query a row over items 0 … ``time_1`` of its past; item t of row r lies in row ``table_RT[r, t]``.

    ``all_RHD``: the row's queries, keys and values. Its keys and values are written at ``time_1``; where ``notes_row``
    (once for all layers) the table is told that they are the row's own.
    """
    if all_RHD.is_cuda:
        from weft.kernels.triton.step_attention import WIDTHS, cached_attention

        if all_RHD.shape[-1] in WIDTHS:
            return cached_attention(
                all_RHD, heads, keys_RHTD, values_RHTD, table_RT, time_1, bias_HT, notes_row=notes_row
            )
    shared = keys_RHTD.shape[1]
    queries_RHD, own_keys, own_values = all_RHD.split([heads, shared, shared], 1)
    keys_RHTD.index_copy_(2, time_1, own_keys[:, :, None])
    values_RHTD.index_copy_(2, time_1, own_values[:, :, None])
    if notes_row:
        table_RT.index_copy_(1, time_1, torch.arange(len(table_RT), device=table_RT.device)[:, None])
    places_T = torch.arange(table_RT.shape[1], device=table_RT.device)
    hidden_T = queries_RHD.new_zeros(len(places_T)).masked_fill(places_T > time_1, float("-inf"))
    bias = hidden_T if bias_HT is None else bias_HT[:, None].to(hidden_T.dtype) + hidden_T
    keys, values = (part.transpose(1, 2)[table_RT, places_T].transpose(1, 2) for part in (keys_RHTD, values_RHTD))
    return step_attention(queries_RHD, [StepKeysValues(keys, values, bias.view(1, -1, 1, len(places_T)))])[0]


def step_cross_attention(queries_RHD: Tensor, items: StepKeysValues) -> Tensor:
    """The answers of `step_attention` over a source, without the weights."""
    if queries_RHD.is_cuda and items.bias is not None:
        from weft.kernels.triton.step_attention import WIDTHS, source_attention

        if queries_RHD.shape[-1] in WIDTHS and items.bias.shape[1:3] == (1, 1):
            return source_attention(queries_RHD, items.keys_BHSD, items.values_BHSD, items.bias[:, 0, 0])
    return step_attention(queries_RHD, [items])[0]


def _by_source(values_RHD: Tensor, sources: int, shared: int) -> Tensor:
    """(R, H, D) -> (B, shared heads, rows of a source × heads that share, D)."""
    rows, heads, width = values_RHD.shape
    grouped = values_RHD.view(sources, rows // sources, shared, heads // shared, width)
    return grouped.transpose(1, 2).reshape(sources, shared, rows // sources * (heads // shared), width)


def _by_row(values_BHKD: Tensor, rows: int, heads: int) -> Tensor:
    """The inverse of `_by_source`."""
    sources, shared, _, width = values_BHKD.shape
    grouped = values_BHKD.view(sources, shared, rows // sources, heads // shared, width)
    return grouped.transpose(1, 2).reshape(rows, heads, width)


def _unequal_rows(
    queries_NHD: Tensor, keys_NHD: Tensor, values_NHD: Tensor, *, queries: Layout, items: Layout, causal: bool
) -> Tensor:
    """Our kernel for rows that are short, PyTorch's (flash attention; Dao 2023) for those that are not."""
    from torch.nn.attention.varlen import varlen_attn

    from weft.kernels.triton.short_attention import LONGEST, WIDTHS, forward_only, short_attention

    if max(queries.longest, items.longest) <= LONGEST and queries_NHD.shape[-1] in WIDTHS:
        attend = short_attention if torch.is_grad_enabled() else forward_only
        return attend(
            queries_NHD,
            keys_NHD,
            values_NHD,
            queries.device_offsets,
            items.device_offsets,
            queries.longest,
            items.longest,
            causal,
        )

    groups = queries_NHD.shape[1] // keys_NHD.shape[1]
    if groups > 1:
        keys_NHD, values_NHD = (part.repeat_interleave(groups, 1) for part in (keys_NHD, values_NHD))
    if queries is not items:
        # Where a row has no queries, the kernel leaves the gradients of its keys as they lie in memory; where it has
        # no keys, those of its queries. Rows that fill up a batch may have one side alone.
        asked_N11 = (queries.device_lengths[items.row_ids] > 0)[:, None, None]
        keys_NHD, values_NHD = (torch.where(asked_N11, part, 0.0) for part in (keys_NHD, values_NHD))
        answered_N11 = (items.device_lengths[queries.row_ids] > 0)[:, None, None]
        queries_NHD = torch.where(answered_N11, queries_NHD, 0.0)
    answers_NHD = varlen_attn(
        queries_NHD,
        keys_NHD,
        values_NHD,
        queries.device_offsets,
        items.device_offsets,
        queries.longest,
        items.longest,
        window_size=(-1, 0) if causal else (-1, -1),
    )
    assert isinstance(answers_NHD, Tensor)
    return answers_NHD if queries is items else torch.where(answered_N11, answers_NHD, 0.0)
