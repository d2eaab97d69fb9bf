"""What `weft data show` says of pictures and frames."""

from __future__ import annotations

import numpy as np

from weft.data.filtering.statistics import Sample
from weft.data.pairs import Pair
from weft.errors import DataError
from weft.pairs.profiling.arrays import NamedArray, profile_arrays
from weft.pictures.array_report import describe_arrays, drawn_frames, sampled_thumbnails

ARRAYS = {"a.png": np.full((4, 9, 3), 255, np.uint8), "b.npy": np.arange(12, dtype=np.float32).reshape(4, 3)}


def read(name: str) -> np.ndarray:
    if name not in ARRAYS:
        raise DataError(f"{name}: no such file")
    return ARRAYS[name]


def test_a_description() -> None:
    rows = [NamedArray("t.tsv", line, name, "x") for line, name in enumerate(["a.png", "a.png", "c.png"], 1)]
    profile = profile_arrays(rows, lambda row: read(row.name))
    assert describe_arrays(profile, 3) == (
        "pictures         4 × 9 pixels, 0% ink, gray (all looked at)\n"
        "cannot be read   1\n"
        "  t.tsv:3: c.png: no such file"
    )
    assert describe_arrays(profile, 50).splitlines()[0].endswith("(3 of 50 looked at)")


def test_thumbnails_of_what_can_be_read() -> None:
    samples = [Sample(f"t.tsv:{line}", Pair(name, "x")) for line, name in enumerate(["a.png", "c.png", "b.npy"], 1)]
    thumbnails = sampled_thumbnails(samples, read)
    assert [(thumbnail.name, thumbnail.picture.shape) for thumbnail in thumbnails] == [
        ("t.tsv:1", (4, 9, 3)),
        ("t.tsv:3", (3, 4)),
    ]


def test_frames_run_from_left_to_right_and_features_upward() -> None:
    picture = drawn_frames(np.array([[0, 1], [0, 1], [5, 1]], np.float32))
    assert picture.shape == (2, 3) and picture.dtype == np.uint8
    assert (picture[1] == [255, 255, 0]).all() and drawn_frames(np.full((2, 2), np.nan)).shape == (2, 2)
