"""Local attention: only the source states near a position p_t are attended to   Luong et al. 2015, section 3.2.

    monotonic    p_t = t, at most the last position; softmax over [p_t − D, p_t + D]
    predictive   p_t = S σ(vᵀ tanh(W s_t)); the same, and each weight times exp(−(j − p_t)² / 2σ²), σ = D/2

D is ``size``; S is the number of source states. Positions count from 0. As published, the weights of a predictive
window are not normalized again. To add one: write the class and add its line to WINDOWS in weft/recipe/choices.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor, nn

from weft.ragged import additive_mask


class WindowWeights(NamedTuple):
    """The effect of a window on the weights of an attention."""

    mask_BTS: Tensor
    """Added to the scores: 0 inside the window, −∞ outside it."""
    factor_BTS: Tensor | None
    """Multiplies the weights; None: 1."""


class Window(nn.Module, ABC):
    """A window around a position that each query has."""

    def __init__(self, *, query_width: int, size: int) -> None:
        super().__init__()
        self.size = size

    @abstractmethod
    def positions(self, queries_BTD: Tensor, steps_BT: Tensor, lengths_B: Tensor) -> Tensor:
        """p_t (B, T) for every query, between 0 and the length of its source."""

    def factor(self, distances_BTS: Tensor) -> Tensor | None:
        """The factor of a weight at this distance from p_t."""
        return None

    def forward(self, queries_BTD: Tensor, steps_BT: Tensor, mask_BS: Tensor) -> WindowWeights:
        """``steps_BT``: the number of each query, from 0; ``mask_BS``: additive, −∞ at padding."""
        lengths_B = (mask_BS == 0).sum(-1)
        positions_BT = self.positions(queries_BTD, steps_BT, lengths_B)
        source_S = torch.arange(mask_BS.shape[1], device=mask_BS.device)
        distances_BTS = source_S - positions_BT[..., None]
        outside_BTS = distances_BTS.abs() > self.size
        return WindowWeights(additive_mask(outside_BTS, mask_BS.dtype), self.factor(distances_BTS))


class Monotonic(Window):
    """p_t = t (local-m): source and target are taken to be aligned token by token."""

    def positions(self, queries_BTD: Tensor, steps_BT: Tensor, lengths_B: Tensor) -> Tensor:
        return torch.minimum(steps_BT, lengths_B[:, None] - 1)


class Predictive(Window):
    """p_t is predicted from the state of the decoder (local-p)."""

    def __init__(self, *, query_width: int, size: int) -> None:
        super().__init__(query_width=query_width, size=size)
        self.hidden = nn.Linear(query_width, query_width, bias=False)
        self.vector = nn.Linear(query_width, 1, bias=False)

    def positions(self, queries_BTD: Tensor, steps_BT: Tensor, lengths_B: Tensor) -> Tensor:
        # at most S − ½, so that a window of any size holds a source state
        share_BT = torch.sigmoid(self.vector(torch.tanh(self.hidden(queries_BTD)))[..., 0])
        return torch.minimum(lengths_B[:, None] * share_BT, lengths_B[:, None] - 0.5)

    def factor(self, distances_BTS: Tensor) -> Tensor:
        return torch.exp(-2 * (distances_BTS / self.size).square())  # σ = D/2
