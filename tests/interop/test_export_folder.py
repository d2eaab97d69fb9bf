"""Folders of exports: an earlier export is replaced, files of a user never."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from weft.errors import CheckpointError
from weft.interop.export_folder import check_replaceable, write_export


def fill_with(*names: str) -> Any:
    def fill(folder: Path) -> dict[str, Any]:
        for name in names:
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(name, "utf-8")
        return {"weights": "abc"}

    return fill


def files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_what_is_written(tmp_path: Path) -> None:
    folder = write_export(tmp_path / "export", "onnx", fill_with("b", "a/c"))
    assert folder == tmp_path / "export" and files(folder) == ["a/c", "b", "weft.json"]
    info = json.loads((folder / "weft.json").read_text("utf-8"))
    assert info == {"weft_export": "onnx", "weights": "abc", "files": ["a/c", "b"]}
    assert [path.name for path in tmp_path.iterdir()] == ["export"]


def test_an_earlier_export_is_replaced(tmp_path: Path) -> None:
    write_export(tmp_path / "export", "onnx", fill_with("old"))
    write_export(tmp_path / "export", "onnx", fill_with("new"))
    assert files(tmp_path / "export") == ["new", "weft.json"]
    assert [path.name for path in tmp_path.iterdir()] == ["export"]


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    (tmp_path / "export").mkdir()
    assert files(write_export(tmp_path / "export", "onnx", fill_with("new"))) == ["new", "weft.json"]


def test_a_failure_leaves_the_earlier_export(tmp_path: Path) -> None:
    write_export(tmp_path / "export", "onnx", fill_with("old"))

    def fill(folder: Path) -> dict[str, Any]:
        (folder / "new").write_text("x", "utf-8")
        raise OSError(28, "No space left on device", str(folder / "new"))

    with pytest.raises(OSError, match=r"No space left on device: '.*/export'$"):
        write_export(tmp_path / "export", "onnx", fill)
    assert files(tmp_path / "export") == ["old", "weft.json"]
    assert [path.name for path in tmp_path.iterdir()] == ["export"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"weft.json": '{"weft_export": "marian", "files": []}'}, "already exists and is not an export to onnx"),
        ({"weft.json": '{"weft_export": "onnx"}'}, "already exists and is not an export to onnx"),
        ({"weft.json": "["}, "already exists and is not an export to onnx; choose another folder with --out"),
        ({"weft.json": "[]"}, "already exists and is not an export to onnx"),
        ({"notes.txt": "x"}, "already exists and is not an export to onnx"),
        (
            {"weft.json": '{"weft_export": "onnx", "files": ["a"]}', "a": "", "mine/b": "", "mine/c": ""},
            "holds 'mine/b' beside the export, which would be lost; move it away, or choose another folder with --out",
        ),
    ],
)
def test_folders_that_are_kept(tmp_path: Path, content: dict[str, str], message: str) -> None:
    folder = tmp_path / "export"
    for name, text in content.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    with pytest.raises(CheckpointError) as error:
        write_export(folder, "onnx", fill_with("new"))
    assert str(error.value).startswith(f"{folder}: {message}") and "\n" not in str(error.value)
    assert files(folder) == sorted(content)


def test_files_and_links_are_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", "utf-8")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    with pytest.raises(CheckpointError, match="file: already exists and is not an export to onnx"):
        check_replaceable(tmp_path / "file", "onnx")
    with pytest.raises(CheckpointError, match="link: is a symbolic link; give the folder itself with --out"):
        check_replaceable(tmp_path / "link", "onnx")
    check_replaceable(tmp_path / "none", "onnx")
