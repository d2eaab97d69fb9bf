"""Recipe files: TOML, ``extends``, and what the paths in them are relative to.

``extends = "g2p"`` starts from another recipe, a shipped one or a file: its settings apply where this file has none of
its own. A path is relative to the folder of the file that it stands in, or to its ``data.folder``. The paths of a
shipped recipe, which has no folder, are relative to the folder of the recipe that extends it, or else to the current
folder. Paths given with ``--set`` are relative to the current folder, like those of every other option; only if
``data.folder`` itself is given with ``--set``, they are relative to that.

The name of a corpus is a path unless it is that of a built-in corpus; the name of a data set is one if it begins with
``./`` or ``../``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from weft.errors import RecipeError, nearest
from weft.files import read_bounded

SHIPPED = Path(__file__).parent / "shipped"
MAX_BYTES = 1 << 20
"""The largest recipe file."""
MAX_EXTENDS = 8
"""The longest chain of recipes that extend each other."""
MAX_NESTING = 32
"""Groups of settings within each other, lists included; no setting is nested as deeply."""
SPLITS = ("train", "valid", "test")
PATHS = (
    *(("data", name) for name in (*SPLITS, "prepared")),
    *(("tokenizer", name) for name in ("file", "target_file")),
    ("training", "start"),
    *(("data", name, "file") for name in ("terms", "fuzzy")),
    ("evaluation", "former"),
)
"""Groups and names of the settings that are paths, or contain paths."""
BUILT_IN_CORPORA = ("addition", "copy", "reverse", "sort", "dates", "grammar", "coreference", "trees", "drawn-digits")
"""Names of the built-in corpora (`weft.tasks.TASKS`, which imports the corpora); any other name is that of a file."""
FILE_KEYS = ("file", "instructions", "dialogues", "name", "dataset")
"""Keys of a corpus that name its files."""

Tree = dict[str, Any]


def shipped() -> list[str]:
    """Names of the shipped recipes."""
    return sorted(path.stem for path in SHIPPED.glob("*.toml"))


def find_recipe(name: str | Path, folder: Path = Path()) -> Path:
    """The file of a recipe: a shipped one by its name, or a path, relative to a folder."""
    path = folder / name
    try:
        if path.suffix == ".toml" or path.is_file():
            return path
    except (OSError, ValueError):  # too long for a name, or with a NUL: no file
        pass
    if str(name) in shipped():
        return SHIPPED / f"{name}.toml"
    shown = str(name) if len(str(name)) <= 80 else f"{str(name)[:80]}…"
    raise RecipeError(f"{shown}: no such recipe; {nearest(str(name), shipped())}, or give a .toml file")


def is_recipe(path: Path) -> bool:
    """Whether a file is TOML, by its name or, if the name does not tell, by its content."""
    if path.suffix == ".toml":
        return True
    try:
        read_toml(path)
    except RecipeError:
        return False
    return True


def is_of_run(path: Path) -> bool:
    """Whether a recipe file is in a run folder, so that it may be a stranger's."""
    return (path.parent / "model.safetensors").exists()


def read_tree(path: Path, extended_by: tuple[Path, ...] = ()) -> Tree:
    """The settings of a recipe file with those that it extends; data.folder is absolute, but not of a shipped one."""
    if path.resolve() in extended_by:
        raise RecipeError(f"{path}: extends: the recipe extends itself")
    if len(extended_by) > MAX_EXTENDS:
        raise RecipeError(f"{path}: extends: more than {MAX_EXTENDS} recipes extend each other")
    tree = read_toml(path)
    base_name = tree.pop("extends", None)
    if base_name is not None and is_of_run(path):
        raise RecipeError(f"{path}: extends: the recipe of a run names all settings and reads no other file; remove it")
    tree.setdefault("name", path.stem)
    if base_name is not None:
        if not isinstance(base_name, str):
            raise RecipeError(f"{path}: extends: {base_name!r} was given; expected the name of a recipe, or a file")
        try:
            base_path = find_recipe(base_name, path.parent)
        except RecipeError as error:
            raise RecipeError(f"{path}: extends: {error}") from None
        tree = _extended(read_tree(base_path, (*extended_by, path.resolve())), tree)
    if path.parent != SHIPPED:
        data = tree.setdefault("data", {})
        if isinstance(data, dict) and isinstance(data.get("folder", "."), str):
            data["folder"] = str(path.parent.resolve() / data.get("folder", "."))
    return tree


def read_toml(path: Path) -> Tree:
    """The contents of a TOML file; one line if it cannot be read."""
    try:
        tree = tomllib.loads(read_bounded(path, max_bytes=MAX_BYTES, error=RecipeError).decode("utf-8-sig"))
    except OSError as error:
        raise RecipeError(f"{path}: cannot be read ({error.strerror})") from None
    except RecursionError:
        raise RecipeError(f"{path}: not valid TOML: it is nested too deeply") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RecipeError(f"{path}: not valid TOML: {error}") from None
    except ValueError:  # more digits than Python converts
        raise RecipeError(f"{path}: not valid TOML: a number has too many digits") from None
    check_nesting(tree, where=f"{path}: ")
    return tree


def check_nesting(tree: Tree, *, where: str = "") -> None:
    """Fail if settings are nested more than `MAX_NESTING` deep, as by a key of as many parts: functions recur here."""
    level: list[Any] = [tree]
    for _ in range(MAX_NESTING):
        groups = [value.values() if isinstance(value, dict) else value for value in level]
        level = [value for group in groups for value in group if isinstance(value, dict | list)]
        if not level:
            return
    raise RecipeError(f"{where}settings are nested more than {MAX_NESTING} deep")


def _extended(base: Tree, tree: Tree) -> Tree:
    """A recipe's own settings over those of the recipe that it extends."""
    data, base_data = tree.get("data", {}), base.get("data", {})
    has_paths = any(_has(tree, names) for names in PATHS)
    if isinstance(data, dict) and isinstance(base_data, dict) and "folder" not in data and has_paths:
        folder = str(base_data.get("folder", "."))  # the new paths do not refer to it
        base = with_paths(base, lambda name: str(Path(folder) / name))
        base["data"] = {name: value for name, value in base.get("data", {}).items() if name != "folder"}
    return _merged({name: value for name, value in base.items() if name not in ("name", "summary")}, tree, "")


def _merged(base: Tree, tree: Tree, group: str) -> Tree:
    merged = dict(base)
    for name, value in tree.items():
        below, path = base.get(name), f"{group}{name}"
        merged[name] = value
        is_corpus = group == "data." and name not in ("holdout", "terms", "fuzzy")  # one value
        if isinstance(value, dict) and isinstance(below, dict) and not is_corpus:
            kind, is_stack = below.get("kind", "lstm"), path in ("model.encoder", "model.decoder")
            if not is_stack or value.get("kind", kind) == kind:  # a stack of another kind has other settings
                merged[name] = _merged(below, value, f"{path}.")
    return merged


def with_paths(tree: Tree, change: Callable[[str], str], settings: tuple[tuple[str, ...], ...] = PATHS) -> Tree:
    """The settings with every relative path changed."""
    for names in settings:
        if _has(tree, names):
            tree = _with_path(tree, names, change, _in_corpora if names[-1] in SPLITS else _in_path)
    return tree


def _has(tree: Any, names: tuple[str, ...]) -> bool:
    """Whether there is a setting with these groups and name."""
    return not names or (isinstance(tree, dict) and names[0] in tree and _has(tree[names[0]], names[1:]))


def _with_path(value: Any, names: tuple[str, ...], change: Callable[[str], str], replaced: Callable[..., Any]) -> Any:
    """The settings with the paths in one of them changed."""
    if not names:
        return replaced(value, change)
    return {**value, names[0]: _with_path(value[names[0]], names[1:], change, replaced)}


def _in_corpora(value: Any, change: Callable[[str], str]) -> Any:
    """The corpora of data.train, data.valid or data.test with their paths changed."""
    if isinstance(value, list):
        return [_in_corpora(item, change) for item in value]
    if not isinstance(value, dict):
        return value if value in BUILT_IN_CORPORA else _in_path(value, change)
    changed = dict(value)
    keys = FILE_KEYS if any(key in value for key in FILE_KEYS) else ("source", "target")  # files, or columns of one
    for key in keys:
        item = value.get(key)
        is_name = (key == "name" and item in BUILT_IN_CORPORA) or (key == "dataset" and not _is_folder(item))
        if key in value and not is_name:
            changed[key] = _in_path(item, change)
    return changed


def _in_path(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, list):
        return [_in_path(item, change) for item in value]
    is_relative = isinstance(value, str) and value not in ("", "-", "none") and not Path(value).is_absolute()
    return change(value) if is_relative else value


def _is_folder(dataset: Any) -> bool:
    """Whether the name of a data set is a path, and not a name on the hub."""
    return isinstance(dataset, str) and dataset.startswith(("./", "../"))
