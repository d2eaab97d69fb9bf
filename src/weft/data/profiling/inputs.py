"""What a person names as pairs: one file, two parallel files, a folder with train, valid and test, standard input."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from weft.data.reading.compression import display_name, inner_name
from weft.data.reading.corpora import expand
from weft.data.reading.formats import DEFAULT, format_of
from weft.errors import DataError

PARTS = {"train": ("train",), "valid": ("valid", "validation", "val", "dev"), "test": ("test",)}
"""The parts of a corpus, and how the names of their files begin."""
_WORD_END = re.compile(r"[^a-z]")


@dataclass(frozen=True)
class PairInput:
    """A file of pairs in one of the table formats, or a file of sources and a file of targets."""

    file: str
    """``-`` is standard input."""
    targets: str | None = None
    """The file of targets, if `file` has the sources only."""

    @property
    def name(self) -> str:
        """How messages name it."""
        return display_name(self.file) if self.targets is None else f"{self.file} and {self.targets}"

    @property
    def format(self) -> str:
        """tsv, csv, jsonl or parquet; "parallel" for two files."""
        return "parallel" if self.targets is not None else format_of(self.file) or DEFAULT


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


def _in_folder(folder: Path) -> dict[str, PairInput]:
    """The files of a folder by the part that their names begin with."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    inputs = {}
    for part, beginnings in PARTS.items():
        named = [path for path in files if _WORD_END.split(path.name.lower(), maxsplit=1)[0] in beginnings]
        if named:
            inputs[part] = _one_input(folder, part, named)
    if "train" not in inputs:
        raise DataError(f"{folder}: no file whose name begins with train; name the training pairs train.tsv")
    return _with_same_sides(inputs)


def _one_input(folder: Path, part: str, named: list[Path]) -> PairInput:
    tables = [path for path in named if format_of(path) is not None]
    if len(tables) == 1:
        return PairInput(str(tables[0]))
    if not tables and len(named) == 2:
        return PairInput(*_sides(named))
    if not tables and len(named) == 1:
        return PairInput(str(named[0]))
    names = ", ".join(path.name for path in named[:6])
    raise DataError(f"{folder}: several files begin with {part}: {names}; name one file of pairs, or two parallel ones")


SOURCE_ENDINGS = ("src", "source", "input", "in", "x")
TARGET_ENDINGS = ("tgt", "trg", "target", "output", "out", "y")


def _sides(named: list[Path]) -> tuple[str, str]:
    """Two parallel files, the sources first: by their endings, else in the order of their names."""
    first, second = named
    endings = [Path(inner_name(path)).suffix.removeprefix(".").lower() for path in named]
    if endings[0] in TARGET_ENDINGS or endings[1] in SOURCE_ENDINGS:
        first, second = second, first
    return str(first), str(second)


def _with_same_sides(inputs: dict[str, PairInput]) -> dict[str, PairInput]:
    """The parts, all of one kind: those of parallel files beside those of tables are refused."""
    kinds = {part: pair_input.format for part, pair_input in inputs.items()}
    for part, kind in kinds.items():
        if (kind == "parallel") != (kinds["train"] == "parallel"):
            raise DataError(f"{inputs[part].name}: is of another kind than {inputs['train'].name}; give both alike")
    return inputs
