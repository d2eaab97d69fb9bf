"""Absolute positions, added to the embeddings. Relative ones are in attention/relative_positions.py."""

from __future__ import annotations

from functools import lru_cache, partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from weft.attention.initialization import initialize
from weft.errors import InputTooLongError

FIRST_TABLE = 512
"""Positions in the table of a new `Sinusoidal`."""


def sinusoids(count: int, width: int, *, layout: str = "interleaved", first: int = 0) -> Tensor:
    """A table of ``count`` positions, from number ``first`` on.

    interleaved    PE(pos, 2i) = sin(pos / 10000^{2i/d}), PE(pos, 2i+1) = cos(pos / 10000^{2i/d})
                   Vaswani et al. 2017, 3.5
    halves         the same values, all sines before all cosines (Marian and Pegasus of Hugging Face)
    tensor2tensor  PE(pos, i) = sin(pos / 10000^{i/(h−1)}), PE(pos, h+i) = cos(pos / 10000^{i/(h−1)}), h = ⌊d/2⌋; if
                   d is odd, the last value is 0 (Tensor2Tensor, fairseq, M2M100)
    """
    positions = torch.arange(first, first + count, dtype=torch.float64)[:, None]
    if layout == "tensor2tensor":
        half = width // 2
        angles = positions / 10000.0 ** (torch.arange(half, dtype=torch.float64) / max(half - 1, 1))
        return functional.pad(torch.cat([angles.sin(), angles.cos()], 1), (0, width % 2))
    angles = positions / 10000.0 ** (torch.arange(0, width, 2, dtype=torch.float64) / width)
    if layout == "halves":
        return torch.cat([angles.sin(), angles.cos()], 1)[:, :width]
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)[:, :width]


@lru_cache(maxsize=1)
def _first_table(width: int, layout: str, first: int) -> Tensor:
    """The table of a new `SinusoidTable`; encoder and decoder have the same."""
    return sinusoids(FIRST_TABLE, width, layout=layout, first=first).float()


class SinusoidTable(nn.Module):
    """A table of sinusoids that grows with the longest sequence.

    Smaller tables are kept when it has grown: CUDA graphs captured before read from their addresses.
    """

    def __init__(self, width: int, *, layout: str = "interleaved", first: int = 0) -> None:
        """``layout``, ``first``: the parameters of `sinusoids`."""
        super().__init__()
        self.make = partial(sinusoids, width=width, layout=layout, first=first)
        self.register_buffer("values_PD", torch.empty(FIRST_TABLE, width), persistent=False)
        self.values_PD: Tensor
        self._smaller: list[Tensor] = []
        initialize(self)

    def reset_buffers(self) -> None:
        self.values_PD = _first_table(**self.make.keywords).clone()

    def forward(self, longest: int) -> Tensor:
        """A table of at least ``longest`` positions."""
        if longest > len(self.values_PD):
            self._smaller.append(self.values_PD)
            values_PD = self.make(2 * longest)
            self.values_PD = values_PD.to(self.values_PD.device, self.values_PD.dtype)
        return self.values_PD


class Sinusoidal(nn.Module):
    """Fixed sines and cosines of different wavelengths   Vaswani et al. 2017, 3.5."""

    def __init__(self, width: int, *, layout: str = "interleaved", first: int = 0) -> None:
        """``layout``, ``first``: the parameters of `sinusoids`."""
        super().__init__()
        self.table = SinusoidTable(width, layout=layout, first=first)

    def forward(self, positions_N: Tensor, longest: int) -> Tensor:
        """``longest``: one more than the last of the positions, or a bound on that."""
        return self.table(longest)[positions_N]


class Learned(nn.Module):
    """A learned vector for each of ``count`` positions   Gehring et al. 2017, 3.1."""

    def __init__(self, width: int, *, count: int) -> None:
        super().__init__()
        self.weight_PD = nn.Parameter(torch.empty(count, width))
        initialize(self)

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight_PD, std=self.weight_PD.shape[1] ** -0.5)

    def forward(self, positions_N: Tensor, longest: int) -> Tensor:
        if longest > len(self.weight_PD):
            raise InputTooLongError(
                f"a sequence of {longest} tokens: this model has learned {len(self.weight_PD)} positions "
                "(max_positions); shorten it, or train with other positions, for example 'rotary'"
            )
        return functional.embedding(positions_N, self.weight_PD)
