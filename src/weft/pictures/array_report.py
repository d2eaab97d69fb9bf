"""The part of `weft data show` about pictures and frames: sizes, ink, colors, files that cannot be read, thumbnails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy as np

from weft.data.filtering.statistics import Sample
from weft.errors import DataError
from weft.pairs.profiling.arrays import ArrayProfile
from weft.pictures.thumbnails import Thumbnail

NAMES = {"picture": "pictures", "frames": "sequences"}


def describe_arrays(profile: ArrayProfile, pairs: int) -> str:
    """Sizes, ink and colors, and the first files that cannot be read; ``pairs``: those of the corpus."""
    looked_at = "all looked at" if profile.sampled >= pairs else f"{profile.sampled:,} of {pairs:,} looked at"
    lines = [f"{NAMES[profile.kind]:<15}  {profile.describe()} ({looked_at})"]
    if profile.unreadable:
        lines.append(f"{'cannot be read':<15}  {profile.unreadable:,}")
        lines += [f"  {error}" for error in profile.errors]
    return "\n".join(lines)


def sampled_thumbnails(samples: Sequence[Sample], read: Callable[[str], np.ndarray]) -> list[Thumbnail]:
    """Thumbnails of those sampled pairs whose pictures can be read; frames are drawn with time from left to right."""
    thumbnails = []
    for where, pair in samples:
        with suppress(DataError):
            array = read(pair.source)
            thumbnails.append(Thumbnail(array if array.ndim == 3 else drawn_frames(array), pair.target, where))
    return thumbnails


def drawn_frames(frames_TF: np.ndarray) -> np.ndarray:
    """Frames as a picture: features upward, the larger the darker."""
    values_FT = np.nan_to_num(frames_TF.astype(np.float32)).T[::-1]
    low, high = np.quantile(values_FT, (0.01, 0.99))
    shares_FT = np.clip((values_FT - low) / max(float(high - low), 1e-6), 0, 1)
    picture: np.ndarray = np.rint(255 * (1 - shares_FT)).astype(np.uint8)
    return picture
