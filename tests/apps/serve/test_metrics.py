"""The text format of Prometheus."""

from __future__ import annotations

from weft.apps.serve.metrics import BATCH_ROWS, METRICS, REQUESTS, WAITING, Metrics


def test_counters_gauges_and_histograms() -> None:
    metrics = Metrics()
    metrics.add(REQUESTS, path='/a"b\\c\n', status="200")
    metrics.add(REQUESTS, 2, path='/a"b\\c\n', status="200")
    metrics.set(WAITING, 3, model_name="m")
    for rows in (1, 2, 3, 1000):
        metrics.observe(BATCH_ROWS, rows, model_name="m")
    lines = metrics.text().splitlines()
    assert r'weft_requests_total{path="/a\"b\\c\n",status="200"} 3' in lines
    assert 'weft_num_requests_waiting{model_name="m"} 3' in lines
    assert 'weft_batch_rows_bucket{model_name="m",le="1.0"} 1' in lines
    assert 'weft_batch_rows_bucket{model_name="m",le="4.0"} 3' in lines
    assert 'weft_batch_rows_bucket{model_name="m",le="+Inf"} 4' in lines
    assert 'weft_batch_rows_sum{model_name="m"} 1006' in lines
    assert 'weft_batch_rows_count{model_name="m"} 4' in lines
    assert sum(line.startswith("# TYPE") for line in lines) == len(METRICS)
