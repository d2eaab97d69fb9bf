"""[serve]: what a service calls the languages of a run."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from weft.recipe.base import Settings

LanguageName = Annotated[str, Field(max_length=40, pattern=r"^[\w-]*$")]


class ServingSettings(Settings):
    """[serve]: what a service calls the languages of a run."""

    source: LanguageName = Field(
        "", description="language of the sources, as `weft serve` names it to LibreTranslate's clients, such as en"
    )
    target: LanguageName = Field("", description="language of the targets, such as fr")
