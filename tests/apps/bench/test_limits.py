"""Shares of made-up peaks."""

from __future__ import annotations

import pytest

from weft.apps.bench.limits import BANDWIDTH, NEITHER, PRODUCTS, MinimumWork, Peaks

PEAKS = Peaks(flops_per_second=100.0, bytes_per_second=10.0)


def test_the_slower_of_the_two_decides() -> None:
    assert PEAKS.fastest(MinimumWork(flops=200.0, bytes=5.0)) == 2.0
    assert PEAKS.fastest(MinimumWork(flops=200.0, bytes=50.0)) == 5.0


@pytest.mark.parametrize(
    ("work", "limit"),
    [(MinimumWork(80.0, 2.0), PRODUCTS), (MinimumWork(30.0, 6.0), BANDWIDTH), (MinimumWork(30.0, 3.0), NEITHER)],
)
def test_what_limits_a_second(work: MinimumWork, limit: str) -> None:
    reached = PEAKS.reached(work, 1.0)
    assert reached.flops_share == work.flops / 100 and reached.bandwidth_share == work.bytes / 10
    assert reached.limit == limit
    assert PEAKS.reached(work, 100.0).limit == NEITHER


def test_the_higher_of_two_measurements() -> None:
    assert PEAKS.best(Peaks(50.0, 20.0)) == Peaks(100.0, 20.0)
