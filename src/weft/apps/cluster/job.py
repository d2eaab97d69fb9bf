"""The job of a cluster: translate files into a folder, block by block; a rerun skips finished blocks.

DIR/NAME                  the output of a file, once all of its blocks are done
DIR/.blocks/about.json    model and settings of the blocks: a rerun with others is refused
DIR/.blocks/NAME/N        the output of a block
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from weft.apps.cluster.blocks import FileBlock, find_blocks, merge_blocks
from weft.errors import DataError
from weft.files import read_json, save_text
from weft.runtime.activity import activity


class ClusterJob(NamedTuple):
    """Files to translate into a folder."""

    files: tuple[str, ...]
    output: Path

    @classmethod
    def make(cls, files: Sequence[str], output: Path) -> ClusterJob:
        """The job, if every file exists and their outputs have different names."""
        names: dict[str, str] = {}
        for file in files:
            if not Path(file).is_file():
                raise DataError(f"{file}: no such file" if not Path(file).exists() else f"{file}: not a regular file")
            other = names.setdefault(Path(file).name, file)
            if other != file:
                raise DataError(f"{file}: has the name of {other}, and so would its output; rename one")
        if output.exists() and not output.is_dir():
            raise DataError(f"--output {output}: is a file; with --ray the outputs are written to a folder")
        return cls(tuple(dict.fromkeys(str(Path(file).resolve()) for file in files)), output.resolve())

    @property
    def blocks_folder(self) -> Path:
        return self.output / ".blocks"

    def result(self, file: str) -> Path:
        return self.output / Path(file).name

    def block_path(self, block: FileBlock) -> Path:
        return self.blocks_folder / Path(block.file).name / f"{block.number:08d}"

    def prepare(self, made_by: Mapping[str, Any]) -> None:
        """Create the folders; refuse blocks that were made by something else."""
        stats = {file: Path(file).stat() for file in self.files}
        sources = {file: [one.st_size, one.st_mtime_ns] for file, one in stats.items()}
        about = json.loads(json.dumps({**made_by, "sources": sources}))
        path = self.blocks_folder / "about.json"
        if path.exists():
            before = read_json(path, error=DataError)
            changed = [name for name in about if not isinstance(before, dict) or before.get(name) != about[name]]
            if changed:
                raise DataError(
                    f"{self.output}: translated in part with other {', '.join(changed)}; use the same again, or remove "
                    f"{self.blocks_folder} to start again"
                )
        for file in self.files:
            (self.blocks_folder / Path(file).name).mkdir(parents=True, exist_ok=True)
        save_text(path, json.dumps(about, ensure_ascii=False, indent=1) + "\n")

    def find_blocks(self) -> dict[str, list[FileBlock]]:
        """The blocks of every file whose output is not complete."""
        blocks: dict[str, list[FileBlock]] = {}
        for file in self.files:
            if not self.result(file).exists():
                with activity(f"counting the lines of {file}"):
                    blocks[file] = find_blocks(file)
        return blocks

    def unfinished(self, blocks: Mapping[str, Sequence[FileBlock]]) -> list[FileBlock]:
        """The blocks that are not done."""
        return [block for of_file in blocks.values() for block in of_file if not self.block_path(block).exists()]

    def finish(self, blocks: Mapping[str, Sequence[FileBlock]]) -> None:
        """Merge the blocks of every file, and remove them."""
        for file, of_file in blocks.items():
            parquet = bool(of_file) and of_file[0].format == "parquet"
            merge_blocks([self.block_path(block) for block in of_file], self.result(file), parquet=parquet)
            shutil.rmtree(self.blocks_folder / Path(file).name, ignore_errors=True)
