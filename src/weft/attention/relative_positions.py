"""Positions that live inside the attention: distances between a query and a key rather than places.

rotary    q and k are turned by an angle that grows with their place, so that q·k depends on the distance alone
ALiBi     a key is worth less the further away it is
buckets   a learned number for every range of distances (T5)
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn


class Rotation(NamedTuple):
    """Cosines and sines (N, D/2) of the angles of N places."""

    cosines: Tensor
    sines: Tensor

    def turn(self, values_NHD: Tensor) -> Tensor:
        """Every pair of neighboring values turned by its angle."""
        even, odd = values_NHD[..., ::2], values_NHD[..., 1::2]
        cosines, sines = self.cosines[:, None], self.sines[:, None]
        turned = torch.stack([even * cosines - odd * sines, even * sines + odd * cosines], -1)
        return turned.flatten(-2).to(values_NHD.dtype)


def rotation(places_N: Tensor, width: int, dtype: torch.dtype = torch.float32) -> Rotation:
    """The pair (2i, 2i+1) at place m turns by m / 10000^{2i/d}   Su et al. 2021 (RoFormer), eq. 15."""
    dtype = torch.promote_types(dtype, torch.float32)
    speeds = 10000.0 ** (-torch.arange(0, width, 2, device=places_N.device, dtype=dtype) / width)
    angles = places_N[:, None].to(dtype) * speeds
    return Rotation(angles.cos(), angles.sin())


class AlibiBias(nn.Module):
    """b_ij = −m_h |i − j|, m_h = 2^{−8h/H}, h = 1 … H   Press et al. 2022, 3."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        slopes = 2.0 ** (-8.0 * torch.arange(1, heads + 1) / heads)
        self.register_buffer("slopes_H", slopes, persistent=False)
        self.slopes_H: Tensor

    def forward(self, distances: Tensor) -> Tensor:
        """Distances (…, T, S), key place minus query place -> (…, H, T, S)."""
        return -self.slopes_H[:, None, None] * distances[..., None, :, :].abs()


class T5Bias(nn.Module):
    """b_ij = w_h[bucket(j − i)]: near distances have a bucket each, far ones share logarithmic ranges

    Raffel et al. 2020 (T5), 2.1: 32 buckets, the last for 128 and more; both directions halve them.
    """

    def __init__(self, heads: int, *, both_ways: bool, buckets: int = 32, furthest: int = 128) -> None:
        super().__init__()
        self.both_ways = both_ways
        self.buckets = buckets
        self.furthest = furthest
        self.weight_KH = nn.Parameter(torch.zeros(buckets, heads).normal_(0.0, 0.1))

    def bucket(self, distances: Tensor) -> Tensor:
        """The bucket of every distance."""
        buckets = self.buckets // 2 if self.both_ways else self.buckets
        ahead = (distances > 0) * buckets if self.both_ways else torch.zeros_like(distances)
        away = distances.abs() if self.both_ways else (-distances).clamp(min=0)
        exact = buckets // 2
        ratio = torch.log(away.clamp(min=1).double() / exact) / math.log(self.furthest / exact)
        far = (exact + (ratio * (buckets - exact)).long()).clamp(max=buckets - 1)
        return ahead + torch.where(away < exact, away, far)

    def forward(self, distances: Tensor) -> Tensor:
        """Distances (…, T, S), key place minus query place -> (…, H, T, S)."""
        return self.weight_KH[self.bucket(distances)].movedim(-1, -3)


Bias = AlibiBias | T5Bias
