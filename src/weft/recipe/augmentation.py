"""Augmentation of pictures and frames in training: how much each may change at most.

`weft.data.arrays.augmentation` makes the changes. All settings are 0 by default: nothing is changed.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from weft.recipe.base import Count, Settings, Share

MaskCount = Annotated[int, Field(ge=0, le=100)]


class AugmentationSettings(Settings):
    """Largest random changes of pictures and frames, drawn anew each time that one is trained on."""

    resize: Share = Field(
        0.0, description="pictures: change of height and of width, of the whole picture; 0.2: from 1 / 1.2 to 1.2 times"
    )
    scale: Share = Field(
        0.0, description="pictures: the same of what is drawn alone, on paper that keeps its size, where there is room"
    )
    shift: Share = Field(0.0, description="pictures: shift as a share of the height; what is drawn stays inside")
    shear: Share = Field(0.0, description="pictures: slope of upright lines; 0.2: 2 pixels in 10")
    stroke: float = Field(
        0.0, ge=0, le=8, description="pictures: pixels by which strokes grow on each side; as likely thinner"
    )
    contrast: Share = Field(0.0, description="pictures: change of contrast and brightness; 0.5: from 1 / 1.5 to 1.5")
    noise: Share = Field(0.0, description="pictures: standard deviation of noise, as a share of black to white")
    time_masks: MaskCount = Field(0, description="frames: spans of time that are set to 0 (SpecAugment)")
    time_mask: Count = Field(20, description="frames: longest span of time, in frames")
    feature_masks: MaskCount = Field(0, description="frames: ranges of features that are set to 0 (SpecAugment)")
    feature_mask: Count = Field(10, description="frames: widest range of features")

    @property
    def changes_pictures(self) -> bool:
        return any((self.resize, self.scale, self.shift, self.shear, self.stroke, self.contrast, self.noise))

    @property
    def changes_frames(self) -> bool:
        return bool(self.time_masks or self.feature_masks)
