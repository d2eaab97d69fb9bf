"""The attention of a recurrent decoder in a step of a search on a GPU, where its score is additive or concat.

Equal to `weft.attention.attention.Attention.forward`; tests/fast/triton/test_additive_attention.py.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from weft.attention.alignment_history import AlignmentHistory
from weft.attention.attention import Attention, ProjectedKeys
from weft.attention.normalizers import softmax
from weft.attention.scores import Additive, Concat, HiddenLayerScore

MAX_QUERIES = 16
"""The most hypotheses of a sentence: keys are read again for each."""
TYPES = (torch.float32, torch.bfloat16, torch.float16)


def is_few_queries(
    self: Attention, queries_BTD: Tensor, keys: ProjectedKeys, history: AlignmentHistory | None = None
) -> bool:
    """Whether a kernel has all that this attention does, and no gradient is needed."""
    if not queries_BTD.is_cuda or torch.is_grad_enabled() or type(self.score) not in (Additive, Concat):
        return False
    from weft.fast.triton.additive_attention import MAX_LENGTH

    is_plain = self.features is None and self.window is None and self.normalize is softmax
    is_small = queries_BTD.shape[1] <= MAX_QUERIES and 0 < keys.keys_BSD.shape[1] <= MAX_LENGTH
    is_dense = keys.keys_BSD.stride(2) == keys.values_BSD.stride(2) == keys.mask_BS.stride(1) == 1
    return is_plain and is_small and is_dense and queries_BTD.dtype in TYPES and not torch.is_autocast_enabled("cuda")


def few_queries(
    self: Attention, queries_BTD: Tensor, keys: ProjectedKeys, history: AlignmentHistory | None = None
) -> tuple[Tensor, Tensor]:
    """See `Attention.forward`."""
    from weft.fast.triton.additive_attention import additive_attention

    score = cast("HiddenLayerScore", self.score)
    queries_BTA = score.project_queries(queries_BTD)
    return additive_attention(queries_BTA, keys.keys_BSD, score.vector, keys.values_BSD, keys.mask_BS)
