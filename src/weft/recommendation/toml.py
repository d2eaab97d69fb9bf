"""A recommendation as a recipe file, each choice with its reason as a comment."""

from __future__ import annotations

from typing import Any

from weft.recipe.toml import comment, toml_value
from weft.recommendation.recommend import Recommendation


def write_recommendation(recommendation: Recommendation) -> str:
    """TOML that `weft.recipe.load_recipe` reads to the recommended settings; those that are not named have defaults."""
    lines = [comment(choice.line()) for choice in recommendation.choices]
    lines += [comment(f"warning: {warning}") for warning in recommendation.warnings]
    sections = _sections(recommendation.tree())
    return "\n".join([*lines, "", *sections]).rstrip() + "\n"


def _sections(tree: dict[str, Any], prefix: str = "") -> list[str]:
    """The groups of settings, each with its header; ``data.train`` and the like are values, not groups."""
    values = {name: value for name, value in tree.items() if not _is_group(prefix, name, value)}
    lines = [f"{name} = {toml_value(value)}" for name, value in values.items()]
    parts = ["\n".join([f"[{prefix}]", *lines, ""])] if prefix and lines else lines
    for name, value in tree.items():
        if name not in values:
            parts += _sections(value, f"{prefix}.{name}".removeprefix("."))
    return parts


def _is_group(prefix: str, name: str, value: Any) -> bool:
    return isinstance(value, dict) and (prefix != "data" or name == "holdout")
