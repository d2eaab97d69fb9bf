"""A result that nothing had to be measured for."""

from __future__ import annotations

import pytest

from weft.costs.limits import Peaks, Work
from weft.costs.scale import Curve, Scale
from weft.costs.sizes import AXES, Sizes
from weft.costs.sweep import MEMORY, TIME, Measured, Point, Stop
from weft.costs.workloads import STEP, UPDATE

PEAKS = Peaks(1e11, 1e10)


def point(size: int, seconds: float, memory: int | None) -> Point:
    return Point(size, seconds, (seconds, seconds), memory)


@pytest.fixture
def scale() -> Scale:
    """Updates that grow by batch, steps of which little is known."""
    updates = Measured(tuple(point(2**k, 0.01 + 0.002 * 2**k, 10**8 + 10**7 * 2**k) for k in range(7)), Stop(128, TIME))
    steps = Measured((point(1, 0.004, None), point(2, 0.005, None)), Stop(4, MEMORY, predicted=False))
    curves = (
        Curve(UPDATE, AXES["batch"], updates, tuple(Work(1e8 * 2**k, 1e6) for k in range(7)), PEAKS, 10**10),
        Curve(STEP, AXES["batch"], steps, (Work(1e6, 3e7), Work(2e6, 3e7)), PEAKS, 10**10),
    )
    return Scale(
        recipe="example",
        device="CPU",
        threads=2,
        precision={"update": "fp32", "step": "fp32"},
        parameters=1_234_567,
        base=Sizes(16, 16, 8, 5, 8000),
        curves=curves,
        peaks={"fp32": PEAKS},
        available_memory=10**10,
        seconds=61.0,
    )
