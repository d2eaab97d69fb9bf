"""Sweeps over made-up timings: no clock but the one that the cases move."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from weft.apps.bench import sweep
from weft.apps.bench.growth import fit_growth
from weft.apps.bench.sweep import (
    LENGTH,
    MAX_ROUNDS,
    MEMORY,
    MIN_ROUNDS,
    TIME,
    MemoryExhaustedError,
    SweepResult,
    measure_sweep,
)
from weft.errors import InputTooLongError

DOUBLED = tuple(2**power for power in range(20))


class World:
    """A clock, and cases whose calls take as long as ``cost`` says."""

    def __init__(self, cost: Callable[[int], float], memory: Callable[[int], int] = lambda size: size) -> None:
        self.now, self.cost, self.memory_of = 0.0, cost, memory
        self.calls: list[int] = []
        self.drift = 1.0
        """By which factor a call is slower than the one before."""

    def make(self, size: int) -> MadeUpCase:
        return MadeUpCase(self, size)

    def sweep(
        self, sizes: tuple[int, ...] = DOUBLED, seconds: float = 10.0, available: int | None = None
    ) -> SweepResult:
        return measure_sweep(sizes, self.make, seconds=seconds, available_memory=available)


class MadeUpCase:
    warmups, units = 2, 1

    def __init__(self, world: World, size: int) -> None:
        self.world, self.size = world, size
        self.first = True

    def run(self) -> None:
        world = self.world
        world.calls.append(self.size)
        slow = 5.0 if self.first else 1.0  # as the first call is
        self.first = False
        world.now += world.cost(self.size) * slow * world.drift ** len(world.calls)

    def memory(self) -> int:
        self.run()
        return self.world.memory_of(self.size)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Callable[..., World]:
    def make(*arguments: Callable[[int], float]) -> World:
        made = World(*arguments)  # type: ignore[arg-type]
        monkeypatch.setattr(sweep, "time", SimpleNamespace(perf_counter=lambda: made.now))
        return made

    return make


def test_the_warm_up_does_not_count(world: Callable[..., World]) -> None:
    measured = world(lambda size: 0.001 * size).sweep((1, 2, 4), seconds=1.0)
    assert [point.seconds for point in measured.points] == pytest.approx([0.001, 0.002, 0.004])
    assert [point.memory for point in measured.points] == [1, 2, 4] and measured.stop is None
    assert all(len(point.samples) == MAX_ROUNDS for point in measured.points)


def test_it_ends_in_time_with_a_few_rounds_of_each(world: Callable[..., World]) -> None:
    made = world(lambda size: 0.01 + 0.001 * size**1.5)
    measured = made.sweep(seconds=10.0)
    assert 5 < len(measured.points) < len(DOUBLED) and made.now - measured.setup < 10.0
    assert measured.stop is not None and measured.stop.reason == TIME
    assert measured.stop.size == 2 * measured.points[-1].size
    assert all(len(point.samples) >= MIN_ROUNDS for point in measured.points)
    growth = fit_growth(*measured.curve("seconds"))
    assert growth.exponent is not None and growth.exponent.mean == pytest.approx(1.5, abs=0.02)
    assert growth.fixed == pytest.approx(0.01, rel=0.05)


def test_compilation_takes_no_time_from_the_sweep(world: Callable[..., World], monkeypatch: pytest.MonkeyPatch) -> None:
    made = world(lambda size: 0.001)
    run = MadeUpCase.run

    def compile_first(case: MadeUpCase) -> None:
        made.now += 7.0 if case.first else 0.0
        run(case)

    monkeypatch.setattr(MadeUpCase, "run", compile_first)
    measured = made.sweep((1, 2, 4), seconds=11.0)
    assert len(measured.points) == 3 and measured.stop is None
    assert measured.setup == pytest.approx(3 * 7.004)
    assert len(made.sweep(seconds=11.0).points) == 5  # the first three for twice the time, the others for what is left


def test_rounds_go_up_and_down(world: Callable[..., World]) -> None:
    made = world(lambda size: 0.001)
    made.sweep((1, 2, 4), seconds=0.5)
    rounds = made.calls[9:]  # two calls of warm-up and one that tells how long it will take, of each
    assert rounds[:9] == [1, 2, 4, 4, 2, 1, 1, 2, 4]


def test_a_machine_that_becomes_slower_changes_no_exponent(world: Callable[..., World]) -> None:
    made = world(lambda size: 0.01 * size)
    made.drift = 1.003
    growth = fit_growth(*made.sweep(DOUBLED[:8], seconds=60.0).curve("seconds"))
    assert growth.exponent is not None and growth.exponent.mean == pytest.approx(1.0, abs=0.02)


def test_a_search_is_told_by_the_step(world: Callable[..., World], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MadeUpCase, "units", 10)
    [point] = world(lambda size: 0.5).sweep((1,)).points
    assert point.seconds == pytest.approx(0.05)


class TestLimits:
    def test_memory_that_is_expected_to_run_out(self, world: Callable[..., World]) -> None:
        measured = world(lambda size: 0.001, lambda size: 100 + 10 * size).sweep(available=1000)
        assert measured.points[-1].size == 64  # 128 would need 1,380, and 800 may be used
        assert measured.stop is not None and measured.stop.reason == MEMORY and measured.stop.predicted

    def test_memory_that_runs_out(self, world: Callable[..., World], monkeypatch: pytest.MonkeyPatch) -> None:
        made = world(lambda size: 0.001)

        def make(size: int) -> MadeUpCase:
            if size > 4:
                raise MemoryExhaustedError("no memory")
            return MadeUpCase(made, size)

        monkeypatch.setattr(made, "make", make)
        measured = made.sweep()
        assert [point.size for point in measured.points] == [1, 2, 4]
        assert measured.stop is not None and not measured.stop.predicted and measured.stop.size == 8

    def test_a_model_without_so_many_positions(self, world: Callable[..., World]) -> None:
        def cost(size: int) -> float:
            if size > 16:
                raise InputTooLongError("too long")
            return 0.001

        measured = world(cost).sweep()
        assert measured.points[-1].size == 16
        assert measured.stop is not None and measured.stop.reason == LENGTH

    def test_nothing_fits(self, world: Callable[..., World]) -> None:
        measured = world(lambda size: 100.0).sweep(seconds=1.0)
        assert len(measured.points) == 1 and len(measured.points[0].samples) == MIN_ROUNDS
