"""Scaling measurements as tables, charts, text and files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import wrap
from typing import Any

from rich.text import Text

from weft.apps.bench.cluster import Forecast
from weft.apps.bench.growth import FLAT, Growth
from weft.apps.bench.limits import BANDWIDTH, PRODUCTS
from weft.apps.bench.records import record
from weft.apps.bench.scale import Curve, Scale
from weft.apps.bench.sizes import AXES, SizeAxis
from weft.apps.bench.sweep import LENGTH, MEMORY
from weft.evaluation.statistics import number
from weft.files import save_text
from weft.pictures.charts.chart import Chart, Series
from weft.pictures.charts.table import Row, Table, table_lines
from weft.pictures.charts.terminal import chart_lines
from weft.pictures.terminal import render_lines
from weft.runtime.devices import gigabytes

MAX_PROSE = 100
NEAR = 100
"""A chart of memory shows the available memory if it is at most this many times the highest value."""
LIMITS = {PRODUCTS: "products", BANDWIDTH: "bandwidth"}
NOTES = (
    "Time and memory are fitted by a + b n^p: a is the fixed part, p the exponent with its 95 % interval; where the "
    "fit does not determine p, or is poor, that is said instead.",
    "Memory is weights and optimizer state, plus what a call needs at its peak: {memory}. Out of memory: where the "
    "fitted curve reaches the {available} that were available; * where it did run out.",
    "Share of peak: the matrix products (or the bytes moved at least) per second, relative to one large product (or "
    "one large copy) on this machine: {peaks}. Limit: the rate of which at least half is reached.",
)


def heading(scale: Scale) -> list[str]:
    """The setup: recipe, device, precision and sizes."""
    threads = "" if scale.device != "CPU" else f", {scale.threads} thread{'s' if scale.threads > 1 else ''}"
    precisions = " and ".join(dict.fromkeys(scale.precision.values()))
    base = scale.base
    return [
        f"{scale.recipe} on {scale.device}{threads}, {precisions}, {scale.parameters:,} parameters",
        f"One size varies at a time; the others: source length {base.source_length}, target length "
        f"{base.target_length}, batch size {base.batch}, beam size {base.beam}, vocabulary size {base.vocabulary:,}",
    ]


def tables(scale: Scale) -> list[Table]:
    """Time, memory, and the shares of the peaks."""
    curves = [curve for curve in scale.curves if curve.points]
    times: list[Row] = [
        (name(curve), sizes(curve), _range(curve, "seconds", 1e3), _fixed(curve.time), curve.time.text())
        for curve in curves
    ]
    memories: list[Row] = [
        (name(curve), sizes(curve), _range(curve, "memory", 1e-6), curve.memory.text(), _memory_limit(curve))
        for curve in curves
        if curve.measured.curve("memory")[0]
    ]
    measured = [
        Table(("", "sizes", "time (ms)", "fixed part", "exponent"), times, "Time"),
        Table(("", "sizes", "memory (MB)", "exponent", "out of memory at"), memories, "Memory"),
        Table(
            ("", "at size", "GFLOP/s", "share of peak", "GB/s", "share of peak", "limit"),
            [_share_row(curve) for curve in curves],
            "Share of peak, at the largest size",
        ),
    ]
    return [table for table in measured if table.rows]


def name(curve: Curve) -> str:
    return f"{curve.phase.name}, {curve.axis.label}"


def sizes(curve: Curve) -> str:
    first, last = curve.points[0].size, curve.points[-1].size
    return f"{first:,}" if first == last else f"{first:,}–{last:,}"


def _range(curve: Curve, attribute: str, factor: float) -> str:
    """The first and the last value of a curve."""
    _, values = curve.measured.curve(attribute)
    ends = [number(value * factor) for value in (values[0], values[-1])]
    return ends[0] if len(values) == 1 else f"{ends[0]}–{ends[1]}"


def _fixed(growth: Growth) -> str | None:
    return None if growth.exponent is None else number(growth.fixed * 1e3)


def _memory_limit(curve: Curve) -> str | None:
    limit = curve.memory_limit
    return None if limit is None else f"{limit:,}{'*' if curve.ran_out_of_memory else ''}"


def _share_row(curve: Curve) -> Row:
    reached = curve.reached[-1]
    return (
        name(curve),
        f"{curve.points[-1].size:,}",
        number(reached.flops_per_second / 1e9),
        f"{reached.flops_share:.0%}",
        number(reached.bytes_per_second / 1e9),
        f"{reached.bandwidth_share:.0%}",
        LIMITS.get(reached.limit),
    )


def charts(scale: Scale) -> list[Chart]:
    """Two charts per size: time beside the least time that the machine allows, and memory beside what is available."""
    drawn = []
    for axis in AXES.values():
        curves = [curve for curve in scale.curves if curve.axis == axis and len(curve.points) > 1]
        if not curves:
            continue
        drawn.append(_time_chart(axis, curves))
        if known := [curve for curve in curves if curve.measured.curve("memory")[0]]:
            drawn.append(_memory_chart(axis, known, scale.available_memory))
    return drawn


def _time_chart(axis: SizeAxis, curves: list[Curve]) -> Chart:
    series = []
    for curve in curves:
        points = tuple((float(point.size), point.seconds * 1e3) for point in curve.points)
        fastest = tuple(
            (float(point.size), curve.peaks.fastest(work) * 1e3)
            for point, work in zip(curve.points, curve.works, strict=True)
        )
        series += [Series(curve.phase.label, points), Series(f"{curve.phase.label}, at peak", fastest)]
    title = _title("Time", axis, curves, lambda curve: curve.time)
    return _chart("time", axis, title, "time (ms)", series, ())


def _memory_chart(axis: SizeAxis, curves: list[Curve], available: int | None) -> Chart:
    series: list[Series] = []
    highest = 0.0
    for curve in curves:
        known_sizes, values = curve.measured.curve("memory")
        points = tuple((float(size), value / 1e6) for size, value in zip(known_sizes, values, strict=True))
        series.append(Series(curve.phase.label, points))
        highest = max([highest, *values])
    near = available is not None and available <= NEAR * highest
    references = (("available", available / 1e6),) if available is not None and near else ()
    title = _title("Memory", axis, curves, lambda curve: curve.memory)
    return _chart("memory", axis, title, "memory (MB)", series, references)


def _chart(
    kind: str, axis: SizeAxis, title: str, label: str, series: list[Series], references: tuple[tuple[str, float], ...]
) -> Chart:
    file = f"{kind}-{axis.name.replace('_', '-')}"
    x_label = f"{axis.label} n ({axis.unit})"
    return Chart(file, title, x_label, label, tuple(series), log_x=True, log_y=True, references=references)


def _title(what: str, axis: SizeAxis, curves: list[Curve], growth: Callable[[Curve], Growth]) -> str:
    """A title that states the exponents."""
    parts = []
    for curve in curves:
        fitted = growth(curve)
        if fitted.exponent is not None:
            parts.append(f"{curve.phase.label} n^{number(fitted.exponent.mean, decimals=2)}")
        else:
            parts.append(f"{curve.phase.label} {'flat' if fitted.problem == FLAT else 'without a clear exponent'}")
    return f"{what} by {axis.label}: {', '.join(parts)}"


def text(
    scale: Scale, width: int = 100, *, color: bool = False, ascii_only: bool = False, forecast: Forecast | None = None
) -> str:
    """The tables, charts and notes for a terminal."""
    return render_lines([*_lines(scale, width, ascii_only, forecast)], width, color=color, ascii_only=ascii_only)


def _lines(scale: Scale, width: int, ascii_only: bool, forecast: Forecast | None) -> Iterator[Text]:
    prose = min(width, MAX_PROSE)
    first, *others = heading(scale)
    yield Text(first, style="bold")
    for line in others:
        yield from map(Text, wrap(line, prose))
    for table in [*tables(scale), *([] if forecast is None else [forecast.table()])]:
        yield Text()
        yield from table_lines(table)
    for chart in charts(scale):
        yield Text()
        yield from chart_lines(chart, width, ascii_only=ascii_only)
    yield Text()
    for note in [*notes(scale), *([] if forecast is None else forecast.assumptions())]:
        yield from map(Text, wrap(note, prose))


def notes(scale: Scale) -> list[str]:
    """Notes on reading the tables, and on the sizes that were left out."""
    on_cpu = scale.device == "CPU"
    memory = "resident memory of the process" if on_cpu else "memory of tensors on the GPU"
    available = "memory" if scale.available_memory is None else gigabytes(scale.available_memory)
    peaks = "; ".join(
        f"{number(peak.flops_per_second / 1e9)} GFLOP/s in {precision}, {number(peak.bytes_per_second / 1e9)} GB/s"
        for precision, peak in scale.peaks.items()
    )
    explained = [note.format(memory=memory, available=available, peaks=peaks) for note in NOTES]
    stops = {LENGTH: "has no positions for", MEMORY: "has no memory for"}
    for curve in scale.curves:
        stop = curve.measured.stop
        if stop is not None and stop.reason in stops:
            explained.append(f"{name(curve)}: the model {stops[stop.reason]} {stop.size:,} {curve.axis.unit}.")
    short = [name(curve) for curve in scale.curves if curve.time.problem.startswith("too few")]
    if short:
        explained.append(f"More sizes need more time (--minutes): {'; '.join(short)}.")
    return explained


def json_record(scale: Scale, forecast: Forecast | None = None) -> dict[str, Any]:
    """A measurement as JSON values, with what is predicted from it."""
    return record(scale) if forecast is None else {**record(scale), "cluster": forecast.record()}


def save(scale: Scale, folder: Path, forecast: Forecast | None = None) -> list[Path]:
    """Write scale.json and every chart as SVG and PNG into a folder; the paths of the files."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / "scale.json"]
    save_text(paths[0], json.dumps(json_record(scale, forecast), ensure_ascii=False, indent=1) + "\n")
    for chart in charts(scale):
        paths += [chart.save(folder / f"{chart.name}.{suffix}") for suffix in ("svg", "png")]
    return paths
