"""Stub files: one for each exercise of a chapter, which compile, and which overwrite nothing."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from weft.apps.course import EXERCISES, start
from weft.errors import DataError

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", EXERCISES)
def test_a_stub_has_every_function_with_a_docstring_and_no_solution(name: str) -> None:
    exercise = EXERCISES[name]
    functions = [node for node in ast.parse(exercise.stub).body if isinstance(node, ast.FunctionDef)]
    assert [function.name for function in functions] == list(exercise.solutions)
    for function in functions:
        assert ast.get_docstring(function) and ast.unparse(function.body[1:][0]) == "raise NotImplementedError"
        arguments = [argument.arg for argument in function.args.args]
        case = next(case for case in exercise.cases() if case.function == function.name)
        assert len(arguments) == len(case.arguments)
    assert f"weft course check {exercise.file_name}" in exercise.stub
    assert max(map(len, exercise.stub.splitlines())) <= 120


@pytest.mark.parametrize("name", EXERCISES)
def test_the_chapter_names_its_exercise(name: str) -> None:
    exercise = EXERCISES[name]
    [page] = (ROOT / "docs/course").glob(f"{exercise.chapter:02d}-*.md")
    text = page.read_text("utf-8")
    assert re.search(rf"weft course start {exercise.chapter}\b", text), page.name
    assert f"weft course check {exercise.file_name}" in text, page.name


def test_a_chapter(tmp_path: Path) -> None:
    [stub] = start(6, tmp_path / "new/folder")
    assert stub.written and stub.path.read_text("utf-8") == EXERCISES["attention"].stub
    assert [stub.path.name for stub in start("bpe", tmp_path)] == ["bpe.py"]


def test_a_students_file_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "attention.py").write_text("my work\n", "utf-8")
    [stub] = start("6", tmp_path)
    assert not stub.written and stub.path.read_text("utf-8") == "my work\n"


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"chapter 2: has no programming exercise; chapters 1, 3, 6, .* and 17 have"):
        start(2, tmp_path)
    with pytest.raises(DataError, match="atention: unknown exercise; did you mean 'attention'"):
        start("atention", tmp_path)
    (tmp_path / "file").write_text("", "utf-8")
    with pytest.raises(DataError, match="file: is a file, expected a folder"):
        start(6, tmp_path / "file")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
