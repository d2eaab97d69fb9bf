"""The pairs a user names: one file, two parallel files, a folder with train, valid and test, or standard input."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from weft.data.columns.columns import columns_option, two_files_option
from weft.data.columns.rows import PairInput
from weft.data.reading.compression import inner_name
from weft.data.reading.corpora import expand
from weft.data.reading.formats import format_of
from weft.errors import DataError

PARTS = {"train": ("train",), "valid": ("valid", "validation", "val", "dev"), "test": ("test",)}
"""The parts of a corpus, and how the names of their files begin."""
_WORD_END = re.compile(r"[^a-z]")


@dataclass(frozen=True)
class PairsArgument:
    """Pairs as a command line names them: FILE, FOLDER or ``-``, columns of a table, or two parallel files."""

    name: str | None
    source: str | None = None
    """``--source``: a column of the table, or without one a file."""
    target: str | None = None

    def __post_init__(self) -> None:
        if (self.source is None) != (self.target is None):
            raise DataError(f"{columns_option()} go together: two files, or two columns of a table")
        if self.name is None and self.source is None:
            raise DataError(f"no pairs: give a file or a folder, or {two_files_option()}")

    @property
    def columns(self) -> tuple[str, str] | None:
        """The columns of the source and of the target, if they are named."""
        return (self.source, self.target) if self.name and self.source and self.target else None

    def inputs(self) -> dict[str, PairInput]:
        """The parts that are named: "train" always, "valid" and "test" where a folder has them.

        In a folder of parallel files, the names of columns are the endings of the files of each side.
        """
        if self.name is None:
            assert self.source is not None
            return find_inputs(self.source, self.target)
        if self.name != "-" and Path(self.name).is_dir():
            return _in_folder(Path(self.name), self.columns)
        return find_inputs(self.name)

    @property
    def is_pipe(self) -> bool:
        """Whether the pairs are standard input or another pipe, which can be read only once."""
        name = self.name or self.source or ""
        return name == "-" or Path(name).is_fifo()

    @property
    def run_name(self) -> str:
        """The name of a run on these pairs: that of the file without its suffixes, or of the folder."""
        name = self.name or self.source or ""
        path = Path("pairs") if self.is_pipe else Path(name).resolve()
        stem = path.name if path.is_dir() else inner_name(path).split(".", 1)[0]
        return re.sub(r"[^\w .+-]", "_", stem).lstrip(" .+-") or "pairs"


def find_inputs(name: str, targets: str | None = None) -> dict[str, PairInput]:
    """The parts that a name stands for: "train" always, "valid" and "test" where a folder has them."""
    if targets is not None:
        _check_exists(name, targets)
        return {"train": PairInput(name, targets)}
    if name != "-" and Path(name).is_dir():
        return _in_folder(Path(name))
    _check_exists(name)
    return {"train": PairInput(name)}


def _check_exists(*names: str) -> None:
    for name in names:
        if name != "-" and not all(Path(path).exists() for path in expand((name,))):
            raise DataError(f"{name}: no such file or folder; give a file of pairs, two parallel files or a folder")


def _in_folder(folder: Path, sides: tuple[str, str] | None = None) -> dict[str, PairInput]:
    """The files of a folder by the part that their names begin with; ``sides``: endings of parallel files, if any."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    inputs = {}
    for part, beginnings in PARTS.items():
        named = [path for path in files if _WORD_END.split(path.name.lower(), maxsplit=1)[0] in beginnings]
        if named:
            inputs[part] = _with_endings(named, sides) or _one_input(folder, part, named)
    if "train" not in inputs:
        raise DataError(f"{folder}: no file whose name begins with train; name the training pairs train.tsv")
    return _with_same_sides(inputs)


def _with_endings(named: list[Path], sides: tuple[str, str] | None) -> PairInput | None:
    """The two files that have these endings, if there are two."""
    if sides is None:
        return None
    by_ending = {ending(path): str(path) for path in reversed(named) if format_of(path) is None}
    source, target = (by_ending.get(side.removeprefix(".").lower()) for side in sides)
    return PairInput(source, target) if source and target else None


def ending(path: Path) -> str:
    """The last suffix of a file name, without that of a compression: "en"."""
    return Path(inner_name(path)).suffix.removeprefix(".").lower()


def _one_input(folder: Path, part: str, named: list[Path]) -> PairInput:
    tables = [path for path in named if format_of(path) is not None]
    if len(tables) == 1:
        return PairInput(str(tables[0]))
    if not tables and len(named) == 2:
        return _sides(named)
    if not tables and len(named) == 1:
        return PairInput(str(named[0]))
    names = ", ".join(path.name for path in named[:6])
    raise DataError(
        f"{folder}: several files begin with {part}: {names}; leave one file of pairs, or name the endings of two "
        f"with {columns_option()}"
    )


SOURCE_ENDINGS = ("src", "source", "input", "in", "x")
TARGET_ENDINGS = ("tgt", "trg", "target", "output", "out", "y")


def _sides(named: list[Path]) -> PairInput:
    """Two parallel files, the sources first: by their endings, else in the order of their names."""
    first, second = named
    endings = [ending(path) for path in named]
    if endings[0] in TARGET_ENDINGS or endings[1] in SOURCE_ENDINGS:
        return PairInput(str(second), str(first))
    is_told = endings[0] in SOURCE_ENDINGS or endings[1] in TARGET_ENDINGS
    return PairInput(str(first), str(second), is_guess=not is_told)


def _with_same_sides(inputs: dict[str, PairInput]) -> dict[str, PairInput]:
    """The parts, all of one kind: those of parallel files beside those of tables are refused."""
    kinds = {part: pair_input.format for part, pair_input in inputs.items()}
    for part, kind in kinds.items():
        if (kind == "parallel") != (kinds["train"] == "parallel"):
            raise DataError(
                f"{inputs[part].name}: its format differs from that of {inputs['train'].name}; "
                "give all as tables, or all as parallel files"
            )
    return inputs
