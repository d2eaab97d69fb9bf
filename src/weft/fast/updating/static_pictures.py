"""Batches of pictures in static memory, so that an update on them can be replayed as a CUDA graph.

A batch is filled up to a fixed number of positions, before a stem and after each of its stages, by one more picture of
a single row. It has as many source states as all graphs of its key; those that are too many belong to rows without a
loss. So no gradient comes from what fills up a batch, and no convolution reads it.

The result equals that of `PlainUpdate`: tests/contracts/test_gpu.py. On pictures that are filled up:
tests/fast/updating/test_static_pictures.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from weft.data.batching.batches import side_budgets
from weft.data.store.token_store import Batch, CorpusSize
from weft.fast.layers.ragged_stem import MeasuredPictures, StageGrids, has_kernels, sizes_of_stages, starts_of
from weft.fast.updating.static_sides import StaticRows, bucket_length, padded_rows
from weft.models.architecture import architecture_of
from weft.models.interface import Model
from weft.models.recurrent import has_recurrence
from weft.models.stems import GridStem, packed_shapes
from weft.packed import HEADER
from weft.ragged import Ragged

Sizes = Sequence[Sequence[tuple[int, int]]]
"""Height and width of each picture, for every stage."""
UNITS = 8
"""The positions of a batch are rounded up to this fraction of the budget."""
MARGIN = 1.06
"""Positions after a stage beyond those before it, divided by its strides: sides are rounded up."""
ROW_GROUPS, MIN_ROW_MULTIPLE = 8, 16
"""Rows are rounded up to this fraction of the targets' tokens, but at least to the multiple."""
SOURCE_LENGTHS = tuple(128 * 2**power for power in range(20))
"""Bounds on the states of a picture."""
TARGET_LENGTHS = (16, 32, 64, 128)
TYPICAL_LENGTH = 512
"""States of a picture for which kernels are compiled ahead."""


def captured_stem(model: Model) -> GridStem | None:
    """The stem of a model whose updates on pictures can be captured: of a grid, and read by attention alone."""
    architecture = architecture_of(model)
    if not architecture.reads_arrays or architecture.members or architecture.source_embedding is None:
        return None
    assert isinstance(model, nn.Module)
    stem = model.get_submodule(architecture.source_embedding.module)
    has_fixed_rest = replace(architecture, source_embedding=None).fixed_shapes and not has_recurrence(model)
    return stem if isinstance(stem, GridStem) and has_kernels(stem) and has_fixed_rest else None


class PictureKey(NamedTuple):
    """The sizes in which one graph differs from another."""

    rows: int
    max_source_length: int
    max_target_length: int
    units: int
    """How many times the smallest number of positions."""


class PictureShape:
    """The sizes to which the batches of a corpus of pictures are filled up."""

    def __init__(self, stem: GridStem, corpus_size: CorpusSize, batch_tokens: int) -> None:
        """``corpus_size``: of packed pictures, in bytes."""
        pixels, target_tokens = side_budgets(corpus_size, batch_tokens)
        self.stem = stem
        self.target_tokens = max(target_tokens, corpus_size.max_target_length)
        self.max_target_length = corpus_size.max_target_length
        self.row_multiple = max(self.target_tokens // ROW_GROUPS, MIN_ROW_MULTIPLE)
        shrinking = np.cumprod([1, *(down * across for down, across in stem.settings.stages)])
        unit = max(pixels // stem.settings.inputs // UNITS, 1)
        self.unit_counts = [unit, *(math.ceil(MARGIN * unit / by) for by in shrinking[1:])]
        """The positions of each stage in one unit."""

    def __repr__(self) -> str:
        return f"PictureShape({self.unit_counts}, {self.target_tokens}, {self.row_multiple})"

    def key(self, batch: Batch) -> PictureKey:
        """The graph of a batch."""
        sizes = sizes_of_stages(self.stem, packed_shapes(batch.source))
        areas = [sum(height * width for height, width in stage) for stage in sizes]
        units = max(math.ceil(area / count) for area, count in zip(areas, self.unit_counts, strict=True))
        states_B = torch.tensor([height * width for height, width in sizes[-1]])
        source_length = bucket_length(int(states_B.max()), SOURCE_LENGTHS[-1], SOURCE_LENGTHS)
        target_length = bucket_length(batch.target.layout.longest, self.max_target_length, TARGET_LENGTHS)
        rows = max(
            padded_rows(states_B, self.counts(units)[-1], source_length),
            padded_rows(batch.target.lengths, self.target_tokens, target_length),
        )
        return PictureKey(self.rounded_rows(rows), source_length, target_length, units)

    def rounded_rows(self, rows: int) -> int:
        return math.ceil(rows / self.row_multiple) * self.row_multiple

    def counts(self, units: int) -> list[int]:
        """The positions of each stage."""
        return [units * count for count in self.unit_counts]

    def likely_keys(self) -> list[PictureKey]:
        """Keys that need all kernels that the batches of a corpus are likely to need: of rows full of padding."""
        no_rows = torch.zeros(0, dtype=torch.int64)
        keys = []
        for target_length in {bucket_length(length, self.max_target_length, TARGET_LENGTHS) for length in (16, 32)}:
            rows = max(
                padded_rows(no_rows, self.counts(UNITS)[-1], TYPICAL_LENGTH),
                padded_rows(no_rows, self.target_tokens, target_length),
            )
            keys.append(PictureKey(self.rounded_rows(rows), TYPICAL_LENGTH, target_length, UNITS))
        return sorted(keys)

    def source_side(self, key: PictureKey, device: torch.device) -> StaticPictures:
        """Static memory for the pictures of a key."""
        return StaticPictures(self.stem, self.counts(key.units), key, device)


class StaticPictures(StaticRows):
    """The pictures of a batch in static memory, into which batches are copied."""

    def __init__(self, stem: GridStem, counts: Sequence[int], key: PictureKey, device: torch.device) -> None:
        """``counts``: the positions of each stage."""
        super().__init__(counts[-1], key.max_source_length, key.rows, device)
        self.stem = stem
        values = torch.zeros(counts[0] * stem.settings.inputs + HEADER * key.rows, dtype=torch.uint8, device=device)
        no_pictures: Sizes = [[] for _ in counts]
        self.stage_grids = StageGrids(
            torch.from_numpy(self.filled_starts(no_pictures, counts)).to(device),
            counts,
            torch.zeros(key.rows + 1, dtype=torch.int64, device=device),
            (key.max_source_length, key.max_source_length),
            self.layout,
        )
        self.pictures = MeasuredPictures(values, self.stage_grids)
        for positions in (stem.row_positions, stem.column_positions):
            positions(key.max_source_length)  # the table grows now, not in a graph

    def filled_starts(self, sizes: Sizes, counts: Sequence[int]) -> np.ndarray:
        """(stages, 3, rows + 1) `starts_of` these pictures, of rows without one, and of what fills up the batch."""
        starts_L3B = starts_of(sizes)
        filled_L3B = np.zeros((len(counts), 3, self.rows + 1), dtype=np.int32)
        areas_L = (starts_L3B[:, 1] * starts_L3B[:, 2]).sum(1)
        filled_L3B[:, 0] = areas_L[:, None]
        filled_L3B[:, :, : starts_L3B.shape[2]] = starts_L3B
        filled_L3B[:, 1, -1] = 1
        filled_L3B[:, 2, -1] = np.array(counts) - areas_L
        return filled_L3B

    def copy_from(self, batch: Ragged) -> None:
        """Copy a batch here, filled up."""
        sizes = sizes_of_stages(self.stem, packed_shapes(batch))
        self.layout.assign(self.padded_lengths(torch.tensor([height * width for height, width in sizes[-1]])))
        first_values_B = torch.zeros(self.rows + 1, dtype=torch.int64)
        first_values_B[: batch.rows] = batch.layout.offsets[:-1] + HEADER
        copy_to(self.stage_grids.starts_L3B, torch.from_numpy(self.filled_starts(sizes, self.stage_grids.counts)))
        copy_to(self.stage_grids.first_values_B, first_values_B)
        copy_to(self.pictures.values[: len(batch.values)], batch.values.to(torch.uint8))

    def ragged(self) -> Ragged:
        return self.pictures


def copy_to(static: Tensor, values: Tensor) -> None:
    """Copy values of the CPU to static memory; a GPU does not let the host wait for it."""
    static.copy_(values.pin_memory() if static.is_cuda else values, non_blocking=True)
