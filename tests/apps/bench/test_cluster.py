"""Predictions for several GPUs against rings that are simulated message by message."""

from __future__ import annotations

import pytest

from weft.apps.bench.cluster import (
    DATA_PARALLEL,
    FSDP,
    H200_MACHINE,
    Interconnect,
    Update,
    communication_seconds,
    predict,
)

LINK = Interconnect(per_machine=4, machine_rate=11.0, network_rate=3.0, latency=0.25)


def ring_pass(gpus: int, size: float, link: Interconnect, *, adds: bool) -> tuple[float, list[list[set[int]]]]:
    """Every worker sends a part to its neighbor, n − 1 times: the seconds, and whose values each part has at the end.

    Workers are numbered by machine; a round takes as long as its slowest link.
    """
    parts = [[{worker} if adds or part == worker else set() for part in range(gpus)] for worker in range(gpus)]
    seconds = 0.0
    for turn in range(gpus - 1):
        slowest, sent = 0.0, []
        for worker in range(gpus):
            neighbor, part = (worker + 1) % gpus, (worker - turn) % gpus
            is_local = worker // link.per_machine == neighbor // link.per_machine
            rate = link.machine_rate if is_local else link.network_rate
            slowest = max(slowest, size / gpus / rate + link.latency)
            sent.append((neighbor, part, set(parts[worker][part])))
        for neighbor, part, values in sent:
            parts[neighbor][part] = parts[neighbor][part] | values if adds else values
        seconds += slowest
    return seconds, parts


@pytest.mark.parametrize("gpus", [1, 2, 3, 4, 5, 8, 13])
def test_messages_of_rings(gpus: int) -> None:
    scatter, sums = ring_pass(gpus, 70.0, LINK, adds=True)
    gather, gathered = ring_pass(gpus, 70.0, LINK, adds=False)
    everyone = set(range(gpus))
    assert all(any(sums[worker][part] == everyone for worker in range(gpus)) for part in range(gpus))
    assert all(gathered[worker][part] == {part} for worker in range(gpus) for part in range(gpus))
    assert communication_seconds(DATA_PARALLEL, 70.0, gpus, LINK) == pytest.approx(scatter + gather)
    assert communication_seconds(FSDP, 70.0, gpus, LINK) == pytest.approx(scatter + 2 * gather)


def test_one_worker_is_what_was_measured() -> None:
    alone = predict(FSDP, Update(0.5, 100.0, 1e9), 1, H200_MACHINE)
    assert (alone.seconds, alone.tokens_per_second, alone.efficiency) == (0.5, 200.0, 1.0)
    assert alone.run_hours(720_000.0) == 1.0 and alone.gpu_hours(720_000.0) == 1.0


def test_messages_that_computation_hides_take_no_time() -> None:
    messages = communication_seconds(DATA_PARALLEL, 70.0, 2, LINK)
    for overlap, waited in ((0.0, messages), (0.25, messages - 2.5), (1.0, 0.0)):
        found = predict(DATA_PARALLEL, Update(10.0, 30.0, 70.0, overlap), 2, LINK)
        assert found.seconds == pytest.approx(10.0 + max(0.0, waited))
        assert found.tokens_per_second == pytest.approx(60.0 / found.seconds)
        assert found.efficiency == pytest.approx(10.0 / found.seconds)
        assert found.gpu_hours(1e6) == pytest.approx(2 * found.run_hours(1e6))


def test_the_network_is_the_limit_of_several_machines() -> None:
    update = Update(0.03, 25_000.0, 4 * 60e6)
    speeds = [predict(DATA_PARALLEL, update, gpus, H200_MACHINE) for gpus in (1, 2, 8, 64)]
    assert [one.efficiency for one in speeds] == sorted((one.efficiency for one in speeds), reverse=True)
    assert speeds[2].efficiency > 0.9 > speeds[3].efficiency
