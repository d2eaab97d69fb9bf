"""Sources of pairs: files, folders, pipes and lists in Python; and how their names are told from those of recipes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from weft.errors import DataError, RecipeError, nearest, option
from weft.pairs.profiling.inputs import PairsArgument

if TYPE_CHECKING:
    from weft.data.pairs import Pair
    from weft.pairs.recommendation.recommend import Recommendation

SUFFIXES = {
    b"\x1f\x8b": ".tsv.gz",
    b"BZh": ".tsv.bz2",
    b"\xfd7zXZ": ".tsv.xz",
    b"\x28\xb5\x2f\xfd": ".tsv.zst",
    b"PAR1": ".parquet",
    b"{": ".jsonl",
}
"""The first bytes of standard input, and the suffix of a file with that content; other content is TSV."""


GivenPairs = str | Path | tuple[str | Path, str | Path] | Iterable["Pair | tuple[str, str]"]
"""Pairs of a program: a file or a folder, two parallel files, or the pairs themselves."""


class PairSource(NamedTuple):
    """Pairs to train on, and the recipe whose other settings are used with them."""

    argument: PairsArgument
    like: str | None = None
    pairs: tuple[Pair, ...] | None = None
    """The pairs themselves, if they are in no file yet."""

    @property
    def name(self) -> str:
        """The name of the run."""
        return self.argument.run_name

    def recommend(
        self, changes: list[str], start: Path | None, folder: Path, minutes: float | None = None
    ) -> Recommendation:
        """The recipe for them. Pairs that can be read only once are first saved beside the run folder."""
        from weft.pairs.recommendation.recommend import recommend_recipe

        if self.pairs is None and (self.argument.name is None or not self.argument.is_pipe):
            return recommend_recipe(self.argument, changes, like=self.like, start=start, minutes=minutes)
        if self.pairs is None:
            copy, is_new = _save_pipe(str(self.argument.name), folder), True
        else:
            copy, is_new = _save_pairs(self.pairs, folder)
        argument = PairsArgument(str(copy), self.argument.source, self.argument.target)
        try:
            return recommend_recipe(argument, changes, like=self.like, start=start, minutes=minutes)
        except BaseException:  # so that the same call can be repeated
            if is_new:
                copy.unlink(missing_ok=True)
            raise


def find_pairs(
    name: str | None, source: str | None, target: str | None, like: str | None, *, resume: bool = False
) -> PairSource | None:
    """The pairs that the arguments of a command name, or None if they name a recipe or a run."""
    is_other = name is not None and (not _names_pairs(name) or (resume and _is_empty_of_pairs(Path(name))))
    if source is None and target is None and is_other:
        if like is not None:
            raise RecipeError(f"{option('like', like)}: needs a file of pairs; {name} is not one")
        if name is not None and not resume:
            _check_exists(name)
        return None
    return PairSource(PairsArgument(name, source, target), like)


def as_source(
    given: GivenPairs, columns: tuple[str | int, str | int] | None, like: str | None, *, resume: bool = False
) -> PairSource | None:
    """The pairs that a program gives, or None if it gives the name of a recipe or a run.

    ``columns``: the source and the target column, by name or number; for a folder, the suffixes of parallel files.
    """
    source, target = (None, None) if columns is None else map(str, columns)
    if isinstance(given, str | Path):
        return find_pairs(str(given), source, target, like, resume=resume)
    if columns is not None:
        raise RecipeError("columns: only a table has columns; leave them out")
    if isinstance(given, tuple) and len(given) == 2 and all(isinstance(file, str | Path) for file in given):
        return PairSource(PairsArgument(None, *map(str, given)), like)
    from weft.translation.inputs import as_pairs

    return PairSource(PairsArgument("-"), like, tuple(as_pairs(given)))


def check_unused(**options: object) -> None:
    """Refuse options that choose or change a recipe where there is a recipe already."""
    for name, value in options.items():
        if value not in (None, []):
            raise RecipeError(f"{name}: of no use with a recipe that is made already; give it to weft.load_recipe")


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
    from weft.data.reading.text_files import display_name, open_rereadable
    from weft.files import replacing

    with open_rereadable(name) as spool:
        start = spool.read(8)
        suffix = next((suffix for magic, suffix in SUFFIXES.items() if start.startswith(magic)), ".tsv")
        path = folder.with_name(folder.name + suffix)
        if path.exists():
            raise _exists_already(path)
        if not start:
            raise DataError(f"{display_name(name)}: no pairs; it is empty")
        path.parent.mkdir(parents=True, exist_ok=True)
        spool.seek(0)
        with replacing(path) as file:
            shutil.copyfileobj(spool, file)
    return path


def _save_pairs(pairs: tuple[Pair, ...], folder: Path) -> tuple[Path, bool]:
    """The pairs of a program as JSON lines, which keep every text: RUN.jsonl beside the run folder RUN.

    Whether the file is new; one with these pairs, of an earlier call, is used again.
    """
    from weft.files import save_text

    if not pairs:
        raise DataError("pairs: none were given")
    text = "".join(json.dumps(_row(pair), ensure_ascii=False) + "\n" for pair in pairs)
    path = folder.with_name(f"{folder.name}.jsonl")
    try:
        if path.exists():
            if path.read_bytes() != text.encode("utf-8"):
                raise _exists_already(path)
            return path, False
        path.parent.mkdir(parents=True, exist_ok=True)
        save_text(path, text)
    except UnicodeEncodeError:
        raise DataError("pairs: a lone surrogate in a text, which UTF-8 cannot write") from None
    return path, True


def _row(pair: Pair) -> dict[str, str]:
    row = {"source": pair.source, "target": pair.target}
    if pair.links is not None:
        row["links"] = " ".join(f"{left}-{right}" for left, right in pair.links)
    return row


def _exists_already(path: Path) -> DataError:
    return DataError(f"{path}: already exists; remove it, or choose another {option('out')}")
