"""Records as JSON, which has no infinity: numbers that are not finite are null."""

from __future__ import annotations

import json
import math
from typing import Any


def json_text(record: Any) -> str:
    """A record in one line; log 0, and whatever else is not finite, is null."""
    return json.dumps(finite(record), ensure_ascii=False)


def finite(value: Any) -> Any:
    """The value with None for every number in it that is not finite."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: finite(item) for name, item in value.items()}
    return [finite(item) for item in value] if isinstance(value, list | tuple) else value
