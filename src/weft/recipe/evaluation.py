"""[evaluation]: the report of `weft evaluate`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from weft.recipe.base import Settings


class EvaluationSettings(Settings):
    """[evaluation]: the report of `weft evaluate`."""

    metrics: list[str] = Field(["bleu", "chrf", "exact_match"], description="metrics that `weft evaluate` reports")
    former: str | None = Field(
        None,
        description="a TSV file of pairs of the former task, to measure what is forgotten; not set: the test set of "
        "training.start",
    )
    references: Literal["each", "grouped"] = Field(
        "each", description="grouped: pairs with the same source are one item with several references"
    )
