"""The options of `weft import`."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class ImportOptions(NamedTuple):
    """The options of an import."""

    source_language: str | None = None
    target_language: str | None = None
    default_search: bool = False
    """Weft's own search settings instead of those of the original."""
    vocabularies: tuple[Path, ...] = ()
    """For Marian, fairseq and Joey NMT: one file for both sides, or one each; empty: those found with the model."""
    numerics: str = "marian"
    """For a Marian model: sinusoids and ε of norms as in Marian or as in Hugging Face."""
