"""Garbage collection while modules are imported and a run is loaded."""

from __future__ import annotations

import gc

import pytest

from weft.garbage_collection import collection_paused, existing_objects_exempt


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("freeze", [True, False])
def test_collection_is_paused_and_goes_on_as_before(enabled: bool, freeze: bool) -> None:
    was_enabled, frozen = gc.isenabled(), gc.get_freeze_count()
    try:
        (gc.enable if enabled else gc.disable)()
        with pytest.raises(KeyError), collection_paused(freeze=freeze):
            assert not gc.isenabled()
            raise KeyError
        assert gc.isenabled() == enabled
        assert (gc.get_freeze_count() > frozen) == freeze
    finally:
        gc.unfreeze()
        (gc.enable if was_enabled else gc.disable)()


def test_what_was_made_meanwhile_counts_as_old() -> None:
    gc.unfreeze()
    with collection_paused(promote=True):
        made = [[number] for number in range(2000)]
    assert gc.get_count()[0] < 1000 and gc.get_freeze_count() == 0
    assert any(item is made for item in gc.get_objects(generation=2))


def test_existing_objects_are_exempt_for_a_while() -> None:
    gc.unfreeze()  # what a command has exempt, in a test before this one
    with existing_objects_exempt():
        frozen = gc.get_freeze_count()
        assert frozen > 0
        with existing_objects_exempt():  # of whoever has done so already
            assert gc.get_freeze_count() <= frozen
        assert gc.get_freeze_count() > 0
    assert gc.get_freeze_count() == 0
