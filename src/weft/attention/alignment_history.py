"""Alignment history: features of earlier attention weights that are added to the next scores.

Both kinds of features enter the hidden layer of an additive score, e_j = vᵀ tanh(W₁ k_j + W₂ q + u_j):

    coverage     u_j = w c_j,        c_j = Σ_{t' < t} α_{t'j}               See et al. 2017, eq. 11
                                     c_j = Σ_{t' < t} α_{t'j} / Φ_j         Tu et al. 2016, eq. 8 and 9
                 with the fertility  Φ_j = N σ(u·h_j), N = 2
    location     u_j = U f_j,        f = F * α_{t−1}, a convolution         Chorowski et al. 2015, eq. 8 and 9
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

MAX_FERTILITY = 2.0
"""N of the fertility: how many target tokens a source token accounts for at most."""


class AlignmentHistory(NamedTuple):
    """The weights of the steps so far, of R hypotheses; before the first step all are zero."""

    previous_RS: Tensor
    """α_{t−1}"""
    coverage_RS: Tensor
    """Σ_{t' < t} α_{t'}"""
    steps_R: Tensor
    """t, counted from 0."""

    @classmethod
    def start(cls, mask_BS: Tensor) -> AlignmentHistory:
        """The history of each source before the first step."""
        zeros_BS = torch.zeros_like(mask_BS)
        return cls(zeros_BS, zeros_BS, torch.zeros(mask_BS.shape[0], dtype=torch.int64, device=mask_BS.device))

    def advance(self, weights_RS: Tensor) -> AlignmentHistory:
        """The history after one more step."""
        return AlignmentHistory(weights_RS, self.coverage_RS + weights_RS, self.steps_R + 1)


class HistoryFeatures(nn.Module):
    """The features u_j of coverage, location, or both."""

    def __init__(self, *, size: int, states: int, coverage: str, filters: int, width: int) -> None:
        """Widths: ``size`` of the hidden layer, ``states`` of a source state; ``filters``: 0 for no location."""
        super().__init__()
        self.coverage = None if coverage == "none" else nn.Linear(1, size, bias=False)
        self.fertility = nn.Linear(states, 1, bias=False) if coverage == "fertility" else None
        self.filters = nn.Conv1d(1, filters, width, padding=width // 2, bias=False) if filters else None
        self.location = nn.Linear(filters, size, bias=False) if filters else None

    def fertility_of(self, states_BSD: Tensor) -> Tensor | None:
        """Φ_j (B, S) of each source state."""
        if self.fertility is None:
            return None
        return MAX_FERTILITY * torch.sigmoid(self.fertility(states_BSD)[..., 0])

    def forward(self, history: AlignmentHistory, *, rows: int, fertility_BS: Tensor | None) -> Tensor:
        """u (B, T, S, A) for B rows of T hypotheses, which are adjacent in the history."""
        shape = (rows, history.previous_RS.shape[0] // rows, history.previous_RS.shape[1])
        features: list[Tensor] = []
        if self.coverage is not None:
            coverage_BTS = history.coverage_RS.view(shape)
            scaled_BTS = coverage_BTS if fertility_BS is None else coverage_BTS / fertility_BS[:, None]
            features.append(self.coverage(scaled_BTS[..., None]))
        if self.filters is not None and self.location is not None:
            filtered_RFS = self.filters(history.previous_RS[:, None])
            filtered_BTSF = filtered_RFS.transpose(1, 2).reshape(*shape, -1)
            features.append(self.location(filtered_BTSF))
        return features[0] if len(features) == 1 else features[0] + features[1]
