"""The files of a tokenizer in a Hugging Face folder, read with limits."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

from weft.errors import VocabularyError
from weft.files import parse_json, read_bounded

MAX_BYTES = 1 << 28
"""The largest file of a tokenizer."""


class TokenizerFolder:
    """A folder with the files of a tokenizer."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, name: str) -> Path:
        return self.folder / name

    def has(self, name: str) -> bool:
        return self.path(name).is_file()

    def first(self, *names: str) -> str:
        """The first of these files that is there."""
        name = next(filter(self.has, names), None)
        if name is None:
            raise VocabularyError(f"{self.folder}: no tokenizer in it; expected {' or '.join(names)}")
        return name

    def read(self, name: str) -> bytes:
        try:
            return read_bounded(self.path(name), max_bytes=MAX_BYTES, error=VocabularyError)
        except OSError as error:
            message = "no such file" if isinstance(error, FileNotFoundError) else error.strerror or str(error)
            raise VocabularyError(f"{self.path(name)}: cannot read the tokenizer: {message}") from None

    def read_object(self, name: str) -> dict[str, Any]:
        """The object that a JSON file holds."""
        content = parse_json(self.read(name), where=str(self.path(name)), error=VocabularyError)
        if not isinstance(content, dict):
            raise VocabularyError(f"{self.path(name)}: damaged: it holds no object")
        return content

    def read_ids(self, name: str) -> list[str]:
        """The tokens of a vocab.json, by id: each id from 0 to the largest stands in it once."""
        vocabulary = self.read_object(name)
        tokens: list[str | None] = [None] * len(vocabulary)
        for token, id in vocabulary.items():
            if isinstance(id, bool) or not isinstance(id, int) or not 0 <= id < len(tokens):
                raise VocabularyError(
                    f"{self.path(name)}: the id of {token!r} is {id!r}, expected one of 0 to {len(tokens) - 1}"
                )
            if tokens[id] is not None:
                raise VocabularyError(f"{self.path(name)}: {tokens[id]!r} and {token!r} have the same id, {id}")
            tokens[id] = token
        return [token for token in tokens if token is not None]

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The content of special_tokens_map.json, overridden by tokenizer_config.json; either may be missing."""
        files = [name for name in ("special_tokens_map.json", "tokenizer_config.json") if self.has(name)]
        return {name: value for file in files for name, value in self.read_object(file).items()}

    def token(self, role: str, default: str) -> str:
        """The name of a special token."""
        value = self.settings.get(f"{role}_token", default)
        value = value.get("content") if isinstance(value, dict) else value
        return value if isinstance(value, str) else default

    def count(self, name: str, default: int) -> int:
        """A number of the settings."""
        value = self.settings.get(name, default)
        return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 20 else default

    def special_names(self) -> list[str]:
        """The special tokens beside the usual ones, in their order."""
        tokens: list[str] = []
        for name in ("additional_special_tokens", "extra_special_tokens"):
            values = self.settings.get(name)
            for value in values if isinstance(values, list) else []:
                value = value.get("content") if isinstance(value, dict) else value
                tokens += [value] if isinstance(value, str) and value not in tokens else []
        return tokens
