"""decoder.yml as search settings.

beam-size       1: search.kind = "greedy"; more: "beam" and search.size
normalize       search.length_penalty; the end token counts in both
max-length-factor, allow-unk   search.max_ratio and max_extra = 0; the unknown token is banned unless it is allowed
"""

from __future__ import annotations

from typing import Any

from weft.interop.huggingface.configuration import Configuration
from weft.text.specials import BEGIN, UNKNOWN

BEAM_SIZE, MAX_LENGTH_FACTOR = 12, 3.0
"""Marian's own defaults."""
HINT = "import it with weft's own search settings: --default-search"


def search_settings(config: Configuration) -> dict[str, Any]:
    """[search] of a run."""
    if config.number("word-penalty", 0.0):
        raise config.error("word-penalty", f"{config.values['word-penalty']!r} has no counterpart in weft; {HINT}")
    size = config.whole("beam-size", BEAM_SIZE)
    settings: dict[str, Any] = {"kind": "greedy"} if size == 1 else {"kind": "beam", "size": size}
    normalize = config.values.get("normalize", 0.0)
    settings["length_penalty"] = float(normalize) if isinstance(normalize, bool) else config.number("normalize", 0.0)
    settings |= {"max_ratio": config.number("max-length-factor", MAX_LENGTH_FACTOR), "max_extra": 0, "no_loops": False}
    banned = [[BEGIN]] if config.flag("allow-unk", False) else [[UNKNOWN], [BEGIN]]
    return {**settings, "banned_ids": banned}
