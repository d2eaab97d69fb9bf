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

from dataclasses import dataclass

DATA_PARALLEL, FSDP = "data parallel", "FSDP"
PASSES = {DATA_PARALLEL: 2, FSDP: 3}
"""The number of times that the weights, or as many gradients, cross each link."""


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
