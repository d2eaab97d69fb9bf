"""Absolute positions, added to the embeddings. Relative ones are in attention/relative_positions.py."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from weft.errors import InputTooLongError

FIRST_TABLE = 512
"""Positions in the table of a new `Sinusoidal`."""


def sinusoids(count: int, width: int) -> Tensor:
    """PE(pos, 2i) = sin(pos / 10000^{2i/d}), PE(pos, 2i+1) = cos(pos / 10000^{2i/d})   Vaswani et al. 2017, 3.5."""
    positions = torch.arange(count, dtype=torch.float64)[:, None]
    angles = positions / 10000.0 ** (torch.arange(0, width, 2, dtype=torch.float64) / width)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)[:, :width]


class SinusoidTable(nn.Module):
    """A table of sinusoids that grows with the longest sequence.

    Smaller tables are kept when it has grown: CUDA graphs captured before read from their addresses.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("values_PD", sinusoids(FIRST_TABLE, width).float(), persistent=False)
        self.values_PD: Tensor
        self._smaller: list[Tensor] = []

    def forward(self, longest: int) -> Tensor:
        """A table of at least ``longest`` positions."""
        if longest > len(self.values_PD):
            self._smaller.append(self.values_PD)
            values_PD = sinusoids(2 * longest, self.values_PD.shape[1])
            self.values_PD = values_PD.to(self.values_PD.device, self.values_PD.dtype)
        return self.values_PD


class Sinusoidal(nn.Module):
    """Fixed sines and cosines of different wavelengths   Vaswani et al. 2017, 3.5."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.table = SinusoidTable(width)

    def forward(self, positions_N: Tensor, longest: int) -> Tensor:
        """``longest``: one more than the last of the positions, or a bound on that."""
        return self.table(longest)[positions_N]


class Learned(nn.Module):
    """A learned vector for each of ``count`` positions   Gehring et al. 2017, 3.1."""

    def __init__(self, width: int, *, count: int) -> None:
        super().__init__()
        self.weight_PD = nn.Parameter(torch.empty(count, width).normal_(0.0, width**-0.5))

    def forward(self, positions_N: Tensor, longest: int) -> Tensor:
        if longest > len(self.weight_PD):
            raise InputTooLongError(
                f"a sequence of {longest} tokens: this model has learned {len(self.weight_PD)} positions "
                "(max_positions); shorten it, or train with other positions, for example 'rotary'"
            )
        return nn.functional.embedding(positions_N, self.weight_PD)
