"""Search settings as generation_config.json: the inverse of generation.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from weft.recipe import SearchSettings

EARLY_STOPPING: Mapping[str, bool | str] = {
    "finished": True,
    "outranked": False,
    "outranked_by_all": False,
    "provable": "never",
    "steps": "never",
}
"""The nearest that `generate` has for search.stop."""
EQUAL_STOPS = ("finished", "outranked_by_all", "provable")
SMALL_VOCABULARY = 1000
"""Vocabulary size below which search.stop is `outranked` by default."""


class TokenIds(NamedTuple):
    """The ids of tokens with a role, as the export numbers them."""

    begin: int
    """The first input of the decoder."""
    end: int
    padding: int
    unknown: int
    forced: int | None = None
    """The forced first token of every output, such as its language."""

    def to_json(self) -> dict[str, int]:
        """The ids as config.json and generation_config.json name them."""
        ids = {"decoder_start_token_id": self.begin, "eos_token_id": self.end, "pad_token_id": self.padding}
        return ids if self.forced is None else {**ids, "forced_bos_token_id": self.forced}


def generation_config(
    search: SearchSettings, ids: TokenIds, *, max_length: int, vocabulary: int, banned: list[list[int]]
) -> dict[str, Any]:
    """``max_length``: the most positions of the decoder; ``vocabulary``: size of the target's.

    ``banned``: search.banned_ids, as the export numbers them.
    """
    config: dict[str, Any] = {**ids.to_json(), "max_length": max_length}
    started = 1 + (ids.forced is not None)
    if search.max_length:
        config["max_length"] = min(search.max_length + started, max_length)
    if search.min_length:
        config["min_length"] = min(search.min_length + started, config["max_length"])
    if search.kind == "sample":
        names = {"temperature": search.temperature, "top_k": search.top_k, "top_p": search.top_p, "min_p": search.min_p}
        config |= {"do_sample": True, "num_beams": 1, **names, "typical_p": search.typical}
    elif search.kind == "beam" and search.size > 1:
        config |= {"num_beams": search.size, "early_stopping": EARLY_STOPPING[_stop(search, vocabulary)]}
        config["length_penalty"] = 0.0 if search.normalization == "none" else search.length_penalty
    else:
        config["num_beams"] = 1
    if search.no_repeat_ngram:
        config["no_repeat_ngram_size"] = search.no_repeat_ngram
    if search.repetition_penalty != 1:
        config["repetition_penalty"] = search.repetition_penalty
    if banned:
        config["bad_words_ids"] = banned
    return config


def differences(search: SearchSettings, vocabulary: int) -> list[str]:
    """The search settings that `generate` has no counterpart for, one line each."""
    lines = []
    if search.kind not in ("greedy", "beam", "sample"):
        lines.append(f"search.kind = {search.kind!r}: `generate` searches greedily")
    if search.kind == "beam":
        stop = _stop(search, vocabulary)
        if stop not in EQUAL_STOPS:
            lines.append(f"search.stop = {stop!r}: the nearest is early_stopping = {EARLY_STOPPING[stop]!r}")
        if search.normalization == "gnmt":
            lines.append("search.normalization = 'gnmt': `generate` divides by length^α")
        if search.finish not in (0, search.size):
            lines.append(f"search.finish = {search.finish}: `generate` finishes as many as the beam has")
        if search.groups > 1:
            lines.append(f"search.groups = {search.groups}: left out")
    if search.coverage_penalty:
        lines.append(f"search.coverage_penalty = {search.coverage_penalty:g}: left out")
    for name in ("prefix", "banned", "required", "min_ratio"):
        if getattr(search, name):
            lines.append(f"search.{name}: left out")
    if search.no_loops is not False:
        lines.append("search.no_loops: left out; outputs may loop")
    if not search.max_length:
        lines.append("the maximum length: that of the positions, whatever the length of the source")
    return lines


def _stop(search: SearchSettings, vocabulary: int) -> str:
    return search.stop or ("outranked" if vocabulary < SMALL_VOCABULARY else "finished")
