"""The base class of all settings, and the types that several of them share."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Share = Annotated[float, Field(ge=0.0, lt=1.0)]
Probability = Annotated[float, Field(ge=0.0, le=1.0)]
MAX_COUNT = 10**12
"""A limit above all sensible counts, and below what 64-bit integers and floating-point numbers hold exactly."""
Count = Annotated[int, Field(ge=1, le=MAX_COUNT)]
CountOrNone = Annotated[int, Field(ge=0, le=MAX_COUNT)]
Layers = Annotated[int, Field(ge=1, le=1_000)]
Width = Annotated[int, Field(ge=1, le=1_000_000)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]


class Settings(BaseModel):
    """A group of settings: strict types; unknown names are errors; immutable."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False, serialize_by_alias=True)

    @classmethod
    def attributes(cls) -> dict[str, str]:
        """The attribute of each setting, by its name in recipes."""
        return {field.alias or name: name for name, field in cls.model_fields.items()}
