"""examples.json: a few sources of the validation or test set, which the page of `weft serve` offers to translate.

They are chosen when a run is trained (`weft.data.preparation.examples`), so that serving a run reads its folder only.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from weft.errors import WeftError
from weft.files import read_json, save_text

NAME = "examples.json"
MAX_EXAMPLES = 8
MAX_CHARACTERS = 1_000
"""Characters of a source; longer sources are no examples."""
MAX_BYTES = 1 << 16


def write_examples(folder: Path, sources: Sequence[str]) -> None:
    save_text(folder / NAME, json.dumps(list(sources), ensure_ascii=False, indent=1) + "\n")


def read_examples(folder: Path) -> list[str]:
    """The examples of a run folder; none if it has none. A link is not followed: it may lead out of the folder."""
    path = folder / NAME
    if path.is_symlink() or not path.is_file():
        return []
    try:
        sources = read_json(path, max_bytes=MAX_BYTES)
    except (WeftError, OSError):
        return []
    texts = [text for text in sources if isinstance(text, str)] if isinstance(sources, list) else []
    return [text for text in texts if text.strip() and len(text) <= MAX_CHARACTERS][:MAX_EXAMPLES]
