"""The bytes that a batch takes whose steps are recorded: its buffers, and what is beside them at the same time.

For K hypotheses of a sentence with S source tokens, a key–value cache with room for T tokens, and a model whose state
has s bytes after one token and g more for each further one, whose logits have v bytes and whose memory has m bytes for
each source token, about

    4 S m                      memory: that of this batch, its copy in the buffers, half of them on the move to smaller
                               buffers, and the next batch
  + K 2 (s + g T)              states: the buffers, and as the first state or on the move to smaller ones
  + K (2 v + 4 s + 2000)       a step: as it is recorded, and as it is tried before
  + K T (200 + 4 S [attention])    its records

A step that kernels do not fuse takes 24 V bytes in place of 2 v. T is the capacity for outputs that are a third longer
than their source, since few are: longer ones move into larger buffers when half of the sentences are done. Equal to
`weft.translation.engines.batch_sizes.sentence_bytes` in what it is for; tests/fast/recording/test_batch_memory.py.
"""

from __future__ import annotations

import numpy as np
import torch

from weft.fast.recording.search import INITIAL_CAPACITY
from weft.fast.searching.fused_beam import MAX_BEAM
from weft.search.constraints import NoLoops, make_constraints
from weft.text.id_rows import IdRows
from weft.translation.engines.batch_sizes import RECORD_BYTES, ROW_BYTES, HypothesisCount, Rows, StepSize
from weft.translation.engines.interface import TranslationRequest

MEMORY_COPIES, STATE_COPIES, STEP_COPIES = 4, 2, 2
SHORTEST_CAPACITY = INITIAL_CAPACITY // 2
SOURCE_MULTIPLE = 16
"""Sources are padded to a multiple of this many tokens (`weft.fast.recording.execution`)."""


def is_on_gpu(request: TranslationRequest, size: StepSize, max_lengths_B: Rows, device: torch.device | str) -> bool:
    return torch.device(device).type == "cuda" and not IdRows.of(request.sources).are_arrays


def recorded_bytes(
    request: TranslationRequest, size: StepSize, max_lengths_B: Rows, device: torch.device | str
) -> Rows:
    """See `weft.translation.engines.batch_sizes.sentence_bytes`."""
    lengths_B = np.maximum.accumulate(IdRows.of(request.sources).lengths_B.astype(np.int64))
    outputs_B = max_lengths_B if request.prompts else np.minimum(max_lengths_B, lengths_B * 4 // 3 + 1)
    capacity_B = capacities(outputs_B)
    padded_B = -(-lengths_B // SOURCE_MULTIPLE) * SOURCE_MULTIPLE
    state_B = STATE_COPIES * (size.state + size.growth * capacity_B)
    step = STEP_COPIES * size.logits + 4 * size.state + ROW_BYTES if is_fused(request) else size.one_step()
    record_B = capacity_B * (RECORD_BYTES + (4 * padded_B if request.return_attention else 0))
    hypotheses = HypothesisCount.of(request).number
    return MEMORY_COPIES * padded_B * size.memory + hypotheses * (state_B + step + record_B)


def is_fused(request: TranslationRequest) -> bool:
    """Whether kernels choose the best tokens and make the next state, so that nothing is as large as the logits."""
    settings = request.settings
    constraints = make_constraints({**dict(settings), "banned": tuple(map(tuple, settings.banned_ids))})
    is_limited = settings.banned or settings.required or any(request.required) or any(request.prefixes)
    has_details = request.return_attention or request.return_trace or request.n_best > 1 or settings.coverage_penalty
    if is_limited or has_details or not all(isinstance(constraint, NoLoops) for constraint in constraints):
        return False
    is_beam = settings.kind == "beam" and settings.size <= MAX_BEAM and settings.groups == 1
    return is_beam or settings.kind == "greedy"


def capacities(tokens_B: Rows) -> Rows:
    """The capacity that buffers for so many tokens have in the end: 16, 32, 64, …"""
    doublings = np.ceil(np.log2(np.maximum(tokens_B, 1) / SHORTEST_CAPACITY)).astype(np.int64)
    return SHORTEST_CAPACITY << np.maximum(doublings, 0)


def is_gpu(most: int, device: torch.device | str) -> bool:
    return torch.device(device).type == "cuda"


def recorded_batch(most: int, device: torch.device | str) -> int:
    """The largest number of sentences that buffers have (`weft.fast.recording.search.padded_count`)."""
    power = 1 << most.bit_length() - 1
    return power * 3 // 2 if power > 1 and power * 3 // 2 <= most else power
