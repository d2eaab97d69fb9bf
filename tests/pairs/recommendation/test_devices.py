"""Which device a machine has, without torch."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.pairs.recommendation.devices import likely_device


@pytest.mark.parametrize(("file", "visible", "expected"), [
    (None, None, "cpu"), ("nvidia0", None, "cuda"), ("dxg", None, "cuda"), ("nvidia0", "0", "cuda"),
    ("nvidia0", "", "cpu"), ("nvidia0", "-1", "cpu"), ("null", None, "cpu"),
])  # fmt: skip
def test_a_gpu_has_a_device_file_and_is_not_hidden(
    file: str | None, visible: str | None, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    if file is not None:
        (tmp_path / file).touch()
    assert likely_device(tmp_path) == expected
