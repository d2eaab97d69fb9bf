"""Run folders of strangers: whatever is in their files, a run is loaded or there is an error of one line."""

from __future__ import annotations

import shutil
import struct
import warnings
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from weft.errors import WeftError
from weft.translation.load import load

FILES = ("recipe.toml", "tokenizer.json", "model.safetensors", "lengths.json")
PIECES = [b"0", b"-1", b"1e999", b"nan", b"9" * 30, b"9" * 5000, b"[" * 3000, b'"', b"{", b"}", b"null", b"true", b"\0"]
PIECES += [b"\xff", b"\xc3", b"\xf0\x9f\x99\x82", b'"\\ud800"', b"\n", b"=", b"[model]", b"kind", b"..", b"/dev/zero"]
EDITS = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 12), st.sampled_from(PIECES) | st.binary(max_size=6)),
    min_size=1,
    max_size=3,
)


def edited(content: bytes, edits: list[tuple[float, int, bytes]]) -> bytes:
    for position, removed, piece in edits:
        start = int(position * len(content))
        content = content[:start] + piece + content[start + removed :]
    return content


def outcome(run: Path) -> str | None:
    """The error of loading a run and translating with it, if there is one."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            load(run, device="cpu").translate("a b", max_length=4)
    except WeftError as error:
        return str(error)
    return None


@pytest.fixture(scope="module")
def folder(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(finished, tmp_path_factory.mktemp("fuzzed") / "run"))


@pytest.mark.parametrize("name", FILES)
@given(edits=EDITS)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_changed_file(name: str, edits: list[tuple[float, int, bytes]], folder: Path, finished: Path) -> None:
    original = (finished / name).read_bytes()
    (folder / name).write_bytes(edited(original, edits))
    try:
        outcome(folder)
    finally:
        (folder / name).write_bytes(original)


@given(edits=EDITS)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_changed_header_of_the_tensors(edits: list[tuple[float, int, bytes]], folder: Path, finished: Path) -> None:
    original = (finished / "model.safetensors").read_bytes()
    size = struct.unpack("<Q", original[:8])[0]
    header = edited(original[8 : 8 + size], edits)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + original[8 + size :])
    try:
        outcome(folder)
    finally:
        (folder / "model.safetensors").write_bytes(original)


def test_a_header_without_end(folder: Path, finished: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(struct.pack("<Q", 1 << 40) + b"{}")
    message = outcome(folder)
    path.write_bytes((finished / "model.safetensors").read_bytes())
    assert message is not None and "the limit is 16,777,216" in message
