"""Small breakages of the source, of the kind that a careless edit makes; `tools/mutants.py` tries whether tests notice.

Each is a replacement of a few bytes, found in the syntax tree. Not broken: docstrings, messages, annotations, types,
decorators, what a branch does only on a GPU, the kernels of Triton, CUDA graphs, and the numbers of a layout: those of
pictures, and the indent of JSON.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

GPU_ONLY = (
    "fast/triton/",
    "fast/layers/varlen_attention.py",
    "fast/updating/cuda_graph_update.py",
    "fast/recording/search.py",
)
BUFFER = re.compile(r"CHUNK|BATCH|BLOCK|ROWS|LINES|BYTES|CACHE|BUFFER|THREADS|SECONDS")
"""Names of constants that say how much is done at a time: another number gives the same result."""
COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
ARITHMETIC: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "+"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "+"),
}
OPPOSITES = {"min": "max", "max": "min", "any": "all", "all": "any", "argmax": "argmin", "floor": "ceil"}
REDUCTIONS = {"sum", "mean", "max", "min", "softmax", "log_softmax", "logsumexp", "cumsum", "argmax", "any", "all"}
REDUCTIONS |= {"amax", "amin", "cat", "stack", "topk", "sort", "argsort", "flip"}


@dataclass(frozen=True)
class Mutation:
    """A replacement of bytes in a file below src/weft."""

    file: str
    line: int
    kind: str
    function: str
    """Its outermost function, ``Beam.step``, or nothing."""
    start: int
    end: int
    replacement: str
    before: str
    after: str
    word: str = ""
    """The setting that is ignored."""

    def apply(self, content: bytes) -> bytes:
        return content[: self.start] + self.replacement.encode() + content[self.end :]

    def is_valid(self, content: bytes) -> bool:
        """Whether the result is Python, and not the same program."""
        try:
            return ast.dump(ast.parse(self.apply(content))) != ast.dump(ast.parse(content))
        except SyntaxError:
            return False


class SourceFile:
    """The mutations of one file."""

    def __init__(self, root: Path, path: Path, settings: SettingReads) -> None:
        self.name = str(path.relative_to(root))
        self.content = path.read_bytes()
        self.tree = ast.parse(self.content)
        self.settings = settings
        self.parents = {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}
        lines = self.content.splitlines(keepends=True)
        self.line_starts = [sum(map(len, lines[:number])) for number in range(len(lines) + 1)]

    def mutations(self) -> Iterator[Mutation]:
        for node in ast.walk(self.tree):
            for kind, operator in OPERATORS.items():
                for start, end, replacement in operator(self, node):
                    if not self._is_excluded(node):
                        yield self._mutation(kind, node, start, end, replacement)

    def span(self, node: Any) -> tuple[int, int]:
        return (
            self.line_starts[node.lineno - 1] + node.col_offset,
            self.line_starts[node.end_lineno - 1] + node.end_col_offset,
        )

    def text(self, node: ast.AST) -> str:
        start, end = self.span(node)
        return self.content[start:end].decode()

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        while node in self.parents:
            node = self.parents[node]
            yield node

    def _mutation(self, kind: str, node: Any, start: int, end: int, replacement: str) -> Mutation:
        line = self.content.count(b"\n", 0, start) + 1
        first = self.line_starts[line - 1]
        before = _one_line(self.content[first:end] + self.content[end:].split(b"\n", 1)[0])
        after = _one_line(self.content[first:start] + replacement.encode() + self.content[end:].split(b"\n", 1)[0])
        word = node.attr if kind == "setting ignored" else ""
        return Mutation(self.name, line, kind, self._function(node), start, end, replacement, before, after, word)

    def _function(self, node: ast.AST) -> str:
        names = [
            owner.name
            for owner in reversed(list(self.ancestors(node)))
            if isinstance(owner, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        ]
        owners = [owner for owner in self.ancestors(node) if isinstance(owner, ast.FunctionDef | ast.AsyncFunctionDef)]
        if not owners:
            return ""
        return ".".join(names[: names.index(owners[-1].name) + 1])

    def _is_excluded(self, node: ast.AST) -> bool:
        child = node
        if isinstance(node, ast.If) and "TYPE_CHECKING" in self.text(node.test):
            return True
        for owner in self.ancestors(node):
            if isinstance(owner, ast.Raise | ast.JoinedStr | ast.Assert):
                return True
            if isinstance(owner, ast.arg | ast.AnnAssign) and owner.annotation is child:
                return True
            if isinstance(owner, ast.FunctionDef | ast.AsyncFunctionDef) and (
                owner.returns is child or child in owner.decorator_list or owner.name in ("__repr__", "__str__")
            ):
                return True
            if isinstance(owner, ast.Call) and _called(owner) in (
                "Field",
                "Annotated",
                "TypeVar",
                "Option",
                "Argument",
            ):
                return True
            if isinstance(owner, ast.If | ast.IfExp):
                condition = self.text(owner.test)
                if "TYPE_CHECKING" in condition:
                    return True
                if ("cuda" in condition or "is_gpu" in condition) and (child is owner.test or child is owner.body):
                    return True
                if "cuda" in condition and isinstance(owner, ast.If) and child in owner.body:
                    return True
            if isinstance(owner, ast.ClassDef) and child in owner.keywords:
                return True
            child = owner
        return False


class SettingReads:
    """Resolves ``settings.beta1`` and ``recipe.training.beta1`` to the default of that setting."""

    def __init__(self) -> None:
        from weft.recipe import Recipe
        from weft.recipe.base import Settings

        self.recipe, self.base = Recipe, Settings
        self.classes: dict[str, Any] = {}
        pending = [Settings]
        while pending:
            for found in pending.pop().__subclasses__():
                self.classes[found.__name__] = found
                pending.append(found)

    def default(self, file: SourceFile, node: ast.Attribute) -> str | None:
        """The literal default of the setting that is read here, or None if this is no setting."""
        owners = [owner for owner in self._classes(file, node.value) if node.attr in owner.model_fields]
        defaults = {
            repr(owner.model_fields[node.attr].default)
            for owner in owners
            if not owner.model_fields[node.attr].is_required()
        }
        if len(defaults) != 1 or any(mark in next(iter(defaults)) for mark in ("Settings(", "Undefined")):
            return None
        return next(iter(defaults))

    def _classes(self, file: SourceFile, node: ast.expr) -> list[Any]:
        if isinstance(node, ast.Attribute):
            inner = [
                found
                for owner in self._classes(file, node.value)
                if node.attr in owner.model_fields
                for found in self._named(str(owner.model_fields[node.attr].annotation))
            ]
            return inner or self._by_name(file, node.attr)
        if not isinstance(node, ast.Name):
            return []
        for owner in file.ancestors(node):
            if isinstance(owner, ast.FunctionDef | ast.AsyncFunctionDef):
                for argument in (*owner.args.posonlyargs, *owner.args.args, *owner.args.kwonlyargs):
                    if argument.arg == node.id and argument.annotation is not None:
                        return self._named(file.text(argument.annotation))
            if isinstance(owner, ast.ClassDef) and node.id == "self" and owner.name in self.classes:
                return [self.classes[owner.name]]
        return self._by_name(file, node.id)

    def _named(self, annotation: str) -> list[Any]:
        found = [self.classes[name] for name in re.findall(r"\w+", annotation) if name in self.classes]
        return found + [sub for owner in found for sub in owner.__subclasses__()]

    def _by_name(self, file: SourceFile, name: str) -> list[Any]:
        """Types of a name without an annotation: by another annotation of it in the file, else by a section's name."""
        if name == "recipe":
            return [self.recipe]
        for match in re.findall(rf"\b{name}: ([\w |]+)", file.content.decode()):
            if found := self._named(match):
                return found
        if name in self.recipe.model_fields:
            return self._named(str(self.recipe.model_fields[name].annotation))
        return list(self.classes.values()) if name == "settings" else []

    @cached_property
    def names(self) -> set[str]:
        return {name for owner in self.classes.values() for name in owner.model_fields}


Replacements = Iterator[tuple[int, int, str]]


def ignore_setting(file: SourceFile, node: ast.AST) -> Replacements:
    if not (isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)) or file.name.startswith("recipe/"):
        return
    parent = file.parents.get(node)
    if isinstance(parent, ast.Attribute) or (isinstance(parent, ast.Call) and parent.func is node):
        return
    default = file.settings.default(file, node) if node.attr in file.settings.names else None
    if default is not None:
        yield (*file.span(node), default if default.isalnum() else f"({default})")


def between(file: SourceFile, left: ast.AST, right: ast.AST, old: str, new: str) -> Replacements:
    """Replace an operator, which is the only word between its operands beside parentheses."""
    start, end = file.span(left)[1], file.span(right)[0]
    gap = file.content[start:end].decode()
    if gap.count(old) == 1:
        yield start, end, gap.replace(old, new)


def flip_comparison(file: SourceFile, node: ast.AST) -> Replacements:
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and file.text(node.left) != "__name__":
        yield from between(file, node.left, node.comparators[0], *COMPARISONS[type(node.ops[0])])


def swap_arithmetic(file: SourceFile, node: ast.AST) -> Replacements:
    if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        if any(isinstance(side, ast.Constant) and isinstance(side.value, str) for side in (node.left, node.right)):
            return
        yield from between(file, node.left, node.right, *ARITHMETIC[type(node.op)])
    if isinstance(node, ast.AugAssign) and type(node.op) in ARITHMETIC:
        old, new = ARITHMETIC[type(node.op)]
        yield from between(file, node.target, node.value, f"{old}=", f"{new}=")


def swap_and_or(file: SourceFile, node: ast.AST) -> Replacements:
    if isinstance(node, ast.BoolOp):
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        yield from between(file, node.values[0], node.values[1], old, new)


def negate_condition(file: SourceFile, node: ast.AST) -> Replacements:
    if isinstance(node, ast.If | ast.IfExp | ast.comprehension):
        for test in node.ifs if isinstance(node, ast.comprehension) else [node.test]:
            yield (*file.span(test), f"(not ({file.text(test)}))")


def remove_statement(file: SourceFile, node: ast.AST) -> Replacements:
    if (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)) or isinstance(node, ast.AugAssign):
        yield (*file.span(node), "pass")


def return_early(file: SourceFile, node: ast.AST) -> Replacements:
    procedure = isinstance(node, ast.FunctionDef) and node.returns is not None and file.text(node.returns) == "None"
    if procedure and isinstance(node, ast.FunctionDef) and len(node.body) > 2 and not _is_inert(node.body[-1]):
        yield (*file.span(node.body[-1]), "return")


def _is_inert(node: ast.stmt) -> bool:
    """Whether a statement does nothing: the declaration of an attribute, or the description below it."""
    if isinstance(node, ast.AnnAssign):
        return node.value is None
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def change_constant(file: SourceFile, node: ast.AST) -> Replacements:
    if not isinstance(node, ast.Constant) or type(node.value) not in (int, float, bool):
        return
    parent = file.parents[node]
    if isinstance(parent, ast.UnaryOp) or file.name.startswith("pictures/"):
        return
    if isinstance(parent, ast.keyword) and parent.arg == "indent":
        return
    if isinstance(parent, ast.Assign | ast.AnnAssign) and BUFFER.search(file.text(parent).split("=")[0]):
        return
    value = node.value
    yield (
        *file.span(node),
        str(not value if isinstance(value, bool) else value + 1 if type(value) is int else 2 * value),
    )


def swap_minimum_maximum(file: SourceFile, node: ast.AST) -> Replacements:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in OPPOSITES:
        yield (*file.span(node.func), OPPOSITES[node.func.id])
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in OPPOSITES:
        end = file.span(node.func)[1]
        yield end - len(node.func.attr), end, OPPOSITES[node.func.attr]


def change_axis(file: SourceFile, node: ast.AST) -> Replacements:
    if isinstance(node, ast.Call) and _called(node) in REDUCTIONS:
        named = [keyword.value for keyword in node.keywords if keyword.arg in ("dim", "axis")]
        for axis in named or [node.args[-1] for _ in node.args[:1] if isinstance(node.func, ast.Attribute)]:
            if re.fullmatch(r"-?\d", file.text(axis)):
                yield (*file.span(axis), "-1" if file.text(axis) == "0" else "0")


def drop_argument(file: SourceFile, node: ast.AST) -> Replacements:
    """Leave out a keyword argument that has a default, if every function of that name in weft gives it one."""
    if isinstance(node, ast.Call) and node.keywords:
        for keyword in node.keywords:
            if keyword.arg is not None and (_called(node), keyword.arg) in OPTIONAL:
                start, end = file.span(keyword)
                before = file.content[:start].rstrip()
                if before.endswith(b","):
                    yield len(before) - 1, end, ""


OPERATORS: dict[str, Callable[[SourceFile, ast.AST], Replacements]] = {
    "setting ignored": ignore_setting,
    "comparison": flip_comparison,
    "arithmetic": swap_arithmetic,
    "and/or": swap_and_or,
    "condition negated": negate_condition,
    "statement removed": remove_statement,
    "early return": return_early,
    "constant": change_constant,
    "minimum/maximum": swap_minimum_maximum,
    "axis": change_axis,
    "argument dropped": drop_argument,
}
OPTIONAL: set[tuple[str, str]] = set()
"""Function and keyword of every parameter that has a default wherever it is defined in weft."""


def all_mutations(root: Path) -> list[Mutation]:
    """Every mutation of the files below ``root``, src/weft."""
    paths = [path for path in sorted(root.rglob("*.py")) if not str(path.relative_to(root)).startswith(GPU_ONLY)]
    settings = SettingReads()
    files = [SourceFile(root, path, settings) for path in paths]
    _find_optional(files)
    return [mutation for file in files for mutation in file.mutations()]


def _find_optional(files: list[SourceFile]) -> None:
    required = set()
    for node in (node for file in files for node in ast.walk(file.tree)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            function: ast.AST | None = node
            if isinstance(node, ast.ClassDef):
                inner = [one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"]
                function = inner[0] if inner else None
            if isinstance(function, ast.FunctionDef):
                arguments = function.args
                for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
                    (required if default is None else OPTIONAL).add((node.name, argument.arg))
                first = len(arguments.args) - len(arguments.defaults)
                for index, argument in enumerate(arguments.args):
                    (required if index < first else OPTIONAL).add((node.name, argument.arg))
    OPTIONAL.difference_update(required)


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _one_line(content: bytes) -> str:
    return " ".join(content.decode().split())
