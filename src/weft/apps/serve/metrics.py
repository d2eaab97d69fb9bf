"""Counters and histograms in the text format of Prometheus. Labels are models, paths and statuses: never clients."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
ROWS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0)


class Metric(NamedTuple):
    """The name, kind and help of a metric."""

    name: str
    kind: str
    help: str
    buckets: tuple[float, ...] = ()


REQUESTS = Metric("weft_requests_total", "counter", "Requests by path and status.")
LATENCY = Metric("weft_e2e_request_latency_seconds", "histogram", "From a request to its answer.", SECONDS)
QUEUE_TIME = Metric("weft_request_queue_time_seconds", "histogram", "From a request to its search.", SECONDS)
FIRST_TOKEN = Metric(
    "weft_time_to_first_token_seconds", "histogram", "From a streamed request to its first step.", SECONDS
)
RUNNING = Metric("weft_num_requests_running", "gauge", "Requests that are being searched.")
WAITING = Metric("weft_num_requests_waiting", "gauge", "Requests that wait for a model.")
TEXTS = Metric("weft_texts_total", "counter", "Texts that were translated or scored.")
BATCH_ROWS = Metric("weft_batch_rows", "histogram", "Texts that were searched together.", ROWS)
REFUSED = Metric("weft_requests_refused_total", "counter", "Requests that were refused because too many waited.")
ABANDONED = Metric("weft_requests_abandoned_total", "counter", "Requests whose client has left, or that took too long.")
RESTARTS = Metric("weft_worker_restarts_total", "counter", "How often the worker of a model had to be started again.")
OPERATION_TIME = Metric(
    "weft_operation_seconds",
    "histogram",
    "Seconds in a worker, by operation: translate, stream, score, heads …",
    SECONDS,
)
OPERATION_ERRORS = Metric("weft_operation_errors_total", "counter", "Operations that failed, by operation and status.")
STREAMS = Metric("weft_streams_open", "gauge", "Streams that are open.")
CONNECTIONS = Metric("weft_connections_open", "gauge", "Connections that are open.")
READY = Metric("weft_model_ready", "gauge", "Whether a model can answer.")
METRICS = (
    *(REQUESTS, LATENCY, QUEUE_TIME, FIRST_TOKEN, RUNNING, WAITING, TEXTS, BATCH_ROWS),
    *(REFUSED, ABANDONED, RESTARTS, READY),
    *(OPERATION_TIME, OPERATION_ERRORS, STREAMS, CONNECTIONS),
)

Labels = tuple[tuple[str, str], ...]


class Metrics:
    """The values of all metrics of a service."""

    def __init__(self) -> None:
        self.values: dict[Metric, dict[Labels, float]] = defaultdict(lambda: defaultdict(float))
        self.counts: dict[Metric, dict[Labels, list[int]]] = defaultdict(dict)

    def add(self, metric: Metric, amount: float = 1.0, **labels: str) -> None:
        """Increase a counter."""
        self.values[metric][tuple(sorted(labels.items()))] += amount

    def set(self, metric: Metric, value: float, **labels: str) -> None:
        """Set a gauge."""
        self.values[metric][tuple(sorted(labels.items()))] = value

    def observe(self, metric: Metric, value: float, **labels: str) -> None:
        """Add a value to a histogram."""
        key = tuple(sorted(labels.items()))
        self.values[metric][key] += value
        counts = self.counts[metric].setdefault(key, [0] * (len(metric.buckets) + 1))
        counts[bisect_left(metric.buckets, value)] += 1

    def text(self) -> str:
        """The response of `/metrics`."""
        return "".join(f"{line}\n" for metric in METRICS for line in self._lines(metric))

    def _lines(self, metric: Metric) -> Iterator[str]:
        yield f"# HELP {metric.name} {metric.help}"
        yield f"# TYPE {metric.name} {metric.kind}"
        for labels, value in self.values[metric].items():
            if metric.kind != "histogram":
                yield f"{metric.name}{_braces(labels)} {value:.12g}"
                continue
            total = 0
            for bound, count in zip((*metric.buckets, "+Inf"), self.counts[metric][labels], strict=True):
                total += count
                yield f"{metric.name}_bucket{_braces((*labels, ('le', str(bound))))} {total}"
            yield f"{metric.name}_sum{_braces(labels)} {value:.12g}"
            yield f"{metric.name}_count{_braces(labels)} {total}"


def _braces(labels: Labels) -> str:
    if not labels:
        return ""
    escaped = ((name, value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")) for name, value in labels)
    return "{" + ",".join(f'{name}="{value}"' for name, value in escaped) + "}"
