"""A result that nothing had to be measured for."""

from __future__ import annotations

import pytest

from fixtures.costs import make_scale
from weft.apps.bench.scale import Scale


@pytest.fixture
def scale() -> Scale:
    return make_scale()
