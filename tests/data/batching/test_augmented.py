"""Augmentation of batches: the same draws wherever a run is resumed, others in each row and step."""

from __future__ import annotations

import numpy as np
import torch

from weft.data.batching.augmented import augmented, with_augmentation
from weft.data.batching.batches import StepBatches
from weft.data.store.token_store import Batch
from weft.packed import HEADER, pack
from weft.ragged import Ragged
from weft.recipe.augmentation import AugmentationSettings

PICTURE = np.where(np.random.default_rng(1).random((13, 17, 1)) < 0.2, 0, 255).astype(np.uint8)
FRAMES = np.random.default_rng(2).normal(size=(29, 11)).astype(np.float16)
NOISE = AugmentationSettings(noise=0.2)


def batch_of(*arrays: np.ndarray) -> Batch:
    source = Ragged.of([torch.from_numpy(pack(array)) for array in arrays])
    source = source.like(source.values.to(torch.uint8))
    return Batch(source, Ragged.of([[5, 2]] * len(arrays)))


def test_rows_are_changed_each_in_its_own_way_and_keep_their_shapes() -> None:
    batch = batch_of(PICTURE, PICTURE)
    changed = augmented(batch, NOISE, (1, 2))
    first, second = (row.numpy() for row in changed.source.split())
    assert first[:HEADER].tolist() == pack(PICTURE)[:HEADER].tolist() and len(first) == len(second)
    assert (first != second).any() and (first[HEADER:] != pack(PICTURE)[HEADER:]).any()
    assert changed.target is batch.target and batch.source.split()[0].tolist() == pack(PICTURE).tolist()


def test_the_draws_depend_on_seed_step_and_batch_alone() -> None:
    def changed(first_step: int, seed: int = 3, trainings: int = 0) -> list[list[int]]:
        steps = [StepBatches.of([batch_of(PICTURE)])._replace(step=step) for step in range(first_step, 4)]
        changing = with_augmentation(iter(steps), NOISE, seed=seed, trainings=trainings)
        return [step.batches[0].source.values.tolist() for step in changing]

    whole = changed(1)
    assert changed(3) == whole[2:]  # of a run that was resumed at step 3
    assert changed(1, trainings=1) == whole, "by other processes the same, in order"
    assert whole[0] != whole[1] and changed(1, seed=4) != whole


def test_frames_are_masked() -> None:
    changed = augmented(batch_of(FRAMES), AugmentationSettings(time_masks=2, time_mask=5), (1,))
    values = changed.source.values.numpy()[HEADER:].view(np.float16).reshape(FRAMES.shape)
    is_masked = (values == 0).all(1)
    assert is_masked.any() and (values[~is_masked] == FRAMES[~is_masked]).all()


def test_without_settings_the_steps_stay_as_they_are() -> None:
    steps = iter([StepBatches.of([batch_of(PICTURE)])])
    assert with_augmentation(steps, AugmentationSettings(), seed=1) is steps
