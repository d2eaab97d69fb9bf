"""Which file of a folder is the checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.errors import WeftError
from weft.interop.checkpoints.files import find_checkpoint, is_checkpoint


def make(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).touch()
    return folder


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (["a.pt"], "a.pt"),
        (["checkpoint_last.pt", "checkpoint_best.pt", "checkpoint3.pt"], "checkpoint_best.pt"),
        (["best.ckpt", "1000.ckpt", "latest.ckpt"], "best.ckpt"),
        (["m_step_9.pt", "m_step_10.pt"], "m_step_10.pt"),
    ],
)
def test_chosen(tmp_path: Path, names: list[str], chosen: str) -> None:
    assert is_checkpoint(make(tmp_path, *names)) and find_checkpoint(tmp_path) == tmp_path / chosen


def test_several(tmp_path: Path) -> None:
    with pytest.raises(WeftError, match=r"has 2 checkpoints; name one of them, such as .*a\.pt"):
        find_checkpoint(make(tmp_path, "a.pt", "b.pt"))


def test_what_is_none(tmp_path: Path) -> None:
    assert not is_checkpoint(tmp_path) and not is_checkpoint(tmp_path / "m.pt")
    assert not is_checkpoint(make(tmp_path, "a.pt", "config.json"))
