"""Positions inside the attention: they depend on the distance between a query and a key.

rotary      queries and keys are rotated by an angle proportional to their position, so that q·k depends on the distance
ALiBi       a penalty proportional to the distance
relative    a learned bias for each range of distances (T5)
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from weft.attention.initialization import initialize


class Rotation(NamedTuple):
    """Cosines and sines (N, D/2) of the angles of N positions."""

    cosines: Tensor
    sines: Tensor

    def rotate(self, values_NHD: Tensor) -> Tensor:
        """Every pair of neighboring values rotated by its angle."""
        even, odd = values_NHD[..., ::2], values_NHD[..., 1::2]
        cosines, sines = self.cosines[:, None], self.sines[:, None]
        rotated = torch.stack([even * cosines - odd * sines, even * sines + odd * cosines], -1)
        return rotated.flatten(-2).to(values_NHD.dtype)


def rotation(positions_N: Tensor, width: int, dtype: torch.dtype = torch.float32) -> Rotation:
    """The pair (2i, 2i+1) at position m is rotated by m / 10000^{2i/d}   Su et al. 2021 (RoFormer), eq. 15."""
    dtype = torch.promote_types(dtype, torch.float32)
    frequencies = 10000.0 ** (-torch.arange(0, width, 2, device=positions_N.device, dtype=dtype) / width)
    angles = positions_N[:, None].to(dtype) * frequencies
    return Rotation(angles.cos(), angles.sin())


class AlibiBias(nn.Module):
    """b_ij = −m_h |i − j|, m_h = 2^{−8h/H}, h = 1 … H   Press et al. 2022, 3."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.register_buffer("slopes_H", torch.empty(heads), persistent=False)
        self.slopes_H: Tensor
        initialize(self)

    def reset_buffers(self) -> None:
        heads = len(self.slopes_H)
        self.slopes_H = 2.0 ** (-8.0 * torch.arange(1, heads + 1) / heads)

    def forward(self, distances: Tensor) -> Tensor:
        """Distances (…, T, S), key position minus query position -> (…, H, T, S)."""
        return -self.slopes_H[:, None, None] * distances[..., None, :, :].abs()


class T5Bias(nn.Module):
    """b_ij = w_h[bucket(j − i)]: small distances have a bucket each, large ones share logarithmic ranges

    Raffel et al. 2020 (T5), 2.1: 32 buckets, the last for 128 and more; bidirectional attention halves them.
    """

    def __init__(self, heads: int, *, bidirectional: bool, buckets: int = 32, max_distance: int = 128) -> None:
        super().__init__()
        self.bidirectional = bidirectional
        self.buckets = buckets
        self.max_distance = max_distance
        self.weight_KH = nn.Parameter(torch.empty(buckets, heads))
        initialize(self)

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight_KH, std=0.1)

    def bucket(self, distances: Tensor) -> Tensor:
        """The bucket of every distance."""
        buckets = self.buckets // 2 if self.bidirectional else self.buckets
        first = (distances > 0) * buckets if self.bidirectional else torch.zeros_like(distances)
        distances = distances.abs() if self.bidirectional else (-distances).clamp(min=0)
        exact = buckets // 2
        ratio = torch.log(distances.clamp(min=1).double() / exact) / math.log(self.max_distance / exact)
        large = (exact + (ratio * (buckets - exact)).long()).clamp(max=buckets - 1)
        return first + torch.where(distances < exact, distances, large)

    def forward(self, distances: Tensor) -> Tensor:
        """Distances (…, T, S), key position minus query position -> (…, H, T, S)."""
        return self.weight_KH[self.bucket(distances)].movedim(-1, -3)


RelativeBias = AlibiBias | T5Bias
