"""The import direction of the library, read from its source: what stands below does not know what stands above."""

import ast
from pathlib import Path

import pytest

import weft

SOURCE = Path(weft.__file__).parent
ALLOWED = {
    "errors": set(),
    "files": {"errors"},
    "ragged": {"errors"},
    "tree": {"errors"},
    "recipe": {"recipe", "errors"},
    "text": {"text", "recipe", "files", "errors"},
    "data": {"recipe", "text", "ragged", "files", "errors", "data"},
    "tasks": {"text", "data", "errors", "tasks"},
    "kernels": {"kernels", "ragged", "tree", "errors"},
    "attention": {"recipe", "ragged", "tree", "kernels", "attention", "errors"},
    "models": {"recipe", "attention", "kernels", "ragged", "tree", "models", "errors"},
    "search": {"kernels", "tree", "errors", "search"},
    "training": {
        *("models", "data", "search", "ragged", "tree", "recipe", "errors", "training", "files", "kernels"),
        *("runs", "preparation", "text", "translation", "evaluation", "tasks"),
    },
}
TOP = {"views", "cli", "interop", "serve", "labs"}
"""What may import, and is imported by nothing below."""


BY_NAME = {SOURCE / "__init__.py", SOURCE / "recipe" / "choices.py"}
"""The only files that import by name: the public names, and what a recipe chooses, both from literal tables."""


def home_of(path):
    """The part of the library a file belongs to: a package, or a module beside the packages."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports_of(path):
    """Every module a file imports, anywhere in it: ``weft.text.word_splitting``, ``torch.nn``."""
    package = [*path.relative_to(SOURCE.parent).parent.parts]
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = [] if not node.level else package[: len(package) - node.level + 1]
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names if is_module(f"{module}.{alias.name}"))
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in {"import_module", "importlib.import_module"}:
            assert path in BY_NAME, f"{path}: imports by name"


def is_module(name):
    place = SOURCE.parent.joinpath(*name.split("."))
    return place.is_dir() or place.with_suffix(".py").is_file()


def of_weft(path):
    """The parts of weft that a file imports, without the ``weft.``."""
    return [name.removeprefix("weft.") for name in imports_of(path) if name.startswith("weft.")]


def within(name, allowed):
    return any(name == one or name.startswith(f"{one}.") for one in allowed)


FILES = sorted(SOURCE.rglob("*.py"))
BELOW = [path for path in FILES if home_of(path) in ALLOWED]
by_name = {"ids": lambda path: str(path.relative_to(SOURCE))}


def test_the_reader_of_imports_reads():
    assert "recipe" in of_weft(SOURCE / "models/build.py") and "tasks" in of_weft(SOURCE / "preparation/corpora.py")
    assert {home_of(path) for path in BELOW} == set(ALLOWED)


@pytest.mark.parametrize("path", BELOW, **by_name)
def test_the_direction(path):
    wrong = [name for name in of_weft(path) if not within(name, ALLOWED[home_of(path)])]
    assert not wrong


@pytest.mark.parametrize("path", BELOW, **by_name)
def test_nothing_below_imports_what_is_on_top(path):
    assert not [name for name in of_weft(path) if within(name, TOP)]


@pytest.mark.parametrize(
    "path", [path for path in FILES if home_of(path) in {"text", "tasks", "recipe", "errors"}], **by_name
)
def test_text_needs_no_torch(path):
    assert not [name for name in imports_of(path) if name.split(".")[0] == "torch"]


@pytest.mark.parametrize("path", FILES, **by_name)
def test_no_file_imports_everything_of_another(path):
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        assert not (isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names))
