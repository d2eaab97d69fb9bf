"""Packed arrays: the header byte by byte, and back."""

from __future__ import annotations

import numpy as np
import pytest

from weft.packed import HEADER, pack, shape_of, unpack


def test_the_header_of_a_picture() -> None:
    picture = np.arange(3 * 259 * 1, dtype=np.uint8).reshape(3, 259, 1)
    row = pack(picture)
    assert row[:HEADER].tolist() == [0, 1, 3, 0, 0, 3, 1, 0]  # uint8, gray, 3 high, 259 = 3 + 256 wide
    assert row[HEADER:].tolist() == picture.ravel().tolist()


@pytest.mark.parametrize(("dtype", "shape"), [("uint8", (5, 7, 3)), ("float16", (11, 3)), ("float32", (2, 13))])
def test_unpacking_is_the_inverse(dtype: str, shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(1).integers(0, 256, shape).astype(dtype)
    row = pack(array)
    for ids in (row, row.astype(np.int64)):  # as bytes, and as the ids of a batch
        unpacked = unpack(ids)
        assert unpacked.dtype == array.dtype
        np.testing.assert_array_equal(unpacked, array)
    size = shape_of(row)
    assert (size.height, size.width, size.channels) == (*shape[:2], *([0] if len(shape) == 2 else shape[2:]))
    assert size.values * array.itemsize == len(row) - HEADER


def test_a_side_that_the_header_cannot_hold() -> None:
    with pytest.raises(ValueError, match=r"a side of 0; expected 1 to 16,777,215"):
        pack(np.zeros((0, 3), np.uint8))
