"""Log-mel frames, literally: a Fourier sum for each frequency, a triangle for each band, in plain Python."""

from __future__ import annotations

import cmath
import math
from collections.abc import Sequence


def log_mel(samples: Sequence[float], rate: int, *, bands: int) -> list[list[float]]:
    """m_tb = log max(10⁻¹⁰, Σ_k F_bk |Σ_n h_n x_n e^(−2πikn/K)|²)"""
    window, hop, size = round(0.025 * rate), round(0.01 * rate), 1
    while size < window:
        size *= 2
    frames = []
    for start in range(0, len(samples) - window + 1, hop):
        powers = []
        for k in range(size // 2 + 1):
            total = 0j
            for n in range(window):
                hann = math.sin(math.pi * n / window) ** 2
                total += hann * samples[start + n] * cmath.exp(-2j * math.pi * k * n / size)
            powers.append(abs(total) ** 2)
        frame = []
        for band in range(bands):
            power = sum(triangle(band, k * rate / size, bands) * powers[k] for k in range(size // 2 + 1))
            frame.append(math.log(max(1e-10, power)))
        frames.append(frame)
    return frames


def triangle(band: int, hertz: float, bands: int) -> float:
    """The weight of a frequency in a band: 1 at its middle, 0 at the middles of its neighbors."""

    def middle(index: int) -> float:
        mel = 2595 * math.log10(1 + 8000 / 700) * index / (bands + 1)
        return 700 * (10 ** (mel / 2595) - 1)

    low, peak, high = middle(band), middle(band + 1), middle(band + 2)
    if low < hertz <= peak:
        return (hertz - low) / (peak - low)
    if peak < hertz < high:
        return (high - hertz) / (high - peak)
    return 0.0
