"""Garbage collection while a command imports modules."""

from __future__ import annotations

import gc

import pytest

from weft.cli.model_loading import collection_paused


@pytest.mark.parametrize("enabled", [True, False])
def test_collection_is_paused_and_goes_on_as_before(enabled: bool) -> None:
    was_enabled = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        with pytest.raises(KeyError), collection_paused():
            assert not gc.isenabled()
            raise KeyError
        assert gc.isenabled() == enabled and gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
        (gc.enable if was_enabled else gc.disable)()
