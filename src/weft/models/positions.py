"""Where a token stands, added to what it is: absolute positions. Relative ones live in attention/relative.py."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from weft.errors import DataError


def sinusoids(count: int, width: int) -> Tensor:
    """PE(pos, 2i) = sin(pos / 10000^{2i/d}), PE(pos, 2i+1) = cos(pos / 10000^{2i/d})   Vaswani et al. 2017, 3.5."""
    places = torch.arange(count, dtype=torch.float64)[:, None]
    angles = places / 10000.0 ** (torch.arange(0, width, 2, dtype=torch.float64) / width)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)[:, :width]


class Sinusoidal(nn.Module):
    """Waves of every length; the table grows with the longest sequence seen.

    Tables it has outgrown are kept: what was recorded on a GPU reads from where the table then lay.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("table_PD", sinusoids(512, width).float(), persistent=False)
        self.table_PD: Tensor
        self.outgrown: list[Tensor] = []

    def forward(self, places_N: Tensor, longest: int) -> Tensor:
        if longest > len(self.table_PD):
            self.outgrown.append(self.table_PD)
            table = sinusoids(2 * longest, self.table_PD.shape[1])
            self.table_PD = table.to(self.table_PD.device, self.table_PD.dtype)
        return self.table_PD[places_N]


class Learned(nn.Module):
    """One vector for every place, learned; there is none after the last   Gehring et al. 2017, 3.1."""

    def __init__(self, width: int, *, count: int) -> None:
        super().__init__()
        self.weight_PD = nn.Parameter(torch.empty(count, width).normal_(0.0, width**-0.5))

    def forward(self, places_N: Tensor, longest: int) -> Tensor:
        if longest > len(self.weight_PD):
            raise DataError(
                f"a sequence of {longest} tokens: this model has learned {len(self.weight_PD)} positions "
                "(max_positions); shorten it, or train with other positions, for example 'rotary'"
            )
        return nn.functional.embedding(places_N, self.weight_PD)
