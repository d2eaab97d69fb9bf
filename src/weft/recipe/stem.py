"""[model.stem]: what makes of a picture, or of frames, the sequence of vectors that an encoder reads.

A stem is a stack of stages: a convolution that divides height and width by the strides of the stage, then residual
blocks. The shape of its output is computed here, without its weights: what shows attention needs it, too.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import Annotated

from pydantic import Field, model_validator

from weft.recipe.base import Settings, Width
from weft.recipe.choices import StemName

Stride = Annotated[int, Field(ge=1, le=16)]
STRIDES = {"columns": ((2, 2), (2, 2), (2, 1)), "grid": ((2, 2),), "frames": ((1, 2), (1, 2), (1, 1))}
"""Strides (height, width) of the stages of each kind of stem; further stages have those of the last."""


class StemSettings(Settings):
    """[model.stem]: pictures and frames"""

    kind: StemName = Field(
        "none",
        description="columns: a picture becomes a sequence of its columns, for lines of text; grid: of all its places, "
        "row by row, with positions in two dimensions, for formulas; frames; none: the source is a text",
    )
    inputs: Width = Field(1, description="values of a pixel or of a frame: tokenizer.channels")
    widths: list[Width] = Field([32, 64, 128], min_length=1, max_length=12, description="channels of each stage")
    blocks: int = Field(1, ge=0, le=64, description="residual blocks of each stage")
    strides: list[Annotated[list[Stride], Field(min_length=2, max_length=2)]] = Field(
        [], description="by what each stage divides height and width; not set: by 2, of columns and frames less often"
    )
    bins: Annotated[int, Field(ge=1, le=64)] = Field(
        4, description="columns: ranges of its height by whose means a column is described"
    )

    @property
    def stages(self) -> list[tuple[int, int]]:
        """The strides (height, width) of every stage."""
        if self.strides:
            return [(down, across) for down, across in self.strides]
        given = STRIDES[self.kind][: len(self.widths)]
        return [stride for stride, _ in zip_longest(given, self.widths, fillvalue=STRIDES[self.kind][-1])]

    def output_shape(self, height: int, width: int) -> tuple[int, int]:
        """The rows and columns of states for a picture of this size; of frames, as many rows as 1."""
        if self.kind == "frames":
            height, width = 1, height
        for down, across in self.stages:
            height, width = -(-height // down), -(-width // across)
        return (height if self.kind == "grid" else 1), width

    @model_validator(mode="after")
    def _agree(self) -> StemSettings:
        if self.strides and len(self.strides) != len(self.widths):
            raise ValueError(
                f"model.stem.strides: {len(self.strides)} are given for {len(self.widths)} stages; give one pair for "
                "each of model.stem.widths"
            )
        return self
