"""Predicted speed of training on several GPUs, from the speed of one and the rates of what connects them.

    update        t(n) = c + max(0, m(n) − o c)              c: an update of one worker, each with its own batches
    data parallel m(n) = 2 (n − 1)/n · b/r + 2 (n − 1) a     the gradients, b bytes, summed in a ring
    FSDP          m(n) = 3 (n − 1)/n · b/r + 3 (n − 1) a     weights gathered twice, gradients scattered once

r is the rate of the slowest link of the ring, in bytes a second in each direction: that between two GPUs of a machine
as long as all are in one, else the share that each GPU has of its machine's network. a is the latency of a message, o
the part of an update during which messages can be sent: 0 if the sum begins when all gradients are known, as in weft's
own data parallelism (`weft.training.distributed`), at most the two thirds that the backward pass takes. Rings are those
of Patarasuk & Yuan 2009, the three passes of FSDP those of Rajbhandari et al. 2020.

The model leaves out that the batch grows with n, so that a run may need other settings; that workers wait for the
slowest of them; that data must be read n times as fast; and that several rings can share the links of a machine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from weft.errors import RecipeError, nearest, option
from weft.evaluation.statistics import number
from weft.pictures.charts.table import Row, Table

if TYPE_CHECKING:
    from weft.apps.bench.scale import Scale
    from weft.apps.bench.sweep import Point

DATA_PARALLEL, FSDP = "data parallel", "FSDP"
PASSES = {DATA_PARALLEL: 2, FSDP: 3}
"""The number of times that the weights, or as many gradients, cross each link."""
MAX_GPUS = 1_000_000
GRADIENT_BYTES = 4
"""Gradients are summed, and weights gathered, in fp32."""
ASSUMPTIONS = (
    "Several GPUs are predicted, not measured. Each computes updates as this {device} does: {milliseconds} ms for a "
    "batch of its own, {batch:,} sentences with {tokens:,} target tokens; of the measured batches, this is the nearest "
    "to training.batch_tokens = {batch_tokens:,}.",
    "Interconnect {interconnect}: {links}, in each direction, as collectives reach it; {latency} µs for a message.",
    "Data parallel sums {bytes} MB of gradients (fp32) in a ring, two passes, after the backward pass. FSDP moves as "
    "many bytes in three passes; none of it is hidden by computation, which is the slowest case.",
    "Left out: that n times the batch can need other settings, waiting for the slowest worker, and that data must be "
    "read n times as fast.",
)


@dataclass(frozen=True)
class Interconnect:
    """The links between the GPUs of a cluster."""

    per_machine: int
    """GPUs of a machine."""
    machine_rate: float
    """Bytes a second between two GPUs of a machine, in each direction."""
    network_rate: float
    """Bytes a second of the network for each GPU, in each direction."""
    latency: float
    """Seconds of a message."""

    def rate(self, gpus: int) -> float:
        """Bytes a second of the slowest link in a ring of all GPUs."""
        return self.machine_rate if gpus <= self.per_machine else min(self.machine_rate, self.network_rate)


H200_MACHINE = Interconnect(per_machine=8, machine_rate=300e9, network_rate=40e9, latency=15e-6)
"""Eight H200 with NVLink, 450 GB/s in each direction, of which collectives reach two thirds; a network of 400 Gbit/s
(50 GB/s) for each GPU, of which they reach 80 %."""
INTERCONNECTS = {"nvlink": H200_MACHINE, "infiniband": replace(H200_MACHINE, per_machine=1, machine_rate=40e9)}
"""InfiniBand: that network alone, with one GPU in each machine."""


@dataclass(frozen=True)
class Update:
    """An update of one worker."""

    seconds: float
    """Seconds without any communication."""
    tokens: float
    """Target tokens of its batches."""
    communicated_bytes: float
    """Bytes of the gradients that are summed (data parallel), or of the weights that are gathered (FSDP)."""
    overlap: float = 0.0
    """The part of the update during which messages can be sent."""


@dataclass(frozen=True)
class Prediction:
    """The speed of a number of GPUs."""

    gpus: int
    seconds: float
    """Seconds of an update."""
    tokens_per_second: float
    efficiency: float
    """Tokens a second of each GPU, relative to a single one."""

    def run_hours(self, tokens: float) -> float:
        """Hours of a run that reads so many target tokens."""
        return tokens / self.tokens_per_second / 3600

    def gpu_hours(self, tokens: float) -> float:
        """Hours of a run times its GPUs, which is what it costs."""
        return self.gpus * self.run_hours(tokens)


def communication_seconds(kind: str, size: float, gpus: int, link: Interconnect) -> float:
    """Seconds of the messages of an update of ``size`` bytes, if nothing else happens."""
    messages = PASSES[kind] * (gpus - 1)
    return messages * (size / gpus / link.rate(gpus) + link.latency)


def predict(kind: str, update: Update, gpus: int, link: Interconnect) -> Prediction:
    """The predicted speed of ``gpus`` workers that each compute an update like this one."""
    messages = communication_seconds(kind, update.communicated_bytes, gpus, link)
    seconds = update.seconds + max(0.0, messages - update.overlap * update.seconds)
    return Prediction(gpus, seconds, gpus * update.tokens / seconds, update.seconds / seconds)


class Forecast(NamedTuple):
    """The predicted speeds of several numbers of GPUs, from a measured update."""

    device: str
    sentences: int
    """Batch size of the measured update."""
    update: Update
    batch_tokens: int
    """The largest batch of the recipe."""
    interconnect: str
    """As it was given: nvlink, infiniband or a rate."""
    link: Interconnect
    predictions: dict[str, list[Prediction]]
    """By kind of parallelism, in ascending order of GPUs; the first is one GPU alone."""

    def table(self) -> Table:
        """A row for each number of GPUs."""
        headings = [f"{kind}, {column}" for kind in self.predictions for column in ("tokens/s", "efficiency")]
        rows: list[Row] = []
        for predictions in zip(*self.predictions.values(), strict=True):
            cells = [cell(prediction) for prediction in predictions for cell in (_speed, _efficiency)]
            rows.append((f"{predictions[0].gpus:,}", *cells))
        return Table(("GPUs", *headings), rows, "Several GPUs, predicted")

    def assumptions(self) -> list[str]:
        """The conditions of the predictions, as sentences."""
        within, between = f"{number(self.link.machine_rate / 1e9)} GB/s", f"{number(self.link.network_rate / 1e9)} GB/s"
        links = f"{between} for each GPU"
        if self.link.per_machine > 1:
            links = f"{within} between the {self.link.per_machine} GPUs of a machine, {links} between machines"
        values = {
            "device": self.device,
            "milliseconds": number(self.update.seconds * 1e3),
            "batch": self.sentences,
            "tokens": round(self.update.tokens),
            "batch_tokens": self.batch_tokens,
            "interconnect": self.interconnect,
            "links": links,
            "latency": number(self.link.latency * 1e6),
            "bytes": number(self.update.communicated_bytes / 1e6),
        }
        return [sentence.format(**values) for sentence in ASSUMPTIONS]

    def record(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "update": {**asdict(self.update), "sentences": self.sentences},
            "interconnect": {"name": self.interconnect, **asdict(self.link)},
            "predictions": {
                kind: [asdict(prediction) for prediction in predictions]
                for kind, predictions in self.predictions.items()
            },
            "assumptions": self.assumptions(),
        }


def forecast(scale: Scale, *, gpus: Sequence[int], interconnect: str, batch_tokens: int) -> Forecast | None:
    """The predictions from a measurement, of which the update nearest to ``batch_tokens`` counts; None if the time
    did not suffice for any."""
    points = [
        point
        for curve in scale.curves
        if (curve.phase.name, curve.axis.name) == ("update", "batch")
        for point in curve.points
    ]
    if not points:
        return None
    tokens = max(scale.base.source_length, scale.base.target_length)  # of a sentence, as batches are limited

    def distance(point: Point) -> float:
        return abs(math.log(point.size * tokens / batch_tokens))

    point = min(points, key=distance)
    size = GRADIENT_BYTES * scale.parameters
    update = Update(point.seconds, point.size * scale.base.target_length, size)
    link = parse_interconnect(interconnect)
    counts = sorted({1, *gpus})
    predictions = {kind: [predict(kind, update, count, link) for count in counts] for kind in PASSES}
    return Forecast(scale.device, point.size, update, batch_tokens, interconnect, link, predictions)


def parse_gpus(given: str) -> list[int]:
    """The numbers of ``--gpus 2,8,64``."""
    counts = [int(part) if part.isascii() and part.isdigit() and len(part) < 9 else 0 for part in given.split(",")]
    if not all(1 <= count <= MAX_GPUS for count in counts):
        raise RecipeError(f"{option('gpus', given)}: expected numbers of GPUs separated by commas, such as 2,8,64")
    return counts


def parse_interconnect(given: str) -> Interconnect:
    """A known interconnect, or the rate between any two GPUs in GB/s."""
    if given in INTERCONNECTS:
        return INTERCONNECTS[given]
    try:
        rate = float(given)
    except ValueError:
        rate = math.nan
    if not 0 < rate < math.inf:
        allowed = f"{nearest(given, INTERCONNECTS)}; or a rate in GB/s, such as 25"
        raise RecipeError(f"{option('interconnect', given)}: unknown interconnect; {allowed}")
    return replace(H200_MACHINE, per_machine=1, machine_rate=rate * 1e9, network_rate=rate * 1e9)


def _speed(prediction: Prediction) -> str:
    return f"{prediction.tokens_per_second:,.0f}"


def _efficiency(prediction: Prediction) -> str:
    return f"{prediction.efficiency:.2f}"
