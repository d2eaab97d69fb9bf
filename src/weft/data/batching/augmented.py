"""Augmentation of the pictures and frames of batches (training.augmentation): each is changed anew in every epoch.

The changes (`weft.data.arrays.augmentation`) are a function of the seed, the step and the number and row of the batch:
a resumed run repeats them, and other workers draw the same. The target does not change; shapes do with
``augmentation.resize`` alone: then a batch may have more pixels than its budget.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import torch

from weft.data.arrays.augmentation import augment_picture, mask_frames
from weft.data.batching.batches import StepBatches
from weft.data.store.token_store import Batch
from weft.packed import pack, unpack
from weft.ragged import Layout, Ragged
from weft.recipe.augmentation import AugmentationSettings

STREAM = 0x61726179
"""Tells these random numbers from others of the same seed and step."""


def with_augmentation(
    steps: Iterator[StepBatches], settings: AugmentationSettings, *, seed: int
) -> Iterator[StepBatches]:
    """Change the pictures or frames of steps at random; with settings that change nothing, the steps themselves."""
    if not (settings.changes_pictures or settings.changes_frames):
        return steps
    return _changed(steps, settings, seed)


def _changed(steps: Iterator[StepBatches], settings: AugmentationSettings, seed: int) -> Iterator[StepBatches]:
    for step in steps:
        batches = [
            augmented(batch, settings, (seed, step.step, number, STREAM))
            for number, batch in zip(step.numbers, step.batches, strict=True)
        ]
        yield step._replace(batches=batches)


def augmented(batch: Batch, settings: AugmentationSettings, key: tuple[int, ...]) -> Batch:
    """A batch with other pictures or frames; ``key``: a seed, to which the row is added."""
    values_N, starts = batch.source.values.numpy(), batch.source.layout.offsets.tolist()
    rows = []
    for row, (start, stop) in enumerate(pairwise(starts)):
        array = unpack(values_N[start:stop])
        change = augment_picture if array.ndim == 3 else mask_frames
        rows.append(torch.from_numpy(pack(change(array, settings, (*key, row)))))
    lengths = torch.tensor([len(row) for row in rows])
    return batch._replace(source=Ragged(torch.cat(rows), Layout(lengths)) if rows else batch.source)
