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
from weft.data.store.worker_processes import parallel_map
from weft.packed import pack, unpack
from weft.ragged import Layout, Ragged
from weft.recipe.augmentation import AugmentationSettings
from weft.runtime.processes import core_count

MAX_PROCESSES = 8
STREAM = 0x61726179
"""Tells these random numbers from others of the same seed and step."""


def with_augmentation(
    steps: Iterator[StepBatches], settings: AugmentationSettings, *, seed: int, trainings: int = 0
) -> Iterator[StepBatches]:
    """Change the pictures or frames of steps at random; with settings that change nothing, the steps themselves.

    ``trainings``: of this machine, for whose GPUs other processes do it ahead; 0: this one, when a step is asked for.
    """
    if not (settings.changes_pictures or settings.changes_frames):
        return steps
    workers = min(core_count() // (2 * trainings), MAX_PROCESSES) if trainings else 0
    return parallel_map(Augmentation, (settings, seed), steps, workers=workers, advice="close other programs")


class Augmentation:
    """Changes the batches of a step."""

    def __init__(self, argument: tuple[AugmentationSettings, int]) -> None:
        self.settings, self.seed = argument

    def __call__(self, step: StepBatches) -> StepBatches:
        batches = [
            augmented(batch, self.settings, (self.seed, step.step, number, STREAM))
            for number, batch in zip(step.numbers, step.batches, strict=True)
        ]
        return step._replace(batches=batches)


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
