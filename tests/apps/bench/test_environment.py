"""What a measurement may depend on."""

from __future__ import annotations

import platform

from weft.apps.bench.environment import environment


def test_the_machine_is_described_without_its_name() -> None:
    known = environment()
    assert set(known) == {"weft", "torch", "python", "machine"} and "core" in known["machine"]
    assert not platform.node() or platform.node() not in str(known)
