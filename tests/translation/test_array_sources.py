"""The states of pictures and frames: how many, their names and their places."""

from __future__ import annotations

import numpy as np

from weft.packed import pack
from weft.recipe.stem import StemSettings
from weft.translation.array_sources import ArrayStates, Box


def states_of(kind: str, array: np.ndarray) -> ArrayStates:
    return ArrayStates.of(StemSettings(kind=kind, widths=[3, 3]), pack(array).tolist())


def test_columns() -> None:
    states = states_of("columns", np.zeros((13, 11, 1), np.uint8))
    assert states.count == 3 and states.names == ["1", "2", "3"]
    assert states.boxes == [Box(0, 0, 13, 3), Box(0, 3, 13, 4), Box(0, 7, 13, 4)]


def test_a_grid() -> None:
    states = states_of("grid", np.zeros((5, 7, 3), np.uint8))
    assert states.names == ["1,1", "1,2", "2,1", "2,2"]
    assert states.boxes[1] == Box(0, 3, 2, 4) and states.boxes[2] == Box(2, 0, 3, 3)


def test_frames() -> None:
    states = states_of("frames", np.zeros((9, 2), np.float16))
    assert states.count == 3 and [box.left for box in states.boxes] == [0, 3, 6]
