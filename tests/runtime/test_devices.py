"""The device of a model."""

from __future__ import annotations

import pytest

from weft.errors import RecipeError
from weft.runtime.devices import choose_device


@pytest.mark.parametrize("name", ["tpu", "meta", "cuda:99x"])
def test_unknown_devices(name: str) -> None:
    with pytest.raises(RecipeError, match=f"^training.device: '{name}' is n"):
        choose_device(name)
