"""Predictions for several GPUs against rings that are simulated message by message."""

from __future__ import annotations

from dataclasses import replace

import pytest

from weft.apps.bench import report
from weft.apps.bench.cluster import (
    DATA_PARALLEL,
    FSDP,
    H200_MACHINE,
    Interconnect,
    Update,
    communication_seconds,
    forecast,
    parse_gpus,
    parse_interconnect,
    predict,
)
from weft.apps.bench.scale import Scale
from weft.errors import RecipeError

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
        pair = predict(DATA_PARALLEL, Update(10.0, 30.0, 70.0, overlap), 2, LINK)
        assert pair.seconds == pytest.approx(10.0 + max(0.0, waited))
        assert pair.tokens_per_second == pytest.approx(60.0 / pair.seconds)
        assert pair.efficiency == pytest.approx(10.0 / pair.seconds)
        assert pair.gpu_hours(1e6) == pytest.approx(2 * pair.run_hours(1e6))


def test_the_network_is_the_limit_of_several_machines() -> None:
    update = Update(0.03, 25_000.0, 4 * 60e6)
    speeds = [predict(DATA_PARALLEL, update, gpus, H200_MACHINE) for gpus in (1, 2, 8, 64)]
    assert [speed.efficiency for speed in speeds] == sorted((speed.efficiency for speed in speeds), reverse=True)
    assert speeds[2].efficiency > 0.9 > speeds[3].efficiency


def test_forecast_of_a_made_up_measurement(scale: Scale) -> None:
    """Updates of k sentences with 16 tokens take 10 + 2 k ms; the gradients have 4 × 1,234,567 bytes."""
    predicted = forecast(scale, gpus=[8, 2], interconnect="0.5", batch_tokens=300)
    assert predicted is not None
    assert (predicted.sentences, predicted.update.tokens) == (16, 256)  # 256 is nearer to 300 than 512
    pairs = predicted.predictions[DATA_PARALLEL]
    assert [speed.gpus for speed in pairs] == [1, 2, 8]
    assert pairs[0].tokens_per_second == pytest.approx(256 / 0.042)
    seconds = 0.042 + 2 * (4 * 1_234_567 / 2 / 0.5e9 + 15e-6)
    assert pairs[1].tokens_per_second == pytest.approx(512 / seconds)
    sharded = predicted.predictions[FSDP]
    assert sharded[1].seconds - 0.042 == pytest.approx(1.5 * (seconds - 0.042))
    table = predicted.table()
    assert table.rows[0] == ("1", "6,095", "1.00", "6,095", "1.00")
    assert table.rows[1][0] == "2" and table.rows[1][1] == f"{512 / seconds:,.0f}"


def test_forecast_in_text_and_json(scale: Scale) -> None:
    predicted = forecast(scale, gpus=[64], interconnect="nvlink", batch_tokens=10**6)
    joined = " ".join(report.text(scale, 90, forecast=predicted).split())
    assert (
        "Several GPUs, predicted" in joined and "not measured. Each computes updates as this CPU does: 138 ms" in joined
    )
    assert "64 sentences with 1,024 target tokens" in joined and "training.batch_tokens = 1,000,000" in joined
    assert "300 GB/s between the 8 GPUs of a machine, 40 GB/s for each GPU between machines" in joined
    assert "sums 4.94 MB of gradients" in joined and "Left out: " in joined
    values = report.json_record(scale, predicted)["cluster"]
    assert values["interconnect"]["network_rate"] == 40e9 and values["update"]["sentences"] == 64
    assert [speed["gpus"] for speed in values["predictions"]["FSDP"]] == [1, 64]
    assert len(values["assumptions"]) == 4 and "cluster" not in report.json_record(scale)


def test_no_forecast_without_updates(scale: Scale) -> None:
    assert forecast(replace(scale, curves=scale.curves[1:]), gpus=[2], interconnect="25", batch_tokens=10) is None


def test_interconnects() -> None:
    assert parse_interconnect("nvlink") == H200_MACHINE
    assert parse_interconnect("infiniband").rate(2) == 40e9 and parse_interconnect("12.5").rate(64) == 12.5e9


@pytest.mark.parametrize("given", ["nvlnk", "0", "-3", "inf", "nan", ""])
def test_unknown_interconnect(given: str) -> None:
    with pytest.raises(RecipeError, match=r"unknown interconnect; .*or a rate in GB/s, such as 25$"):
        parse_interconnect(given)


@pytest.mark.parametrize("given", ["", "0", "2,", "two", "2;8", "99999999", "-2"])
def test_numbers_of_gpus(given: str) -> None:
    assert parse_gpus("2,8,64") == [2, 8, 64]
    with pytest.raises(RecipeError, match="expected numbers of GPUs separated by commas, such as 2,8,64"):
        parse_gpus(given)
