"""The bytes that a batch takes whose steps are recorded: its buffers, and what is beside them at the same time.

For K hypotheses of a sentence with S source tokens, a key–value cache with room for T tokens, and a model whose state
has s bytes after one token and g more for each further one, whose logits have v bytes and whose memory has m bytes for
each source token, about

    4 S m                          memory: of this batch, in the buffers, on the move to smaller ones; of the next batch
  + K 17/8 (s + g T)               states: in the buffers, which have some room to spare, and on the move
  + K (v + 4 s + 2000)             a step
  + K T (200 + 4 S [attention])    its records

A step that kernels do not fuse takes 24 V bytes in place of v. T is the capacity for outputs half as long as they may
be, or a third longer than their source, since few are: those move into larger buffers when half of the sentences are
done. In place of `weft.translation.engines.batch_sizes.sentence_bytes`; tests/fast/recording/test_batch_memory.py.
"""

from __future__ import annotations

import numpy as np
import torch

from weft.fast.recording.buffer_sizes import INITIAL_CAPACITY, smaller_size
from weft.fast.recording.shared_buffers import SLACK
from weft.fast.searching.fused_beam import MAX_BEAM
from weft.search.constraints import NoLoops, make_constraints
from weft.text.id_rows import IdRows
from weft.translation.engines.batch_sizes import RECORD_BYTES, ROW_BYTES, HypothesisCount, Rows, StepSize
from weft.translation.engines.interface import TranslationRequest

MEMORY_COPIES, STATE_COPIES = 4, SLACK + 1
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
    likely_B = np.maximum(max_lengths_B // 2, lengths_B * 4 // 3 + 1)
    capacity_B = capacities(max_lengths_B if request.prompts else np.minimum(max_lengths_B, likely_B))
    padded_B = _padded(lengths_B)
    memory_B = padded_B * size.memory // int(_padded(np.array(max(size.source_length, 1))))
    state_B = (STATE_COPIES * (size.state + size.growth * capacity_B)).astype(np.int64)
    step = size.logits + 4 * size.state + ROW_BYTES if is_fused(request) else size.one_step()
    record_B = capacity_B * (RECORD_BYTES + (4 * padded_B if request.return_attention else 0))
    hypotheses = HypothesisCount.of(request).number
    return MEMORY_COPIES * memory_B + hypotheses * (state_B + step + record_B)


def _padded(lengths: Rows) -> Rows:
    return -(-lengths // SOURCE_MULTIPLE) * SOURCE_MULTIPLE


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
    """The largest number of sentences that buffers have (`weft.fast.recording.buffer_sizes.padded_count`)."""
    return smaller_size(most)
