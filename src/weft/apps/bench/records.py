"""Scaling measurements to JSON and back."""

from __future__ import annotations

import math
from typing import Any

from weft.apps.bench.growth import Growth
from weft.apps.bench.limits import MinimumWork, Peaks
from weft.apps.bench.scale import PHASES, Curve, Scale
from weft.apps.bench.sizes import AXES, Sizes
from weft.apps.bench.sweep import Point, Stop, SweepResult
from weft.errors import DataError


def record(scale: Scale) -> dict[str, Any]:
    """A measurement as JSON values."""
    return {
        "recipe": scale.recipe,
        "device": scale.device,
        "threads": scale.threads,
        "precision": scale.precision,
        "parameters": scale.parameters,
        "base": scale.base._asdict(),
        "seconds": scale.seconds,
        "available_memory_bytes": scale.available_memory,
        "peaks": {
            precision: {"flops_per_second": peak.flops_per_second, "bytes_per_second": peak.bytes_per_second}
            for precision, peak in scale.peaks.items()
        },
        "curves": [_curve_record(curve) for curve in scale.curves],
        "environment": scale.environment,
    }


def _curve_record(curve: Curve) -> dict[str, Any]:
    stop = curve.measured.stop
    return {
        "phase": curve.phase.name,
        "size": curve.axis.name,
        "time": _growth_record(curve.time),
        "memory": _growth_record(curve.memory),
        "out_of_memory_at": curve.memory_limit,
        "ran_out_of_memory": curve.ran_out_of_memory,
        "not_measured": None if stop is None else {"size": stop.size, "reason": stop.reason},
        "points": [
            {
                "size": point.size,
                "seconds": point.seconds,
                "samples": list(point.samples),
                "memory_bytes": point.memory,
                "flops": work.flops,
                "bytes": work.bytes,
                "flops_share": reached.flops_share,
                "bandwidth_share": reached.bandwidth_share,
                "limit": reached.limit,
            }
            for point, work, reached in zip(curve.points, curve.works, curve.reached, strict=True)
        ],
    }


def _growth_record(growth: Growth) -> dict[str, Any]:
    exponent = growth.exponent
    return {
        "exponent": None if exponent is None else exponent.mean,
        "interval": None if exponent is None else [exponent.low, exponent.high],
        "fixed": None if exponent is None else growth.fixed,
        "factor": None if exponent is None else growth.factor,
        "error": growth.error if math.isfinite(growth.error) else None,
        "problem": growth.problem or None,
    }


def from_record(record: Any, where: str) -> Scale:
    """The measurement that a record holds; ``where``: the file it is from."""
    try:
        peaks = {precision: Peaks(**rates) for precision, rates in record["peaks"].items()}
        available = record["available_memory_bytes"]
        return Scale(
            **{name: record[name] for name in ("recipe", "device", "threads", "precision", "parameters", "seconds")},
            base=Sizes(**record["base"]),
            curves=tuple(
                _curve(curve, peaks[record["precision"][curve["phase"]]], available) for curve in record["curves"]
            ),
            peaks=peaks,
            available_memory=available,
            environment=record["environment"],
        )
    except (KeyError, TypeError, AttributeError):
        raise DataError(f"{where}: not a measurement; write one with weft bench scale RECIPE --json") from None


def _curve(record: dict[str, Any], peaks: Peaks, available_memory: int | None) -> Curve:
    points = record["points"]
    stop = record["not_measured"]
    return Curve(
        {phase.name: phase for phase in PHASES}[record["phase"]],
        AXES[record["size"]],
        SweepResult(
            tuple(
                Point(point["size"], point["seconds"], tuple(point["samples"]), point["memory_bytes"])
                for point in points
            ),
            None if stop is None else Stop(stop["size"], stop["reason"], predicted=not record["ran_out_of_memory"]),
        ),
        tuple(MinimumWork(point["flops"], point["bytes"]) for point in points),
        peaks,
        available_memory,
    )
