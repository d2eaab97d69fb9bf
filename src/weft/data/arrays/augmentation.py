"""Augmentation of pictures and frames: the same array, changed at random within the limits of the settings.

Each function is pure: an array, settings and a seed give one result, on every machine, of the type of the array and,
but for ``resize``, of its shape. Batches and their order do not depend on it, and a resumed run sees what the first
would have.

    pictures   f ∈ [1/(1+a), 1+a]: the factor that a setting a stands for, with u uniform in [−1, 1]:  1 + a u, or
               1 / (1 − a u) if u < 0
               resize                height and width of the picture, with all that is on it, each by a factor f
               scale, shift, shear   x′ = x_c + f_x (x − x_b) − s (y′ − y_c),  y′ = y_c + f_y (y − y_b)
               stroke                p + a (d − p), d the darkest (or lightest) of the 3 × 3 pixels around; again for
                                     each pixel of width. Thinner: a ≤ 1/2, once
               contrast              paper + f (p − paper) + o
               noise                 p + a z,  z of mean 0 and deviation 1
    frames     SpecAugment: spans of time and ranges of features are set to 0, the mean of normalized frames
               Park et al. 2019, without time warping

What is drawn on a picture stays inside: if it would not, it is made smaller. Paper is the median of the border; ink
differs from it, darker or lighter. Thinning takes at most half of a pixel's ink, so that no thin stroke disappears.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.recipe.augmentation import AugmentationSettings

BRIGHTNESS = 64
"""The change of brightness, from 0 to 255, that contrast = 1 would allow."""
MAX_THINNING = 0.5
"""The largest share of its ink that a pixel loses when strokes become thinner."""
Seed = int | Sequence[int]


def augment_picture(picture: np.ndarray, settings: AugmentationSettings, seed: Seed) -> np.ndarray:
    """The picture, changed at random: uint8, (height, width) or (height, width, channels)."""
    if not settings.changes_pictures:
        return picture
    random = np.random.default_rng(seed)
    values_HWC: np.ndarray = picture.reshape(*picture.shape[:2], -1).astype(np.float32)
    paper_C = paper_of(values_HWC)
    if settings.resize or settings.scale or settings.shift or settings.shear:
        values_HWC = _transformed(values_HWC, paper_C, settings, random)
    if settings.stroke:
        values_HWC = with_strokes(values_HWC, paper_C, settings.stroke * _uniform(random))
    if settings.contrast:
        factor, offset = _factor(settings.contrast, random), settings.contrast * BRIGHTNESS * _uniform(random)
        values_HWC = np.clip(paper_C + factor * (values_HWC - paper_C) + offset, 0, 255)
    if settings.noise:
        values_HWC = values_HWC + settings.noise * 255 * random.random() * _bell_shaped(values_HWC.shape, random)
    return np.clip(np.rint(values_HWC), 0, 255).astype(np.uint8).reshape(*values_HWC.shape[:2], *picture.shape[2:])


def mask_frames(frames: np.ndarray, settings: AugmentationSettings, seed: Seed) -> np.ndarray:
    """The frames (time, features) with spans of time and ranges of features set to 0; at most half of each."""
    if not settings.changes_frames:
        return frames
    random = np.random.default_rng(seed)
    masked = frames.copy()
    for axis, number, longest in (
        (0, settings.time_masks, settings.time_mask),
        (1, settings.feature_masks, settings.feature_mask),
    ):
        size = frames.shape[axis]
        for _ in range(number):
            length = int(random.integers(min(longest, size // (2 * number)) + 1))
            start = int(random.integers(size - length + 1))
            masked[(slice(None),) * axis + (slice(start, start + length),)] = 0
    return masked


def paper_of(values_HWC: np.ndarray) -> np.ndarray:
    """The brightness of the paper in each channel: the median of the pixels at the border."""
    top_and_bottom, left_and_right = values_HWC[[0, -1]], values_HWC[:, [0, -1]].swapaxes(0, 1)
    border_NC = np.concatenate([*top_and_bottom, *left_and_right])
    paper_C: np.ndarray = np.median(border_NC, axis=0)
    return paper_C


def ink_box(values_HWC: np.ndarray, paper_C: np.ndarray) -> tuple[int, int, int, int]:
    """Top, bottom, left and right of the pixels with more than half of the strongest ink; the ends are excluded."""
    ink_HW = np.abs(values_HWC - paper_C).max(2)
    rows, columns = np.nonzero(ink_HW >= max(ink_HW.max() / 2, 1))
    if not len(rows):
        return 0, values_HWC.shape[0], 0, values_HWC.shape[1]
    return int(rows.min()), int(rows.max()) + 1, int(columns.min()), int(columns.max()) + 1


def with_strokes(values_HWC: np.ndarray, paper_C: np.ndarray, change: float) -> np.ndarray:
    """Strokes that are wider (change > 0) or thinner by ``change`` pixels on each side."""
    is_ink_darker = np.abs(paper_C - values_HWC.min((0, 1))).sum() >= np.abs(values_HWC.max((0, 1)) - paper_C).sum()
    extreme = np.minimum if is_ink_darker == (change > 0) else np.maximum
    if change < 0:
        return values_HWC + MAX_THINNING * min(-change, 1.0) * (_around(values_HWC, extreme) - values_HWC)
    while change > 0:
        values_HWC = values_HWC + min(change, 1.0) * (_around(values_HWC, extreme) - values_HWC)
        change -= 1
    return values_HWC


def _around(values_HWC: np.ndarray, extreme: np.ufunc) -> np.ndarray:
    """The extreme of the 3 × 3 pixels around each; outside there are none."""
    padded = np.pad(values_HWC, ((1, 1), (1, 1), (0, 0)), mode="edge")
    rows = extreme(extreme(padded[:-2], padded[1:-1]), padded[2:])
    result: np.ndarray = extreme(extreme(rows[:, :-2], rows[:, 1:-1]), rows[:, 2:])
    return result


def _transformed(
    values_HWC: np.ndarray, paper_C: np.ndarray, settings: AugmentationSettings, random: np.random.Generator
) -> np.ndarray:
    """The picture resized, scaled, sheared and shifted; of what is drawn, nothing is lost."""
    top, bottom, left, right = ink_box(values_HWC, paper_C)
    size_y, size_x = (_factor(settings.resize, random) if settings.resize else 1.0 for _ in range(2))
    height, width = (max(round(side * f), 1) for side, f in zip(values_HWC.shape, (size_y, size_x), strict=False))
    factor_y, factor_x = size_y * _factor(settings.scale, random), size_x * _factor(settings.scale, random)
    shear, shift_y, shift_x = settings.shear * _uniform(random), _uniform(random), _uniform(random)
    factor_y = min(factor_y, height / (bottom - top))
    new_height = factor_y * (bottom - top)
    narrowing = min(1.0, width / (factor_x * (right - left) + abs(shear) * new_height))
    factor_x, shear = factor_x * narrowing, shear * narrowing
    new_width = factor_x * (right - left) + abs(shear) * new_height
    old_y, old_x, reach = (top + bottom) / 2, (left + right) / 2, settings.shift * height
    new_y = min(max(old_y * size_y + reach * shift_y, new_height / 2), height - new_height / 2)
    new_x = min(max(old_x * size_x + reach * shift_x, new_width / 2), width - new_width / 2)
    y_H = np.arange(height) + 0.5 - new_y
    x_W = np.arange(width) + 0.5 - new_x
    from_x_W, from_x_H = old_x - 0.5 + x_W / factor_x, shear / factor_x * y_H
    from_x_HW = from_x_W.astype(np.float32) + from_x_H.astype(np.float32)[:, None]
    return sampled(values_HWC, old_y + y_H / factor_y - 0.5, from_x_HW, paper_C)


def sampled(values_HWC: np.ndarray, y_H: np.ndarray, x_HW: np.ndarray, outside_C: np.ndarray) -> np.ndarray:
    """The picture at these positions, interpolated between the four pixels around each: first between rows, then
    within them."""
    height, width, channels = values_HWC.shape
    padded = np.pad(values_HWC - outside_C, ((1, 1), (1, 1), (0, 0)))  # one row and column of paper around
    y_H = np.clip(y_H + 1, 0, height + 1)
    top_H = np.minimum(y_H.astype(np.int64), height)
    down_H = (y_H - top_H).astype(padded.dtype)[:, None, None]
    top_HWC = padded[top_H]
    rows_NC = (top_HWC + (padded[top_H + 1] - top_HWC) * down_H).reshape(-1, channels)
    x_HW = np.clip(x_HW + 1, 0, width + 1)
    left_HW = np.minimum(x_HW.astype(np.int32), width)
    right_HW = (x_HW - left_HW).astype(padded.dtype)[:, :, None]
    left_HW += (width + 2) * np.arange(len(y_H), dtype=np.int32)[:, None]
    left_HWC: np.ndarray = rows_NC.take(left_HW, 0)
    return left_HWC + (rows_NC.take(left_HW + 1, 0) - left_HWC) * right_HW + outside_C


def _uniform(random: np.random.Generator) -> float:
    """From −1 to 1."""
    return 2 * random.random() - 1


def _factor(strength: float, random: np.random.Generator) -> float:
    """From 1 / (1 + strength) to 1 + strength, above and below 1 with the same probability."""
    change = strength * _uniform(random)
    return 1 + change if change >= 0 else 1 / (1 - change)


def _bell_shaped(shape: tuple[int, ...], random: np.random.Generator) -> np.ndarray:
    """Numbers of mean 0 and deviation 1: sums of four bytes, which are the same on every machine."""
    count = int(np.prod(shape))
    sums = np.frombuffer(random.bytes(4 * count), np.uint8).reshape(4, count).sum(0, dtype=np.int64)
    deviation = ((256**2 - 1) / 3) ** 0.5
    return ((sums - 510) / deviation).reshape(shape)
