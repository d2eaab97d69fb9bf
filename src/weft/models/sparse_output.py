"""An output layer that gives most tokens a probability of exactly zero.

    p = entmax15(W h + b)        Peters, Niculae & Martins 2019; Peters & Martins 2019 on inflection

Its logits are log p, −∞ where p = 0: softmax(log p) = p, so that a search reads them like any others. It is trained by
the Fenchel–Young loss of 1.5-entmax (`weft.training.loss.entmax15_loss`), whose gradient also reaches a target of
probability zero; cross-entropy would be infinite there.
"""

from __future__ import annotations

import torch
from torch import Tensor

from weft.attention.normalizers import entmax15
from weft.models.layers import Output


class Entmax15Output(Output):
    """States to log p over the vocabulary, p by 1.5-entmax."""

    loss = "entmax15"

    @staticmethod
    def logits(scores_NV: Tensor) -> Tensor:
        """log entmax15(scores), in at least single precision."""
        return log_entmax15(scores_NV)


def log_entmax15(scores_NV: Tensor) -> Tensor:
    """log p, −∞ where p = 0; a token without probability has no gradient."""
    weights_NV = entmax15(scores_NV.to(torch.promote_types(scores_NV.dtype, torch.float32)))
    zero_NV = weights_NV == 0
    return weights_NV.masked_fill(zero_NV, 1.0).log().masked_fill(zero_NV, -torch.inf)
