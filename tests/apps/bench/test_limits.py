"""Shares of made-up peaks."""

from __future__ import annotations

import pytest

from weft.apps.bench.limits import BANDWIDTH, NEITHER, PRODUCTS, Peaks, Work

PEAKS = Peaks(flops_per_second=100.0, bytes_per_second=10.0)


def test_the_slower_of_the_two_decides() -> None:
    assert PEAKS.fastest(Work(flops=200.0, bytes=5.0)) == 2.0
    assert PEAKS.fastest(Work(flops=200.0, bytes=50.0)) == 5.0


@pytest.mark.parametrize(
    ("work", "limit"),
    [(Work(80.0, 2.0), PRODUCTS), (Work(30.0, 6.0), BANDWIDTH), (Work(30.0, 3.0), NEITHER)],
)
def test_what_limits_a_second(work: Work, limit: str) -> None:
    reached = PEAKS.reached(work, 1.0)
    assert reached.flops_share == work.flops / 100 and reached.bandwidth_share == work.bytes / 10
    assert reached.limit == limit
    assert PEAKS.reached(work, 100.0).limit == NEITHER


def test_the_higher_of_two_measurements() -> None:
    assert PEAKS.best(Peaks(50.0, 20.0)) == Peaks(100.0, 20.0)
