"""The TOML files that probes read: tables and templates, a user's own or shipped with weft.

A shipped file is named without its suffix: ``weft trace --table pie`` reads tables/pie.toml of this package, and
``weft probe bias RUN --templates turkish`` reads templates/turkish.toml.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from weft.errors import DataError, nearest
from weft.recipe.files import read_toml

FOLDER = Path(__file__).parent


class FileKind(NamedTuple):
    """A kind of file: what it is called, the folder of the shipped ones, and its keys."""

    name: str
    folder: str
    keys: Sequence[str]

    def shipped(self) -> list[Path]:
        """The files that weft ships."""
        return sorted((FOLDER / self.folder).glob("*.toml"))

    def read(self, name: Path | str) -> tuple[Path, dict[str, Any]]:
        """A file, or a shipped one by its name: its path and its contents, whose keys are known ones."""
        path, shipped = Path(name), {file.stem: file for file in self.shipped()}
        if path.suffix != ".toml" and not path.exists():
            if str(name) not in shipped:
                choice = nearest(str(name), shipped)
                raise DataError(f"{name}: no such {self.name}; expected a TOML file or a shipped {self.name}: {choice}")
            path = shipped[str(name)]
        tree = read_toml(path)
        for key in tree:
            if key not in self.keys:
                raise DataError(f"{path}: {key}: unknown; {nearest(key, self.keys)}")
        return path, tree
