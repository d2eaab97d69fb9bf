"""Records become JSON that every reader accepts."""

from __future__ import annotations

import math
from pathlib import Path

from weft.files import json_text


def test_numbers_that_are_not_finite_are_null() -> None:
    record = {"a": -math.inf, "b": [1.5, math.nan], "c": {"d": (math.inf, 2)}, "e": "é", "f": None, "g": True}
    assert json_text(record) == ('{"a": null, "b": [1.5, null], "c": {"d": [null, 2]}, "e": "é", "f": null, "g": true}')


def test_names_and_paths_are_texts() -> None:
    assert json_text({2: Path("runs") / "try"}) == '{"2": "runs/try"}'
