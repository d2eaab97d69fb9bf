"""The structure of the library, read from its source: the import direction, sizes, and where the tests are."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import weft

SOURCE = Path(weft.__file__).parent
TESTS = Path(__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
MAX_FILE_LINES = 400
LONG_FILES = {
    "data/preparation/prepare.py": "a training corpus whole: its tokenizers, its token store, its length limits",
    "search/beam.py": "beam search whole: its policy, its step, and the way back to the outputs",
}
"""Files that are longer, each with its reason."""
MIN_FILE_LINES = 40
SHORT_FILES = {
    "__main__.py": "what `python -m weft` runs",
    "apps/texts/formats/plain.py": "a format has a file",
    "apps/labs/graph_paths.py": "a lab has at most 150 lines, and its file is full",
    "attention/initialization.py": "how all modules of attention/ and models/ are initialized",
    "evaluation/sacrebleu_metrics.py": "shared by the metrics, which fill their file, and by their statistics",
    "evaluation/top_k.py": "shared by the metrics, which fill their file, and by comparisons",
    "fast/layers/hard_alignment.py": "when a kernel applies, without importing Triton",
    "fast/triton/dependent_launch.py": "shared by kernels that follow each other",
    "fast/updating/ctc_loss.py": "a call of PyTorch's own function",
    "interop/huggingface/languages.py": "lists of languages, which are data",
    "interop/onnx/support.py": "the rule alone: asked before training, without torch and onnx",
    "interop/yaml_files.py": "shared by two toolkits; reading YAML must be safe in one place",
    "pairs/recommendation/choices.py": "the type of all choices, each of which has a file",
    "pairs/recommendation/devices.py": "whether there is a GPU, without importing torch",
    "pictures/html/page.py": "the frame of all pages, with their security policy",
    "pictures/learning_curves.py": "a picture has a file; notebooks and reports show this one",
    "pictures/trace.py": "the table of views",
    "recipe/base.py": "the base class of all sections, each of which has a file",
    "tasks/addition.py": "a task has a file",
    "tasks/options.py": "shared by the tasks, each of which has a file",
    "text/features.py": "read with pairs, where no tokenizer is imported",
    "text/isolated_expressions.py": "the program of a child process",
    "text/specials.py": "all that models may know of text",
}
"""Files that are shorter, each with its reason."""
MAX_FUNCTION_LINES = 60
MAX_PARAMETERS = 6

CORE = ("recipe", "text", "data", "attention", "models", "search", "training", "runs", "translation", "evaluation")
"""What the lectures describe: readable without the rest."""
AROUND = ("pairs", "pictures", "interop", "tasks", "apps")
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "files": {"errors"},
    "ragged": {"errors"},
    "packed": set(),
    "tree": {"errors"},
    "runtime": {"errors"},
    "recipe": {"errors", "files", "data.filtering.steps"},
    "text": {"recipe.choices", "files", "errors", "runtime.processes"},
    "data": {
        *("recipe", "text", "ragged", "packed", "files", "errors", "runtime"),
        *("runs", "search.repetition", "tasks"),  # preparation: tokenizers of runs, loops, built-in corpora
    },
    "tasks": {"text", "data", "errors"},
    "attention": {"ragged", "tree", "recipe", "errors", "runtime"},
    "models": {"attention", "ragged", "packed", "tree", "recipe", "text.specials", "errors", "runtime"},
    "search": {"runtime", "tree", "errors"},
    "runs": {"models", "recipe", "text", "ragged", "files", "errors", "runtime"},
    "translation": {
        *("runs", "models", "attention", "search", "data.store", "data.batching", "data.reading", "data.pairs"),
        *("text", "recipe", "ragged", "packed", "tree", "files", "errors", "evaluation", "runtime"),
        "pictures",  # how results show themselves in a notebook
    },
    "evaluation": {
        *("translation", "runs", "models", "attention", "search", "data", "text", "recipe", "ragged", "errors"),
        *("files", "runtime"),
        "pictures",  # how results show themselves in a notebook
    },
    "training": {
        *("evaluation", "translation", "runs", "models", "attention", "search", "data"),
        *("text", "recipe", "ragged", "tree", "files", "errors", "runtime"),
    },
    "pairs": {
        *("training", "evaluation", "translation", "runs", "models", "data", "text", "recipe"),
        *("ragged", "files", "errors", "runtime"),
        "interop.portability",  # to which formats a model can be exported
    },
}
"""What a package may import beside itself. Those not listed (pictures, interop, apps) are on top of all others."""
IMPORT_BY_NAME = {
    SOURCE / "__init__.py",
    SOURCE / "recipe/choices.py",
    SOURCE / "runtime/replaceable.py",
    SOURCE / "fast/__init__.py",
    SOURCE / "fast/recording/compiler_process.py",
    SOURCE / "apps/cli/terminal/lazy_commands.py",
}
"""The only files that import by name, each from a literal table: public names, what a recipe can choose, faster
versions of plain functions, commands; and one the kernels of weft.fast.triton, which it compiles."""
PLAIN_OPENINGS = (
    *("apps", "attention", "data", "evaluation", "fast", "interop", "models", "pairs", "pictures", "recipe", "runs"),
    *("runtime", "search", "tasks", "text", "training", "translation"),
)
"""Packages whose docstrings open with the thing they describe."""
TORCH_FREE = (
    *("errors.py", "recipe/", "text/", "tasks/", "runtime/"),
    *("pairs/source.py", "pairs/request.py", "pairs/profiling/", "pairs/recommendation/"),
)


def package_of(path: Path) -> str:
    """The package a file belongs to, or the module itself at the top level."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def imports_of(path: Path) -> Iterator[str]:
    """Every module that a file imports, at any depth: ``weft.text.words``, ``torch.nn``."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level and node.module, f"{path}: relative import"
            yield node.module
            yield from (name for alias in node.names if is_module(name := f"{node.module}.{alias.name}"))
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in {"import_module", "importlib.import_module"}:
            assert path in IMPORT_BY_NAME, f"{path}: imports by name"


def is_module(name: str) -> bool:
    path = SOURCE.parent.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


def functions_of(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree_of(path)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def is_kernel(path: Path) -> bool:
    return package_of(path) == "fast" and path.parent.name in ("triton", "cpu")


def test_import_direction() -> None:
    violations = []
    for path in FILES:
        package = package_of(path)
        for name in imports_of(path):
            if package in ALLOWED and name.startswith("weft."):
                module = name.removeprefix("weft.")
                allowed = {package, *ALLOWED[package]}
                if not any(module == prefix or module.startswith(f"{prefix}.") for prefix in allowed):
                    violations.append(f"{path.relative_to(SOURCE)} imports {name}")
    assert not violations


def test_packages_that_need_no_torch() -> None:
    """Process-wide switches, among them PyTorch's, import it when they are turned (tests/runtime/test_switches.py).

    runtime/devices.py, which no program needs before it has a model, imports it at once.
    """
    assert not [
        f"{path.relative_to(SOURCE)} imports {name}"
        for path in FILES
        if path.relative_to(SOURCE).as_posix().startswith(TORCH_FREE)
        and path not in (SOURCE / "runtime/switches.py", SOURCE / "runtime/devices.py")
        for name in imports_of(path)
        if name.split(".")[0] == "torch"
    ]


def test_three_rings() -> None:
    """The core, the fast ring and what is around them; at the top, the five modules that everybody shares."""
    assert {path.stem for path in SOURCE.glob("*.py")} == {
        *("__init__", "__main__", "errors", "files", "packed", "ragged", "tree")
    }
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert packages == {*CORE, "fast", *AROUND, "runtime"}


def test_sizes() -> None:
    """Files, functions and parameter lists stay readable. Kernels are exempt from the limits on functions."""
    too_large = []
    for path in FILES:
        name = str(path.relative_to(SOURCE))
        lines = path.read_text("utf-8").count("\n")
        if (lines > MAX_FILE_LINES) != (name in LONG_FILES):
            too_large.append(f"{name}: {lines} lines")
        for function in functions_of(path) if not is_kernel(path) else ():
            length = (function.end_lineno or 0) - function.lineno + 1
            arguments = function.args
            names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
            parameters = len([argument for argument in names if argument not in ("self", "cls", "ctx")])
            if length > MAX_FUNCTION_LINES:
                too_large.append(f"{name}: {function.name} has {length} lines")
            is_public = function.name in weft.__all__ or "cli" in path.parts  # options of a command are its parameters
            if parameters > MAX_PARAMETERS and not is_public:
                too_large.append(f"{name}: {function.name} has {parameters} parameters")
    assert not too_large, "\n".join(too_large)


def test_no_file_holds_half_an_idea() -> None:
    """Files of fewer than `MIN_FILE_LINES` lines belong to the file that uses them, unless a reason is given here."""
    short = {
        path.relative_to(SOURCE).as_posix()
        for path in FILES
        if path.name != "__init__.py" and path.read_text("utf-8").count("\n") < MIN_FILE_LINES
    }
    assert short == set(SHORT_FILES), f"without a reason: {short - set(SHORT_FILES)}; {set(SHORT_FILES) - short}"


def test_names_say_what_a_value_is() -> None:
    """Pronouns and the like may be loop variables of a comprehension, nothing that lives longer."""
    vague = {"one", "found", "asked", "said", "place", "places", "there", "many", "wanted", "begun", "looks", "theirs"}
    offenders = []
    for path in FILES:
        brief = {
            id(name)
            for node in ast.walk(tree_of(path))
            if isinstance(node, ast.comprehension | ast.Lambda)
            for name in ast.walk(node)
        }
        for node in ast.walk(tree_of(path)):
            name = node.id if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) else ""
            name = node.arg if isinstance(node, ast.arg) else name
            if name in vague and id(node) not in brief:
                offenders.append(f"{path.relative_to(SOURCE)}:{node.lineno}: {name}")
    assert not offenders, "\n".join(offenders)


def docstrings_of(path: Path) -> Iterator[tuple[int, str]]:
    """The line and text of every docstring: of the module, of its classes and functions, and after assignments."""
    for node in ast.walk(tree_of(path)):
        for part in getattr(node, "body", None) or () if not isinstance(node, ast.Lambda | ast.IfExp) else ():
            if (
                isinstance(part, ast.Expr)
                and isinstance(part.value, ast.Constant)
                and isinstance(part.value.value, str)
            ):
                yield part.lineno, part.value.value


@pytest.mark.parametrize("package", PLAIN_OPENINGS)
def test_docstrings_open_with_the_thing_itself(package: str) -> None:
    """Not with a riddle: "What …", "The same …", "Of …"."""
    paths = sorted((SOURCE / package).rglob("*.py"))
    assert paths, f"{package}: no such package"
    assert not [
        f"{path.relative_to(SOURCE)}:{line}: {text.strip().splitlines()[0]}"
        for path in paths
        for line, text in docstrings_of(path)
        if text.lstrip().startswith(("What ", "The same ", "Of "))
    ]


def test_protocols_checked_at_run_time_have_methods_only() -> None:
    """From Python 3.12 on, ``isinstance`` does not see the submodules of an `nn.Module` as attributes."""
    for path in FILES:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ClassDef) and "runtime_checkable" in map(ast.unparse, node.decorator_list):
                assert not [part for part in node.body if isinstance(part, ast.AnnAssign)], f"{path}: {node.name}"


def model_classes() -> set[str]:
    """Models, encoders and decoders: the classes of models/ that have an architecture, and those they are made of."""
    classes = [node for path in (SOURCE / "models").glob("*.py") for node in tree_of(path).body]
    found = {"EncoderDecoder", "CopySource"}
    for node in classes * 2:  # subclasses may come before the classes they extend
        if isinstance(node, ast.ClassDef) and "Protocol" not in map(ast.unparse, node.bases):
            methods = {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
            if methods & {"architecture", "part_architecture"} or found & {*map(ast.unparse, node.bases)}:
                found.add(node.name)
    return found


def is_class_check(node: ast.AST, classes: set[str]) -> bool:
    """``isinstance(x, Seq2Seq)``, ``type(x) is Seq2Seq``, ``getattr(model, "encoder")``, ``hasattr(model, …)``."""
    names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    if isinstance(node, ast.Compare):
        return "type" in names and bool(names & classes)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return False
    if node.func.id in ("getattr", "hasattr"):
        return bool(re.fullmatch(r"(?!recipe\.)(\w+\.)*model(\.\w+)*", ast.unparse(node.args[0])))
    return node.func.id in ("isinstance", "issubclass") and bool(names & classes)


def test_no_class_of_model_is_asked_for() -> None:
    """What a model is made of is read from its `Architecture`. Capabilities are protocols: `HasOutputLayer`."""
    classes = model_classes()
    assert {"Seq2Seq", "HardCopyingSeq2Seq", "PrefixLM", "Ensemble", "RecurrentDecoder", "ColumnEncoders"} <= classes
    checks = [
        f"{path.relative_to(SOURCE)}:{node.lineno}: {ast.unparse(node)}"
        for path in FILES
        if package_of(path) not in ("models", "interop")
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call | ast.Compare) and is_class_check(node, classes)
    ]
    assert not checks, "\n".join(checks)


@pytest.mark.parametrize("package", ["models", "attention", "search"])
def test_equations_ask_for_no_device(package: str) -> None:
    """Nor for a kernel: `weft.fast.VERSIONS` does."""
    pattern = re.compile(r"is_cuda|is_cpu|device\.type|import weft\.fast|from weft\.fast")
    assert not [str(path) for path in FILES if package_of(path) == package and pattern.search(path.read_text("utf-8"))]


def test_no_star_imports() -> None:
    for path in FILES:
        for node in ast.walk(tree_of(path)):
            assert not (isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names)), path


def test_no_test_replaces_the_clock_of_all_threads() -> None:
    """A service of other tests has an event loop in a thread: by a wrong clock it sleeps for hours. Replace the name
    ``time`` in the module under test instead."""
    patches = re.compile(r"""setattr\((?:[\w.]*\btime, ["']|["'][\w.]*\btime\.\w+["'])""")
    assert not [str(path) for path in TESTS.rglob("*.py") if patches.search(path.read_text("utf-8"))]


def test_kernels_name_what_they_equal() -> None:
    """Every kernel file names the plain function it must equal and the test that holds it to that."""
    for path in FILES:
        if package_of(path) == "fast" and path.name != "__init__.py":
            docstring = ast.get_docstring(tree_of(path)) or ""
            assert "tests/" in docstring, f"{path.relative_to(SOURCE)}: names no test"


def test_a_wheel_has_every_file_of_the_package() -> None:
    """Patterns of pyproject.toml match all files but Python's: those of a clone and of a wheel are the same."""
    settings = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text("utf-8"))
    patterns = settings["tool"]["setuptools"]["package-data"]["weft"]
    packed = {path for pattern in patterns for path in SOURCE.glob(pattern)}
    files = {path for path in SOURCE.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")}
    assert files <= packed


def test_lists_of_files_are_complete() -> None:
    """A package whose docstring lists its files lists all of them."""
    for path in SOURCE.rglob("__init__.py"):
        listed = set(re.findall(r"(\w+)\.py\b", ast.get_docstring(tree_of(path)) or ""))
        if len(listed) > 1:
            assert listed == {file.stem for file in path.parent.glob("*.py")} - {"__init__"}, path


def test_tests_mirror_the_source() -> None:
    """``tests/<package>/test_<file>.py`` tests ``src/weft/<package>/<file>.py``; other kinds of tests stand beside.

    A long test file may be split by aspect: ``test_<file>_<aspect>.py``.
    """
    beside = {"contracts", "learning", "peers", "documentation", "oracles", "fixtures", "journeys"}
    strays = []
    for path in TESTS.rglob("test_*.py"):
        relative = path.relative_to(TESTS)
        if relative.parts[0] in beside or len(relative.parts) == 1:
            continue
        folder, name = relative.parent, relative.stem.removeprefix("test_")
        stem = folder / name
        if folder.name == name or name.startswith(tuple(f"{file.stem}_" for file in (SOURCE / folder).glob("*.py"))):
            continue  # of the package itself, or of one aspect of a file: test_train_resuming.py
        if not (SOURCE / stem).with_suffix(".py").is_file() and not (SOURCE / stem).is_dir():
            strays.append(str(relative))
    assert not strays


def test_every_source_file_has_a_test() -> None:
    """A test file of its name, or the one that the table of tests/README.md names; and no line too many there."""
    rows = re.findall(r"^\| `([\w/]+\.py)` \| `([\w/]+\.py)` \|$", (TESTS / "README.md").read_text("utf-8"), flags=re.M)
    table = dict(rows)
    missing = [test for test in table.values() if not (TESTS / test).is_file()]
    assert not missing, f"tests/README.md names {missing}"
    untested = set()
    for path in FILES:
        relative, name = path.relative_to(SOURCE), path.stem.rstrip("_")
        folder = TESTS / relative.parent
        if path.name in ("__init__.py", "__main__.py") or (folder / f"test_{name}.py").is_file():
            continue
        if not any(folder.glob(f"test_{name}_*.py")):
            untested.add(str(relative))
    assert untested == set(table), f"not in the table: {untested - set(table)}; too many: {set(table) - untested}"
