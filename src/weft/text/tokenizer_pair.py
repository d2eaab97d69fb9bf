"""The tokenizers of both sides of a model, and the files they are saved in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from weft.text.tokenizer import Tokenizer, load


class Tokenizers(NamedTuple):
    """The source's and the target's tokenizer: the same object twice if the vocabulary is joint."""

    source: Tokenizer
    target: Tokenizer

    @property
    def joint(self) -> bool:
        return self.source is self.target

    def save(self, folder: Path) -> tuple[Path, ...]:
        """Write one file or two; returns their paths."""
        if self.joint:
            self.source.save(folder / "tokenizer.json")
            return (folder / "tokenizer.json",)
        self.source.save(folder / "tokenizer.source.json")
        self.target.save(folder / "tokenizer.target.json")
        return folder / "tokenizer.source.json", folder / "tokenizer.target.json"


def load_tokenizers(paths: Sequence[Path]) -> Tokenizers:
    """Load one file for both sides, or the source's and the target's."""
    source = load(paths[0])
    return Tokenizers(source, source if len(paths) == 1 else load(paths[1]))
