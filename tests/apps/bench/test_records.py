"""A made-up result as JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from weft.apps.bench.records import from_record, record
from weft.apps.bench.scale import Scale
from weft.errors import DataError


def test_what_a_program_reads(scale: Scale) -> None:
    values = json.loads(json.dumps(record(scale)))
    assert values["base"]["beam"] == 5 and values["peaks"]["fp32"]["flops_per_second"] == 1e11
    updates, steps = values["curves"]
    assert updates["time"]["exponent"] == pytest.approx(1.0) and updates["time"]["problem"] is None
    assert updates["time"]["fixed"] == pytest.approx(0.01, rel=0.01)
    assert steps["time"] == {
        **{"exponent": None, "interval": None, "fixed": None, "factor": None, "error": pytest.approx(0, abs=1e-6)},
        "problem": "too few sizes: 2",
    }
    assert steps["out_of_memory_at"] == 4 and steps["ran_out_of_memory"]
    assert updates["points"][0]["seconds"] == 0.012 and len(updates["points"]) == 7


def test_back(scale: Scale) -> None:
    assert from_record(json.loads(json.dumps(record(scale))), "scale.json") == scale


@pytest.mark.parametrize("values", [[], {}, {"peaks": {}}, 3])
def test_another_file(values: Any) -> None:
    with pytest.raises(
        DataError, match=r"scale\.json: not a measurement; write one with weft bench scale RECIPE --json"
    ):
        from_record(values, "scale.json")
