"""Beam search of one sentence on a CPU in one call of compiled code.

Equal to `weft.search.beam.beam_search` up to rounding; tests/fast/steps/test_native_beam.py. native/search.c takes the
steps of the model (`weft.fast.steps.native_search`) and does what is between them: logits, the best extensions, the
update of the beam. Python reads the records of all steps and follows them back.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from weft.fast.cpu import compiled
from weft.fast.cpu.compiled import pointer
from weft.fast.searching.top_k import BeamFields
from weft.fast.steps.native_search import NativeDecoder, SearchFields, find_native_search
from weft.fast.steps.native_transformer import MAX_ROWS
from weft.runtime.replaceable import plain_of
from weft.search.beam import BeamOptions, BeamRecord, backtrace, beam_search
from weft.search.constraints import NoLoops
from weft.search.interface import Hypothesis, SearchRequest, StepModel
from weft.search.loop import StepRecords

NO_MEMORY = -1


class _BeamSearch(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int32) for name in ("size", "needed", "longest_phrase", "copies", "tokens")),
        ("penalties", ctypes.c_void_p),
        ("steps", BeamFields),
    )


class _Records(NamedTuple):
    """Memory that C writes to: of every step (T, K) and, of a beam as a whole, (T,)."""

    ints_3TK: Tensor
    floats_4TK: Tensor
    following_T: Tensor
    ends_TK: Tensor
    stopped_T: Tensor

    @classmethod
    def empty(cls, longest: int, size: int) -> _Records:
        return cls(
            torch.empty(3, longest, size, dtype=torch.int64),
            torch.empty(4, longest, size),
            torch.empty(longest),
            torch.empty(longest, size, dtype=torch.bool),
            torch.empty(longest, dtype=torch.bool),
        )

    def fields(self) -> BeamFields:
        parents, tokens, end_parents = map(pointer, self.ints_3TK)
        totals, ranking, end_totals, end_ranking = map(pointer, self.floats_4TK)
        return BeamFields(
            parents=parents,
            tokens=tokens,
            end_parents=end_parents,
            totals=totals,
            ranking=ranking,
            end_totals=end_totals,
            end_ranking=end_ranking,
            following=pointer(self.following_T),
            ends=pointer(self.ends_TK),
            stopped=pointer(self.stopped_T),
        )

    def first(self, count: int) -> StepRecords:
        """The first steps."""
        parents, tokens, end_parents = self.ints_3TK[:, :count, None]
        totals, ranking, end_totals, end_ranking = self.floats_4TK[:, :count, None]
        record = BeamRecord(
            parents_BK=parents,
            tokens_BK=tokens,
            totals_BK=totals,
            ranking_BK=ranking,
            ends_BK=self.ends_TK[:count, None],
            end_parents_BK=end_parents,
            end_totals_BK=end_totals,
            end_ranking_BK=end_ranking,
            stopped_B=self.stopped_T[:count, None],
            following_BG=self.following_T[:count, None, None],
            attention_BKS=None,
        )
        return StepRecords(torch.zeros(1, dtype=torch.int64), record)


def is_native_beam(model: StepModel, request: SearchRequest, options: BeamOptions = BeamOptions()) -> bool:
    """Whether `native_beam_search` may apply: one sentence on a CPU, and nothing that changes or observes its steps."""
    return (
        len(request.max_lengths) == 1
        and options.size <= MAX_ROWS
        and options.groups == 1
        and options.stop == "finished"
        and torch.device(request.device).type == "cpu"
        and request.loop is None
        and not (request.return_attention or request.return_trace or options.ranking.beta)
        and not (any(request.prefixes) or any(request.min_lengths) or any(request.required))
        and len(request.constraints) <= 1
        and all(isinstance(constraint, NoLoops) for constraint in request.constraints)
        and compiled.loaded is not None
    )


def native_beam_search(
    model: StepModel, request: SearchRequest, options: BeamOptions = BeamOptions()
) -> Sequence[list[Hypothesis]]:
    """`weft.search.beam.beam_search` of one sentence in one call, where the model's steps are native.

    The constraint `NoLoops` changes nothing unless one of the best extensions of a step would end a loop; then plain
    search takes all steps, as it does if a score is not a number.
    """
    with torch.no_grad():
        native = find_native_search(model, request, rows=options.size)
        records = None if native is None else _search(*native, request, options)
    if records is None:
        hypotheses: Sequence[list[Hypothesis]] = plain_of(beam_search)(model, request, options)
        return hypotheses
    return backtrace([records], request, options.size, options.ranking)


def _search(
    decoder: NativeDecoder, fields: SearchFields, request: SearchRequest, options: BeamOptions
) -> StepRecords | None:
    """The records of all steps; None: they are left to plain search."""
    size, longest = options.size, request.max_lengths[0]
    if fields.output.outputs < 2 * size:
        return None
    records = _Records.empty(longest, size)
    penalties_T = options.ranking.penalties(torch.arange(1, longest + 1)).float().contiguous()
    phrase, copies, tokens = (0, 0, 0)
    for constraint in request.constraints:
        assert isinstance(constraint, NoLoops)
        phrase, copies, tokens = constraint.limits
    needed = options.finished_needed(request.n_best)
    beam = _BeamSearch(size, needed, phrase, copies, tokens, pointer(penalties_T), records.fields())
    count = _call(decoder, fields, beam)
    return None if count < 0 else records.first(count)


def _call(decoder: NativeDecoder, fields: SearchFields, beam: _BeamSearch) -> int:
    count = decoder.search(ctypes.byref(fields), ctypes.byref(beam), None, None)
    if count == NO_MEMORY:
        raise MemoryError("no memory for a search")
    return count
