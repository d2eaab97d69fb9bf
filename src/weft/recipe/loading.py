"""Loading recipes: read from TOML, changed by ``--set``, validated."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

from pydantic import Tag, ValidationError

from weft.errors import RecipeError, nearest
from weft.recipe.choices import CELLS, ENCODERS
from weft.recipe.pipeline import StepByKind
from weft.recipe.recipe import Recipe

SHIPPED = Path(__file__).parent / "shipped"


def shipped() -> list[str]:
    """Names of the shipped recipes."""
    return sorted(path.stem for path in SHIPPED.glob("*.toml"))


def load_recipe(name: str | Path, changes: Sequence[str] = (), *, start: Path | str | None = None) -> Recipe:
    """A shipped recipe by name, or a TOML file, with ``a.b=c`` changes applied.

    ``start``: a run folder to start from. Model and tokenizer are then those of that run, before the changes.
    """
    if not isinstance(name, str | Path):
        raise RecipeError(f"load_recipe: a {type(name).__name__} was given; expected the name of a recipe, or a path")
    path = Path(name)
    if path.suffix != ".toml" and not path.is_file():
        path = SHIPPED / f"{name}.toml"
        if not path.is_file():
            raise RecipeError(f"{name}: no such recipe; {nearest(str(name), shipped())}, or give a .toml file")
    try:
        tree = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise RecipeError(f"{path}: cannot be read ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RecipeError(f"{path}: not valid TOML: {error}") from None
    tree.setdefault("name", path.stem)
    if start is not None:
        start_recipe = load_recipe(Path(start) / "recipe.toml").model_dump(exclude_none=True)
        tree |= {"model": start_recipe["model"], "tokenizer": {**start_recipe["tokenizer"], "extend": False}}
        tree["training"] = {**tree.get("training", {}), "start": str(Path(start).resolve())}
    return make_recipe(tree, changes, where=f"{path}: " if path.parent != SHIPPED else "")


def make_recipe(tree: dict[str, Any], changes: Sequence[str] = (), where: str = "") -> Recipe:
    """A validated recipe from nested dictionaries."""
    if not isinstance(tree, dict):
        raise RecipeError(f"make_recipe: a {type(tree).__name__} was given; expected a dictionary of settings")
    for change in [changes] if isinstance(changes, str) else changes:
        _apply(tree, change)
    try:
        return Recipe.model_validate(tree)
    except ValidationError as error:
        raise RecipeError(where + _one_line(error)) from None


def parse_change(change: str) -> tuple[list[str], Any]:
    """``model.encoder.layers=4`` as path and value; a value that is not TOML is plain text."""
    if not isinstance(change, str):
        raise RecipeError(f"changes: a {type(change).__name__} was given; expected text: 'training.steps=500'")
    path, equals, text = change.partition("=")
    if not equals or not path.strip():
        raise RecipeError(f"--set {change}: expected NAME=VALUE, for example training.steps=500")
    try:
        value = tomllib.loads(f"value = {text.strip()}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    return path.strip().split("."), value


def _apply(tree: dict[str, Any], change: str) -> None:
    """Apply a change to nested dictionaries."""
    (*groups, last), value = parse_change(change)
    for depth, group in enumerate(groups, 1):
        tree = tree.setdefault(group, {})
        if not isinstance(tree, dict):
            raise RecipeError(f"--set {change}: {'.'.join(groups[:depth])} is not a group of settings")
    tree[last] = value


def _one_line(error: ValidationError) -> str:
    """The first error in one line: where; what was given; what is allowed."""
    problems = error.errors()
    problems = [problem for problem in problems if problem["type"] == "extra_forbidden"] or problems
    problem = problems[0]
    path = [str(part) for part in problem["loc"] if not str(part).startswith("<")]
    where = _printable(".".join(path))
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    if problem["type"] == "extra_forbidden":
        return f"{where}: unknown setting; {_suggest(problem['loc'])}{more}"
    if problem["type"] == "missing":
        return f"{where}: missing{more}"
    if path[:1] == ["model"] and path[2:] == ["kind"]:
        kinds = [*CELLS, *(ENCODERS if path[1] == "encoder" else ["transformer"])]
        if isinstance(problem["input"], str):
            return f"{where}: {problem['input']!r} was given; {nearest(problem['input'], kinds)}{more}"
        *others, last = map(repr, kinds)
        return f"{where}: {problem['input']!r} was given; input should be {', '.join(others)} or {last}{more}"
    if problem["type"] == "value_error":
        return _printable(str(problem["ctx"]["error"])) + more
    return f"{where}: {problem['input']!r} was given; {problem['msg'][0].lower()}{problem['msg'][1:]}{more}"


def _printable(text: str) -> str:
    """One line: unprintable characters as escapes."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


def _suggest(path: Sequence[str | int]) -> str:
    """The setting that is nearest to an unknown one. A part in brackets names one of several forms of a group."""
    group: Any = Recipe
    for part in path[:-1]:
        if isinstance(part, str):
            fields = getattr(group, "model_fields", {})
            group = fields[part].annotation if part in fields else dict(_forms(group))[part]
    return nearest(str(path[-1]), group.model_fields)


def _forms(annotation: Any) -> Iterator[tuple[str, Any]]:
    """The forms that an annotation allows, by their tags; also inside ``| None``."""
    for part in get_args(annotation):
        metadata = getattr(part, "__metadata__", ())
        tags = [item.tag for item in metadata if isinstance(item, Tag)]
        if tags:
            yield tags[0], part.__origin__
        elif any(isinstance(item, StepByKind) for item in metadata):
            yield from StepByKind.tagged_classes()
        else:
            yield from _forms(part)
