"""Which search settings belong to which kind of search; all others apply to every kind."""

from __future__ import annotations

_SAMPLING = frozenset({"temperature", "top_k", "top_p", "min_p", "typical", "seed"})
SCOPES: dict[str, frozenset[str]] = {
    "beam": frozenset({"size", "stop", "finish", "groups", "diversity", "required"}),
    "sample": _SAMPLING,
    "mbr": _SAMPLING | {"samples", "utility"},
    "exact": frozenset({"max_nodes"}),
    "exhaustive": frozenset({"max_space"}),
}


def irrelevant_settings(kind: str) -> frozenset[str]:
    """The settings that belong to other kinds of search, and so change nothing about this one."""
    return frozenset().union(*SCOPES.values()) - SCOPES.get(kind, frozenset())
