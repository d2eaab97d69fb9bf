"""Loading recipes: read from TOML, changed by ``--set``, validated."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from weft.errors import RecipeError
from weft.recipe.base import Settings
from weft.recipe.files import PATHS, SHIPPED, check_nesting, find_recipe, is_of_run, read_tree, with_paths
from weft.recipe.messages import error_lines, printable, shown
from weft.recipe.recipe import Recipe

MAX_DEPTH = 8
"""Parts of a setting's name; no setting has as many."""


def load_recipe(name: str | Path, changes: Sequence[str] = (), *, start: Path | str | None = None) -> Recipe:
    """A shipped recipe by name, or a TOML file, with ``a.b=c`` changes applied.

        weft.load_recipe("luong2015", ["model.attention.score=additive", "training.steps=500"])

    Relative paths in a file are relative to its folder, those of changes to the current folder (`weft.recipe.files`).
    ``start``: a run folder to start from. Model and tokenizer are then those of that run, before the changes.
    """
    if not isinstance(name, str | Path):
        raise RecipeError(f"load_recipe: a {type(name).__name__} was given; expected the name of a recipe, or a path")
    path = find_recipe(name)
    tree = read_tree(path)
    if start is not None:
        tree = starting_from(tree, start)
    recipe = make_recipe(tree, changes, where=f"{path}: " if path.parent != SHIPPED else "")
    if not is_of_run(path):
        return recipe
    given = [parse_change(change)[0] for change in ([changes] if isinstance(changes, str) else changes)]
    return recipe.of_run(path.parent, frozenset(names[1] for names in given if names[0] == "data" and names[1:]))


def starting_from(tree: dict[str, Any], start: Path | str) -> dict[str, Any]:
    """The settings of a run that starts from another one, and continues with its model and tokenizer."""
    run = load_recipe(Path(start) / "recipe.toml").model_dump(exclude_none=True)
    return {
        **tree,
        "model": run["model"],
        "tokenizer": {**run["tokenizer"], "extend": False, "new_languages": {}},
        "training": {**tree.get("training", {}), "start": str(Path(start).resolve())},
    }


def make_recipe(tree: dict[str, Any], changes: Sequence[str] = (), where: str = "") -> Recipe:
    """A validated recipe from nested dictionaries.

        weft.make_recipe({"data": {"train": "train.tsv", "valid": "valid.tsv"}, "training": {"steps": 5000}})

    All errors are reported, each in a line. ``changes``: as for `load_recipe`; ``where``: the file, for messages.
    """
    if not isinstance(tree, dict):
        raise RecipeError(f"make_recipe: a {type(tree).__name__} was given; expected a dictionary of settings")
    check_nesting(tree, where=where)
    changes = [changes] if isinstance(changes, str) else changes
    for change in changes:
        apply_change(tree, change)
    tree = _with_set_paths(tree, changes) if changes else tree
    for text in _texts(tree):
        if not text.isascii() and text != text.encode("utf-8", "ignore").decode("utf-8"):
            raise RecipeError(f"{where}{shown(text)} has a lone surrogate, which is not valid text")
    try:
        return Recipe.model_validate(_without_unset(tree, Recipe))
    except ValidationError as error:
        raise RecipeError("\n".join(where + line for line in error_lines(error))) from None


def parse_change(change: str) -> tuple[list[str], Any]:
    """``model.encoder.layers=4`` as path and value; a value that is not TOML is plain text."""
    if not isinstance(change, str):
        raise RecipeError(f"changes: a {type(change).__name__} was given; expected text: 'training.steps=500'")
    path, equals, text = change.partition("=")
    names = path.strip().split(".")
    if not equals or not path.strip():
        raise RecipeError(f"--set {printable(change)}: expected NAME=VALUE, for example training.steps=500")
    if len(names) > MAX_DEPTH:
        raise RecipeError(f"--set {printable(path[:40])}…: unknown setting; no name has more than {MAX_DEPTH} parts")
    try:
        value = tomllib.loads(f"value = {text.strip()}")["value"]
    except RecursionError:
        raise RecipeError(f"--set {printable(path)}: the value is nested too deeply") from None
    except ValueError:  # not TOML, or a number of too many digits
        value = text.strip()
    return names, value


def apply_change(tree: dict[str, Any], change: str) -> None:
    """Apply a change to nested dictionaries."""
    (*groups, last), value = parse_change(change)
    for depth, group in enumerate(groups, 1):
        tree = tree.setdefault(group, {})
        if not isinstance(tree, dict):
            raise RecipeError(f"--set {printable(change)}: {'.'.join(groups[:depth])} is not a group of settings")
    tree[last] = value


def _with_set_paths(tree: dict[str, Any], changes: Sequence[str]) -> dict[str, Any]:
    """The settings with the paths among the changes relative to the current folder."""
    changed = {tuple(parse_change(change)[0]) for change in changes}
    data = tree.get("data", {})
    folder = data.get("folder", ".") if isinstance(data, dict) else "."
    if ("data", "folder") in changed or not isinstance(folder, str) or "\0" in folder:
        return tree
    if Path(folder).resolve() == Path.cwd():  # where they are relative to already
        return tree
    settings = tuple(names for names in PATHS if names in changed or names[:2] in changed)
    return with_paths(tree, lambda name: str(Path.cwd() / name), settings)


def _without_unset(tree: dict[str, Any], settings: type[Settings]) -> dict[str, Any]:
    """The tree without optional settings that are "none", which TOML cannot write otherwise."""
    kept = {}
    for name, value in tree.items():
        field = settings.model_fields.get(name)
        annotation = None if field is None else field.annotation
        if isinstance(value, dict) and isinstance(annotation, type) and issubclass(annotation, Settings):
            kept[name] = _without_unset(value, annotation)
        elif not (value == "none" and field is not None and not field.is_required() and field.default is None):
            kept[name] = value
    return kept


def _texts(value: Any) -> Iterator[str]:
    """Every text among nested values, names included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _texts(name)
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
