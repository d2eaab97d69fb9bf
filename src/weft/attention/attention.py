"""Attention: weights α = softmax(scores), output Σ α_i v_i.

`attend` is the only place of the library where a batch is padded and a position masked. Everything else says what
it looks over as a Ragged and gets an answer for every query.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from weft.attention.scores import Score
from weft.kernels.deferred_gradients import DeferredMatrices, Matrices, as_tensor, weighted_sum
from weft.ragged import Ragged


class Keys(NamedTuple):
    """What an attention has prepared of the items it may look at: once per source, never once per step."""

    prepared_BSD: Matrices
    """What the score needs of the keys."""
    values_BSD: Matrices
    bias_BS: Tensor
    """0 where there is an item, −∞ where a row has ended."""

    def held(self) -> Keys:
        """The same for use step by step in training: gradients are taken once, after the last step."""
        if not torch.is_grad_enabled():
            return self
        return Keys(
            DeferredMatrices(as_tensor(self.prepared_BSD)), DeferredMatrices(as_tensor(self.values_BSD)), self.bias_BS
        )


def attend(scores_BTS: Tensor, values_BSD: Matrices, bias_BTS: Tensor) -> tuple[Tensor, Tensor]:
    """Σ_j α_j v_j with α = softmax(scores) over the items there are; the weights come with it."""
    weights_BTS = torch.softmax(scores_BTS + bias_BTS, dim=-1)
    return weighted_sum(weights_BTS, values_BSD), weights_BTS


class Attention(nn.Module):
    """A score, and keys and values that are the states themselves or learned projections of them."""

    def __init__(self, score: Score, *, keys: nn.Module | None = None, values: nn.Module | None = None) -> None:
        super().__init__()
        self.score = score
        self.keys = keys or nn.Identity()
        self.values = values or nn.Identity()

    def prepare(self, items: Ragged) -> Keys:
        """Lay the items out for looking at. Every row must hold at least one."""
        grid_BSD = items.to_padded()
        blocked_BS = items.layout.masked_BS
        bias_BS = grid_BSD.new_zeros(blocked_BS.shape).masked_fill(blocked_BS, float("-inf"))
        return Keys(self.score.prepare(self.keys(grid_BSD)), self.values(grid_BSD), bias_BS)

    def prepare_all(self, items_BSD: Tensor) -> Keys:
        """The same for rows of one length, such as a search's own past."""
        return Keys(
            self.score.prepare(self.keys(items_BSD)), self.values(items_BSD), items_BSD.new_zeros(items_BSD.shape[:2])
        )

    def forward(self, queries_BTD: Tensor, keys: Keys) -> tuple[Tensor, Tensor]:
        """The answers (B, T, D) and the weights (B, T, S) for T queries a row."""
        scores_BTS = self.score(queries_BTD, keys.prepared_BSD)
        return attend(scores_BTS, keys.values_BSD, keys.bias_BS[:, None])

    def over(self, queries: Ragged, keys: Keys) -> tuple[Ragged, Tensor]:
        """The same for a ragged batch of queries, all at once; weights (B, longest, S)."""
        answers_BTD, weights_BTS = self(queries.to_padded(), keys)
        return queries.from_padded(answers_BTD), weights_BTS

    def over_past(self, states: Ragged) -> tuple[Ragged, Tensor]:
        """Every state looks back: s_t asks over h_0 = 0 and the states before it, h_1 … h_{t−1}."""
        grid_BTD = states.to_padded()
        past_BTD = torch.cat([grid_BTD.new_zeros(len(grid_BTD), 1, grid_BTD.shape[-1]), grid_BTD[:, :-1]], dim=1)
        scores_BTS = self.score(grid_BTD, self.score.prepare(self.keys(past_BTD)))
        length = grid_BTD.shape[1]
        bias_TS = grid_BTD.new_full((length, length), float("-inf")).triu(1)
        answers_BTD, weights_BTS = attend(scores_BTS, self.values(past_BTD), bias_TS)
        return states.from_padded(answers_BTD), weights_BTS
