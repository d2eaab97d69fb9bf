"""[serve]: what a service shows of a run."""

from __future__ import annotations

from pydantic import Field

from weft.recipe.base import Settings


class ServingSettings(Settings):
    """[serve]: what a service shows of a run."""

    source: str = Field(
        "", description="language of the sources, as `weft serve` names it to LibreTranslate's clients, such as en"
    )
    target: str = Field("", description="language of the targets, such as fr")
    examples: bool = Field(
        True, description="keep a few sources of the validation or test set in the run folder, as examples for the page"
    )
