"""A model of another toolkit in weft's terms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from weft.interop.checkpoints.vocabularies import TokenList
from weft.interop.huggingface.configuration import Configuration
from weft.interop.imported_run import Conversion
from weft.text.frames import FrameRules


class CheckpointModel(NamedTuple):
    """The content of a checkpoint."""

    toolkit: str
    architecture: str
    """The toolkit's name for it."""
    config: Configuration
    conversion: Conversion
    vocabularies: tuple[TokenList, TokenList]
    """Vocabularies of source and target."""
    rules: FrameRules
    """The special tokens around texts."""


def check_neutral(config: Configuration, neutral: Mapping[str, tuple[Any, ...]]) -> None:
    """Fail unless every option that is set has a value that changes nothing."""
    for name, values in neutral.items():
        value = config.values.get(name)
        if value is not None and value not in values:
            raise config.error(name, f"{value!r} is not imported; weft imports models without it")
