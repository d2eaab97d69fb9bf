"""Checkpoints are data: nothing in them is executed."""

from __future__ import annotations

import functools
import os
import pickle
import subprocess
import zipfile
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from weft.errors import CheckpointError
from weft.interop.checkpoints.importing import read_model
from weft.interop.checkpoints.safe_loading import attributes_of, load_checkpoint
from weft.interop.imported_run import ImportOptions

MARK = "executed"
REFUSED = "not imported: it holds an object that is not plain data"


class Call:
    """Pickled as a call of a function."""

    def __init__(self, function: Callable[..., Any], *arguments: Any, state: Any = None) -> None:
        self.result = (function, arguments) if state is None else (function, arguments, state)

    def __reduce__(self) -> Any:
        return self.result


COMMAND = f"touch {MARK}"
MALICIOUS = {
    "a command": Call(os.system, COMMAND),
    "an expression": Call(eval, f"open({MARK!r}, 'w')"),
    "a program": Call(subprocess.Popen, ["touch", MARK]),
    "a file": Call(open, MARK, "w"),
    "an attribute": Call(getattr, os, "system"),
    "a deferred command": Call(functools.partial, os.system, COMMAND),
    "a command among options": Namespace(arch="transformer", data=Call(os.system, COMMAND)),
    "a command as a key": {Call(os.system, COMMAND): 1},
    "a module": torch.nn.Linear(2, 2),
}


@pytest.mark.parametrize("name", MALICIOUS)
@pytest.mark.parametrize("archive", [True, False], ids=["archive", "older format"])
def test_no_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, archive: bool) -> None:
    monkeypatch.chdir(tmp_path)
    content = {"model": {"weight": torch.zeros(2)}, "args": MALICIOUS[name]}
    if name == "an attribute":
        content["args"] = Call(getattr, Namespace(), "x")
    torch.save(content, "m.pt", _use_new_zipfile_serialization=archive)
    with pytest.raises(CheckpointError, match=REFUSED) as error:
        read_model("m.pt", ImportOptions())
    assert "\n" not in str(error.value) and str(error.value).startswith("m.pt: ")
    assert [path.name for path in tmp_path.iterdir()] == ["m.pt"]


def test_a_plain_pickle_does_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.pt").write_bytes(pickle.dumps(Call(os.system, COMMAND), protocol=2))
    with pytest.raises(CheckpointError, match=r"^m.pt: "):
        load_checkpoint(Path("m.pt"))
    assert not Path(MARK).exists()


def test_options(tmp_path: Path) -> None:
    """Attributes of a namespace, with whatever was assigned to them; attributes that Python looks at mean nothing."""
    options = Namespace(arch="x", layers=[1, 2])
    options.__dict__ |= {"__class__": "y", "__setstate__": "z"}
    torch.save({"args": options, "cfg": {"a": 1}, "steps": 3}, tmp_path / "m.pt")
    content = load_checkpoint(tmp_path / "m.pt")
    assert attributes_of(content["args"])["layers"] == [1, 2]
    assert attributes_of(content["cfg"]) == {"a": 1} and attributes_of(content["steps"]) == {}


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-300])


def compressed(path: Path, *, stored: int = 0) -> None:
    """``stored``: how many entries are not compressed."""
    with zipfile.ZipFile(path) as archive:
        entries = {entry.filename: archive.read(entry) for entry in archive.infolist()}
    with zipfile.ZipFile(path, "w") as archive:
        for number, (name, data) in enumerate(entries.items()):
            archive.writestr(name, data, zipfile.ZIP_STORED if number < stored else zipfile.ZIP_DEFLATED)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (truncated, "damaged, incomplete, or not a checkpoint of PyTorch"),
        (compressed, "a compressed archive, not a checkpoint of PyTorch"),
        (lambda path: compressed(path, stored=1), "a compressed archive, not a checkpoint of PyTorch"),
        (lambda path: path.write_bytes(b""), "damaged, incomplete, or not a checkpoint of PyTorch"),
        (lambda path: path.write_bytes(b"x" * 100), "damaged, incomplete, or not a checkpoint of PyTorch"),
        (lambda path: torch.save([1], path), "not a checkpoint of fairseq, OpenNMT-py or Joey NMT: it holds no named"),
        (
            lambda path: torch.save({1: 2}, path),
            "not a checkpoint of fairseq, OpenNMT-py or Joey NMT: it holds no named",
        ),
        (
            lambda path: torch.save({"model": 1, 1: 2}, path),
            "not a checkpoint of fairseq, OpenNMT-py or Joey NMT: it holds no named",
        ),
    ],
    ids=[
        "truncated",
        "compressed",
        "partly compressed",
        "empty",
        "something else",
        "a list",
        "numbers for names",
        "mixed",
    ],
)
def test_damaged(tmp_path: Path, damage: Callable[[Path], None], message: str) -> None:
    path = tmp_path / "m.pt"
    torch.save({"model": torch.zeros(50)}, path)
    damage(path)
    with pytest.raises(CheckpointError, match=message) as error:
        load_checkpoint(path)
    assert "\n" not in str(error.value)


def test_bytes_that_are_changed_at_random(tmp_path: Path) -> None:
    """Whatever is wrong with a file, the error is one line."""
    path = tmp_path / "m.pt"
    torch.save({"args": Namespace(a=1), "model": {"x": torch.zeros(3)}}, path)
    data, generator = path.read_bytes(), torch.Generator().manual_seed(1)
    for _ in range(40):
        changed = bytearray(data)
        for position in torch.randint(len(data), (3,), generator=generator).tolist():
            changed[position] = int(torch.randint(256, (1,), generator=generator))
        path.write_bytes(changed)
        try:
            load_checkpoint(path)
        except CheckpointError as error:
            assert "\n" not in str(error)
