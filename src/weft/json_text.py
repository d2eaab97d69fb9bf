"""Records as JSON, which has no infinity: numbers that are not finite are null."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def json_text(record: Any) -> str:
    """A record in one line; numbers that are not finite, such as log 0, are null."""
    return json.dumps(json_value(record), ensure_ascii=False)


def json_value(value: Any) -> Any:
    """The value as JSON has it: None for numbers that are not finite, lists for tuples, texts for names and paths."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(name): json_value(item) for name, item in value.items()}
    if isinstance(value, Path):
        return str(value)
    return [json_value(item) for item in value] if isinstance(value, Sequence) and not isinstance(value, str) else value
