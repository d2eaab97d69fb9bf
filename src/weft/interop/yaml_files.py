"""YAML as Marian writes it: options of models and decoders, and vocabularies. Tags that make objects are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from weft.errors import CheckpointError
from weft.files import read_bounded

MAX_BYTES = 1 << 28
"""The largest file."""


def parse_yaml(content: bytes, *, where: str, as_text: bool = False) -> dict[str, Any]:
    """The mapping that a YAML document holds; ``as_text``: every key and value as it is written, none as a number."""
    try:
        import yaml
    except ImportError:
        raise CheckpointError(f"{where}: reading YAML needs a package: pip install 'weft-seq2seq[marian]'") from None
    loaders = ("CBaseLoader", "BaseLoader") if as_text else ("CSafeLoader", "SafeLoader")
    loader = next(getattr(yaml, name) for name in loaders if hasattr(yaml, name))
    try:
        parsed = yaml.load(content.decode("utf-8"), Loader=loader)
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())[:120]
        raise CheckpointError(f"{where}: not valid YAML ({reason})") from None
    if not isinstance(parsed, dict):
        raise CheckpointError(f"{where}: expected names and values")
    return parsed


def read_yaml(path: Path, *, as_text: bool = False) -> dict[str, Any]:
    """Parse a YAML file."""
    try:
        content = read_bounded(path, max_bytes=MAX_BYTES)
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror or error})") from None
    return parse_yaml(content, where=str(path), as_text=as_text)
