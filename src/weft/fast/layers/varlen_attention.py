"""Attention over ragged batches on CUDA without padding, in half precision.

Equal to `weft.attention.ragged_attention.RaggedAttention.attend` for softmax without bias, dropout and returned
weights; tests/fast/layers/test_varlen_attention.py.
"""

from __future__ import annotations

import torch
from torch import Tensor

from weft.attention.normalizers import Normalizer, softmax
from weft.attention.ragged_attention import AttentionRecorder, RaggedAttention, repeat_heads
from weft.ragged import Layout

HEAD_WIDTHS = (16, 32, 64, 128)
"""Head widths for which there is a kernel for short rows."""


WIDEST_HEAD = 256


def applies(
    self: RaggedAttention,
    queries_NHD: Tensor,
    keys_NHD: Tensor,
    values_NHD: Tensor,
    *,
    dropout: float = 0.0,
    normalize: Normalizer = softmax,
    recorder: AttentionRecorder | None = None,
) -> bool:
    """Whether `attend` can be used."""
    is_softmax = normalize is softmax and recorder is None
    return is_softmax and self.bias is None and dropout == 0.0 and has_varlen_kernel(queries_NHD)


def attend(
    self: RaggedAttention,
    queries_NHD: Tensor,
    keys_NHD: Tensor,
    values_NHD: Tensor,
    *,
    dropout: float = 0.0,
    normalize: Normalizer = softmax,
    recorder: AttentionRecorder | None = None,
) -> Tensor:
    """The outputs of `RaggedAttention.attend`."""
    layouts = {"queries": self.queries, "keys": self.keys}
    return varlen_attention(queries_NHD, keys_NHD, values_NHD, **layouts, causal=self.causal)


def has_varlen_kernel(queries_NHD: Tensor) -> bool:
    """Whether `varlen_attention` can be used for such queries: flash attention needs heads of certain widths."""
    width = queries_NHD.shape[-1]
    has_width = width % 8 == 0 and width <= WIDEST_HEAD
    return has_width and queries_NHD.is_cuda and queries_NHD.dtype in (torch.bfloat16, torch.float16)


def varlen_attention(
    queries_NHD: Tensor, keys_NHD: Tensor, values_NHD: Tensor, *, queries: Layout, keys: Layout, causal: bool
) -> Tensor:
    """Every query over the keys of its row: our kernel for short rows, PyTorch's (flash attention; Dao 2023) for long.

    Outputs of rows without keys are zero.
    """
    from weft.fast.triton.short_attention import LONGEST, forward_only, trained_attention

    lengths = (queries.device_offsets, keys.device_offsets, queries.longest, keys.longest)
    if max(queries.longest, keys.longest) <= LONGEST and queries_NHD.shape[-1] in HEAD_WIDTHS:
        attend = trained_attention if torch.is_grad_enabled() else forward_only
        return attend(queries_NHD, keys_NHD, values_NHD, *lengths, causal)

    from torch.nn.attention.varlen import varlen_attn

    keys_NHD, values_NHD = (repeat_heads(part, queries_NHD) for part in (keys_NHD, values_NHD))
    window = (-1, 0) if causal else (-1, -1)
    if queries is keys:
        outputs_NHD = varlen_attn(queries_NHD, keys_NHD, values_NHD, *lengths, window_size=window)
        assert isinstance(outputs_NHD, Tensor)
        return outputs_NHD
    # Where a row has no queries, the kernel leaves the gradients of its keys uninitialized; where it has no keys, those
    # of its queries. Rows that fill up a batch may have one side alone.
    has_queries_N11 = (queries.device_lengths[keys.row_ids] > 0)[:, None, None]
    has_keys_N11 = (keys.device_lengths[queries.row_ids] > 0)[:, None, None]
    outputs_NHD = varlen_attn(
        torch.where(has_keys_N11, queries_NHD, 0.0),
        torch.where(has_queries_N11, keys_NHD, 0.0),
        torch.where(has_queries_N11, values_NHD, 0.0),
        *lengths,
        window_size=window,
    )
    assert isinstance(outputs_NHD, Tensor)
    return torch.where(has_keys_N11, outputs_NHD, 0.0)
