"""Attention over ragged batches of short rows on a CPU, with its backward pass written out.

Equal to the padded path of `weft.attention.ragged_attention.RaggedAttention.attend`;
tests/kernels/cpu/test_short_attention.py.

    P = softmax(Q Kᵀ / √d + mask)       O = P V
    dV = Pᵀ dO      dS = P ⊙ (dO Vᵀ − Σ_j P_j (dO Vᵀ)_j)       dQ = dS K / √d      dK = dSᵀ Q / √d

For sentences, the attention of PyTorch spends most of its time beside its products: this takes half as long. One
indexed copy pads the heads of all tokens and orders them by row and head, as the products need them; one more returns.
P is kept for the backward pass, so that rows must be short. First-order gradients only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from weft.kernels.adjacent_heads import are_adjacent
from weft.ragged import Layout

LONGEST = 256
"""The longest rows."""


def has_short_attention(queries_NHD: Tensor, keys_NHD: Tensor, *, queries: Layout, keys: Layout) -> bool:
    """Whether `ShortAttention` is for such a batch: in training, in single precision or better."""
    if queries_NHD.device.type != "cpu" or queries_NHD.dtype not in (torch.float32, torch.float64):
        return False
    if type(queries) is not Layout or type(keys) is not Layout:  # a `FixedLayout` has no lengths on the CPU
        return False
    is_trained = torch.is_grad_enabled() and queries_NHD.requires_grad and not torch.compiler.is_compiling()
    is_short = max(queries.longest, keys.longest) <= LONGEST and min(queries.total, keys.total) > 0
    return is_trained and is_short and queries_NHD.shape[1:] == keys_NHD.shape[1:]


class ShortAttention:
    """The attention of every query to the keys of its row, for all layers of one batch."""

    def __init__(self, queries: Layout, keys: Layout, mask: Tensor | None) -> None:
        """``mask``: added to the scores, (1 or B, 1, T, S)."""
        self.queries = queries
        self.keys = keys
        self.mask = mask
        attends_BT = torch.arange(queries.longest) < (queries.lengths * (keys.lengths > 0))[:, None]
        self.attends_B1T1 = None if bool(attends_BT.all()) else attends_BT[:, None, :, None]
        """Where there is a query and something to attend to; None: everywhere."""
        self._indices: dict[tuple[bool, int, int], tuple[Tensor, Tensor]] = {}

    def attend(self, queries_NHD: Tensor, keys_NHD: Tensor, values_NHD: Tensor) -> Tensor:
        """The outputs (N, H, D)."""
        outputs_NHD: Tensor = _ShortAttention.apply(self, queries_NHD, keys_NHD, values_NHD)
        return outputs_NHD

    def pad(self, parts_NHD: Sequence[Tensor], *, of_keys: bool = False) -> Tensor:
        """(G, B·H, T, D) for G parts of the same tokens, whose heads are adjacent."""
        layout = self.keys if of_keys else self.queries
        count, heads, width = parts_NHD[0].shape
        groups = len(parts_NHD)
        if groups == 1:
            flat_ND = parts_NHD[0].contiguous().view(-1, width)
        else:
            first = parts_NHD[0]
            flat_ND = first.as_strided((count * groups * heads, width), (width, 1), first.storage_offset())
        gather, _ = self._head_indices(of_keys, groups, heads)
        return flat_ND.index_select(0, gather).view(groups, layout.rows * heads, layout.longest, width)

    def unpad(self, padded_GXTD: Tensor, heads: int, *, of_keys: bool = False) -> tuple[Tensor, ...]:
        """The inverse of `pad`: adjacent parts."""
        layout = self.keys if of_keys else self.queries
        groups, width = len(padded_GXTD), padded_GXTD.shape[-1]
        _, scatter = self._head_indices(of_keys, groups, heads)
        flat_ND = padded_GXTD.view(-1, width).index_select(0, scatter)
        return flat_ND.view(layout.total, groups * heads, width).split(heads, 1)

    def _head_indices(self, of_keys: bool, groups: int, heads: int) -> tuple[Tensor, Tensor]:
        """Of every padded head its index among the heads of all tokens (of padding: 0), and the inverse."""
        key = (of_keys, groups, heads)
        if key not in self._indices:
            layout = self.keys if of_keys else self.queries
            positions_T = torch.arange(layout.longest)
            tokens_BT = layout.offsets[:-1, None] + positions_T
            tokens_BT = torch.where(positions_T < layout.lengths[:, None], tokens_BT, 0)
            heads_GH = torch.arange(groups * heads).view(groups, 1, heads, 1)
            gather = (tokens_BT[:, None] * (groups * heads) + heads_GH).flatten()
            rows_G = torch.arange(groups)[:, None] * layout.rows
            rows_NGH = (layout.row_ids[:, None, None] + rows_G) * heads + torch.arange(heads)
            scatter = (rows_NGH * layout.longest + layout.cpu_positions[:, None, None]).flatten()
            self._indices[key] = gather, scatter
        return self._indices[key]


class _ShortAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, batch: ShortAttention, queries_NHD: Tensor, keys_NHD: Tensor, values_NHD: Tensor) -> Tensor:
        heads, width = queries_NHD.shape[1:]
        ctx.batch, ctx.heads = batch, heads
        ctx.are_joined = batch.queries is batch.keys and are_adjacent((queries_NHD, keys_NHD, values_NHD))
        if ctx.are_joined:
            joined = batch.pad((queries_NHD, keys_NHD, values_NHD))
            queries_XTD, keys_XSD, values_XSD = joined.unbind()
        else:
            [queries_XTD] = batch.pad((queries_NHD,))
            if are_adjacent((keys_NHD, values_NHD)):
                keys_XSD, values_XSD = batch.pad((keys_NHD, values_NHD), of_keys=True).unbind()
            else:
                [keys_XSD], [values_XSD] = (batch.pad((part,), of_keys=True) for part in (keys_NHD, values_NHD))
        weights_XTS = queries_XTD.new_empty(len(queries_XTD), queries_XTD.shape[1], keys_XSD.shape[1])
        torch.baddbmm(
            weights_XTS, queries_XTD, keys_XSD.transpose(1, 2), beta=0, alpha=1 / math.sqrt(width), out=weights_XTS
        )
        weights_BHTS = weights_XTS.unflatten(0, (-1, heads))
        if batch.mask is not None:
            weights_BHTS += batch.mask
        torch.softmax(weights_XTS, -1, out=weights_XTS)
        if batch.attends_B1T1 is not None:
            weights_BHTS *= batch.attends_B1T1  # padding changes no gradient
        ctx.save_for_backward(queries_XTD, keys_XSD, values_XSD, weights_XTS)
        [outputs_NHD] = batch.unpad(torch.bmm(weights_XTS, values_XSD)[None], heads)
        return outputs_NHD

    @staticmethod
    def backward(ctx: Any, outputs_grad_NHD: Tensor) -> tuple[None, Tensor, Tensor, Tensor]:
        queries_XTD, keys_XSD, values_XSD, weights_XTS = ctx.saved_tensors
        batch, heads, width = ctx.batch, ctx.heads, queries_XTD.shape[-1]
        [outputs_grad_XTD] = batch.pad((outputs_grad_NHD,))
        weights_grad_XTS = torch.bmm(outputs_grad_XTD, values_XSD.transpose(1, 2))
        scores_grad_XTS = torch.ops.aten._softmax_backward_data(weights_grad_XTS, weights_XTS, -1, weights_XTS.dtype)
        queries_grad_GXTD = queries_XTD.new_empty(3 if ctx.are_joined else 1, *queries_XTD.shape)
        keys_grad_GXSD = queries_grad_GXTD[1:] if ctx.are_joined else keys_XSD.new_empty(2, *keys_XSD.shape)
        scale, of_queries = 1 / math.sqrt(width), queries_grad_GXTD[0]
        torch.baddbmm(of_queries, scores_grad_XTS, keys_XSD, beta=0, alpha=scale, out=of_queries)
        of_keys, of_values = keys_grad_GXSD.unbind()
        torch.baddbmm(of_keys, scores_grad_XTS.transpose(1, 2), queries_XTD, beta=0, alpha=scale, out=of_keys)
        torch.bmm(weights_XTS.transpose(1, 2), outputs_grad_XTD, out=of_values)
        if ctx.are_joined:
            of_all = batch.unpad(queries_grad_GXTD, heads)
            return None, of_all[0], of_all[1], of_all[2]
        [of_queries] = batch.unpad(queries_grad_GXTD, heads)
        of_keys, of_values = batch.unpad(keys_grad_GXSD, heads, of_keys=True)
        return None, of_queries, of_keys, of_values
