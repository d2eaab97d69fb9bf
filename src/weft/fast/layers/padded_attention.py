"""Attention over padded batches by PyTorch's `scaled_dot_product_attention`, which keeps no weights.

Equal to `weft.attention.ragged_attention.RaggedAttention.attend` for softmax without returned weights, up to rounding;
tests/fast/layers/test_padded_attention.py. Needs no mask where the kernel knows it: padding comes last, so a causal
query never reaches it.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from weft.attention.normalizers import Normalizer, softmax
from weft.attention.ragged_attention import RaggedAttention, repeat_heads
from weft.attention.records import AttentionRecorder
from weft.ragged import Ragged


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
    return recorder is None and normalize is softmax


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
    queries = Ragged(queries_NHD, self.queries)
    keys, values = (Ragged(repeat_heads(part, queries_NHD), self.keys) for part in (keys_NHD, values_NHD))
    queries_BHTD, keys_BHSD, values_BHSD = (part.to_padded().transpose(1, 2) for part in (queries, keys, values))
    is_causal = self.causal and self.queries is self.keys and self.bias is None
    is_full = not self.causal and self.keys.is_rectangular and self.bias is None
    mask = None if is_causal or is_full else self.mask(queries_BHTD.dtype)
    outputs_BHTD = functional.scaled_dot_product_attention(
        queries_BHTD, keys_BHSD, values_BHSD, attn_mask=mask, dropout_p=dropout, is_causal=is_causal
    )
    return queries.from_padded(outputs_BHTD.transpose(1, 2)).values
