"""The limit of the machine: the minimum work of a phase, and the time in which the machine could do it.

    time ≥ max(operations / peak rate of matrix products, bytes / memory bandwidth)

Operations are those of matrix products: with weights, and of attention. Bytes are what has to be moved at least once:

    training update   each weight read forward and backward; its gradient written, read for its norm and by the
                      optimizer; weight and optimizer state read and written; activations written and read
    encoder           its weights read, its output written
    search step       the decoder's weights, the keys and values of the source and the state of each hypothesis read,
                      the scores of all tokens written and read

Both rates are measured on the same machine: by one large matrix product and by one large copy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch

from weft.apps.bench.flops import peak_bandwidth, peak_flops

LIMITED = 0.5
"""The share of a peak rate above which that rate is called the limit."""
PRODUCTS, BANDWIDTH, NEITHER = "products", "bandwidth", "neither"


class MinimumWork(NamedTuple):
    """The minimum work of a phase."""

    flops: float
    bytes: float


@dataclass(frozen=True)
class Peaks:
    """Peak rates of the machine."""

    flops_per_second: float
    bytes_per_second: float

    @classmethod
    def measure(cls, device: torch.device, precision: str) -> Peaks:
        return cls(peak_flops(device, precision), peak_bandwidth(device))

    def best(self, other: Peaks) -> Peaks:
        """The higher of two measurements of each rate."""
        return Peaks(
            max(self.flops_per_second, other.flops_per_second), max(self.bytes_per_second, other.bytes_per_second)
        )

    def fastest(self, work: MinimumWork) -> float:
        """The seconds that the work takes at least."""
        return max(work.flops / self.flops_per_second, work.bytes / self.bytes_per_second)

    def reached(self, work: MinimumWork, seconds: float) -> Reached:
        return Reached(
            work.flops / seconds,
            work.flops / seconds / self.flops_per_second,
            work.bytes / seconds,
            work.bytes / seconds / self.bytes_per_second,
        )


class Reached(NamedTuple):
    """The rates that a measurement reaches, and their shares of the peaks."""

    flops_per_second: float
    flops_share: float
    bytes_per_second: float
    bandwidth_share: float

    @property
    def limit(self) -> str:
        """The rate that limits it: "products", "bandwidth" or "neither"."""
        if max(self.flops_share, self.bandwidth_share) < LIMITED:
            return NEITHER
        return PRODUCTS if self.flops_share >= self.bandwidth_share else BANDWIDTH
