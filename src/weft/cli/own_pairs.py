"""Pairs in place of a recipe: how ``weft train`` and ``weft tune`` find them and choose a recipe for them."""

from __future__ import annotations

import shutil
from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from weft.errors import DataError

if TYPE_CHECKING:
    from weft.data.profiling.inputs import PairsArgument
    from weft.recommendation.for_pairs import RecommendedRecipe

SUFFIXES = {
    b"\x1f\x8b": ".tsv.gz",
    b"BZh": ".tsv.bz2",
    b"\xfd7zXZ": ".tsv.xz",
    b"\x28\xb5\x2f\xfd": ".tsv.zst",
    b"PAR1": ".parquet",
    b"{": ".jsonl",
}
"""How standard input may begin, and the suffix of a file of that content; others are TSV."""


class OwnPairs(NamedTuple):
    """Pairs to train on, and the recipe that --like names."""

    argument: PairsArgument
    like: str | None

    @property
    def name(self) -> str:
        """The name of the run."""
        return self.argument.run_name

    def recommend(
        self, changes: list[str], start: Path | None, folder: Path, minutes: float | None = None
    ) -> RecommendedRecipe:
        """The recipe for them. Standard input or a pipe is first saved beside the run folder: it can be read once."""
        from weft.data.profiling.inputs import PairsArgument
        from weft.recommendation.for_pairs import recommend_recipe

        argument = self.argument
        if argument.name is None or not argument.is_pipe:
            return recommend_recipe(argument, changes, like=self.like, start=start, minutes=minutes)
        copy = _save_pipe(argument.name, folder)
        argument = PairsArgument(str(copy), argument.source, argument.target)
        try:
            return recommend_recipe(argument, changes, like=self.like, start=start, minutes=minutes)
        except BaseException:  # so that the same command can be repeated
            copy.unlink(missing_ok=True)
            raise


def find_pairs(
    name: str | None, source: str | None, target: str | None, like: str | None, *, resume: bool = False
) -> OwnPairs | None:
    """The pairs that the arguments name, or None if they name a recipe or a run."""
    from weft.data.profiling.inputs import PairsArgument
    from weft.errors import RecipeError

    is_other = name is not None and (not _names_pairs(name) or (resume and _is_empty_of_pairs(Path(name))))
    if source is None and target is None and is_other:
        if like is not None:
            raise RecipeError(f"--like {like}: needs a file of pairs; {name} is not one")
        if name is not None and not resume:
            _check_exists(name)
        return None
    return OwnPairs(PairsArgument(name, source, target), like)


def _names_pairs(name: str) -> bool:
    """Whether a name is not that of a recipe or a run."""
    from weft.data.reading.compression import compression_of
    from weft.data.reading.formats import format_of
    from weft.recipe import shipped
    from weft.recipe.files import is_recipe

    if name == "-":
        return True
    path = Path(name)
    if path.suffix == ".toml" or (path / "recipe.toml").is_file() or (name in shipped() and not path.is_file()):
        return False
    if format_of(name) is not None or compression_of(name) is not None or has_magic(name):
        return True
    return _exists(path) and (path.is_dir() or not is_recipe(path))


def _check_exists(name: str) -> None:
    """Fail if a name is neither that of a recipe nor that of anything else."""
    from weft.errors import RecipeError, nearest
    from weft.recipe import shipped
    from weft.recipe.messages import printable

    path = Path(name)
    if name in shipped() or path.suffix == ".toml" or _exists(path):
        return
    suggestion = nearest(name, shipped())
    if not suggestion.startswith("did you mean"):
        suggestion = "check the path, or choose a recipe (weft recipes lists them)"
    raise RecipeError(f"{printable(name)}: neither a file of pairs nor a recipe has this name; {suggestion}")


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # too long for a name, or with a NUL: no file
        return False


def _is_empty_of_pairs(folder: Path) -> bool:
    """Whether this is a folder without training pairs, such as a run folder that is incomplete."""
    return folder.is_dir() and not any(folder.glob("train[!i]*"))


def _save_pipe(name: str, folder: Path) -> Path:
    """A copy of standard input or of a pipe, compressed if it was: RUN.tsv beside the run folder RUN."""
    from weft.data.reading.compression import display_name, open_rereadable
    from weft.files import replacing

    with open_rereadable(name) as spool:
        start = spool.read(8)
        suffix = next((suffix for magic, suffix in SUFFIXES.items() if start.startswith(magic)), ".tsv")
        path = folder.with_name(folder.name + suffix)
        if path.exists():
            raise DataError(f"{path}: already exists; remove it, or choose another --out")
        if not start:
            raise DataError(f"{display_name(name)}: no pairs; it is empty")
        path.parent.mkdir(parents=True, exist_ok=True)
        spool.seek(0)
        with replacing(path) as file:
            shutil.copyfileobj(spool, file)
    return path
