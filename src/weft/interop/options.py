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
    """Of Marian, fairseq and Joey NMT: one file for both sides, or those of source and target; if none, as found."""
    numerics: str = "marian"
    """Of a Marian model: whose sinusoids and ε of norms, those of Marian or those of Hugging Face."""
