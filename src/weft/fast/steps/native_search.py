"""Searches of one sentence on a CPU in one call of compiled code: which models have them, and greedy search.

native/search.c takes the steps of a model's decoder (`weft.fast.steps.native_transformer`, `native_recurrent`) and does
what is between them. Beam search: `weft.fast.steps.native_beam`. Equal to `weft.search.sampling.greedy_search` up to
rounding; tests/fast/steps/test_native_search.py.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Protocol, cast
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn

from weft.fast.cpu import compiled
from weft.fast.cpu.compiled import Linear, check_memory
from weft.fast.steps.native_recurrent import native_recurrent_decoder
from weft.fast.steps.native_transformer import native_steps
from weft.models.architecture import architecture_of
from weft.models.seq2seq import Seq2Seq
from weft.runtime.replaceable import plain_of
from weft.search.constraints import NoLoops
from weft.search.interface import Hypothesis, SearchRequest, StepModel
from weft.search.loop import StepRecords
from weft.search.paths import PathRecord, path_hypotheses
from weft.search.ranking import Ranking
from weft.search.repetition import has_loop
from weft.search.sampling import greedy_search


class SearchFields(ctypes.Structure):
    """A search as native/search.h declares it."""

    _fields_ = (("output", Linear), *((name, ctypes.c_int32) for name in ("begin", "end", "longest")))


class NativeDecoder(Protocol):
    """The decoder of one sentence, as C reads it; it keeps alive what that points to."""

    output: Linear
    embedding_VE: Tensor

    def prepare_search(self, *, longest: int, rows: int) -> bool:
        """Make room for a search; False where C cannot take its steps."""

    def search(self, search: Any, beam: Any, tokens_T: Tensor | None, log_probs_T: Tensor | None) -> int:
        """Call C: the number of steps; −1: there was no memory, −2: plain search has to take the steps.

        ``beam``: a beam, which has its own records; None: greedy search, which writes tokens and their log p.
        """


_families: WeakKeyDictionary[nn.Module, str] = WeakKeyDictionary()


def _family(model: nn.Module) -> str:
    """The kind of a plain encoder–decoder, "transformer" or "recurrent"; "" of all other models. It is asked once."""
    if model not in _families:
        described = architecture_of(model)
        is_plain = described.kind == "seq2seq" and described.is_plain and described.decoder is not None
        _families[model] = described.decoder.family if is_plain and described.decoder is not None else ""
    return _families[model]


def find_native_search(
    model: StepModel, request: SearchRequest, *, rows: int
) -> tuple[NativeDecoder, SearchFields] | None:
    """The decoder and the search of a request with ``rows`` hypotheses, for C; None: it cannot take the steps."""
    family = _family(model) if isinstance(model, nn.Module) else ""
    decoder: NativeDecoder | None = None
    if family == "transformer":
        decoder = native_steps(cast(Seq2Seq, model), request.memory, rows=rows, return_attention=False)
    elif family == "recurrent":
        decoder = native_recurrent_decoder(cast(Seq2Seq, model), request.memory, rows=rows)
    longest = request.max_lengths[0]
    if decoder is None or longest < 1 or not 0 <= request.begin < len(decoder.embedding_VE):
        return None
    is_read_again = decoder.output.outputs <= len(decoder.embedding_VE)
    if not is_read_again or not decoder.prepare_search(longest=longest, rows=rows):
        return None
    return decoder, SearchFields(decoder.output, request.begin, request.end, longest)


def is_native_greedy(model: StepModel, request: SearchRequest, ranking: Ranking = Ranking("none")) -> bool:
    """Whether `greedy_search` may apply: one sentence on a CPU, and nothing that changes or observes its steps."""
    return (
        len(request.max_lengths) == request.n_best == 1
        and torch.device(request.device).type == "cpu"
        and request.loop is None
        and not (request.return_attention or request.return_trace or ranking.beta)
        and not (any(request.prefixes) or any(request.min_lengths) or any(request.required))
        and all(isinstance(constraint, NoLoops) for constraint in request.constraints)
        and compiled.loaded is not None
    )


def native_greedy_search(
    model: StepModel, request: SearchRequest, ranking: Ranking = Ranking("none")
) -> Sequence[list[Hypothesis]]:
    """`weft.search.sampling.greedy_search` of one sentence in one call, where the model's steps are native.

    The constraint `NoLoops` changes nothing unless the output has a loop; then, plain search takes the steps.
    """
    plain = plain_of(greedy_search)
    with torch.no_grad():
        native = find_native_search(model, request, rows=1)
        if native is None:
            return plain(model, request, ranking)
        tokens_T, log_probs_T = _call(*native)
        if not log_probs_T.isfinite().all():  # logits that are not numbers: what follows from them is left to PyTorch
            return plain(model, request, ranking)
        lengths_1 = np.array([len(tokens_T)])
        limits = [constraint.limits for constraint in request.constraints if isinstance(constraint, NoLoops)]
        if any(has_loop(tokens_T.numpy(), lengths_1, limit).any() for limit in limits):
            return plain(model, request, ranking)
        active_T11 = torch.ones(len(tokens_T), 1, 1, dtype=torch.bool)
        record = PathRecord(tokens_T[:, None, None], log_probs_T[:, None, None], active_T11, None, None, None)
        return path_hypotheses(
            [StepRecords(torch.zeros(1, dtype=torch.int64), record)], request, ranking, with_gap=True
        )


def _call(decoder: NativeDecoder, fields: SearchFields) -> tuple[Tensor, Tensor]:
    """The tokens (T,) of greedy search and their log p."""
    tokens_T, log_probs_T = torch.empty(fields.longest, dtype=torch.int64), torch.empty(fields.longest)
    count = check_memory(decoder.search(ctypes.byref(fields), None, tokens_T, log_probs_T))
    return tokens_T[:count], log_probs_T[:count]
