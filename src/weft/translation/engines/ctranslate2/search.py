"""Searches by CTranslate2, with results as weft's hypotheses.

    greedy    y_t = argmax p(y | y_<t, x): the same as weft's
    beam      the same policy as search/beam.py with stop = 'finished': 2k candidates a step, those among the first k
              that end are set aside, done when ``finish`` have ended. Ranked by log p(y|x) / |y|^α; the end token is
              requested, so that it counts in |y| as it does in weft (by default CTranslate2 leaves it out)
    sample    temperature, then top-k, then top-p, as in weft; the random numbers differ

Where CTranslate2 differs, and what is done about it:

    lengths      A call has one maximum length. Rows are searched together under the largest of theirs, and those with
                 a hypothesis above its own maximum are searched again beside rows of the same one: a hypothesis that
                 does not reach the maximum is the same under any larger one. Samples are grouped by maximum length.
    endings      At the maximum length, CTranslate2 ranks unfinished hypotheses with finished ones and returns
                 ``finish`` of them. Rows in which that could hide a finished one are searched again and return all,
                 and finished hypotheses come first, as in weft.
    loops        It has no such constraint. A row with a hypothesis that loops is returned empty, to be searched by
                 PyTorch; hypotheses that a beam dropped on the way are not examined.
    attention    is computed by one more pass: a beam mixes up the first row of a batch. So it has no coverage penalty.
    constraints  (no_repeat_ngram, repetition_penalty, min_lengths) change logits before the softmax, which normalizes
                 the rest again; weft's change log-probabilities after it. A beam's `score` is CTranslate2's.
    α = 0        is given as 10⁻⁹, which divides by 1: at 0 a beam would stop as soon as its best hypothesis ends.

Rounding aside (1e-5 in float32), log p is the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from weft.errors import SearchError
from weft.recipe import SearchSettings
from weft.search.interface import Hypothesis
from weft.search.repetition import LoopLimits, has_loop
from weft.translation.engines.ctranslate2.model import CTranslate2Model, Rows, SearchOutput
from weft.translation.engines.interface import TranslationRequest

KINDS = ("greedy", "beam", "sample")
NO_LENGTH_PENALTY = 1e-9


def search(
    model: CTranslate2Model,
    request: TranslationRequest,
    *,
    max_lengths: Sequence[int],
    min_lengths: Sequence[int] | None = None,
    return_token_scores: bool = False,
) -> list[list[Hypothesis]]:
    """The hypotheses of every source, best first (samples: most probable first); empty for a row that loops.

    ``return_token_scores``: whether to fill `Hypothesis.token_scores`, which takes one more pass of the model. A seed
    makes samples reproducible, on a single worker.
    """
    _check(model, request, max_lengths)
    settings = request.settings
    rows = Rows(
        sources=list(map(model.source_names, request.sources)),
        max_lengths=max_lengths,
        min_lengths=[0] * len(max_lengths) if min_lengths is None else list(map(min, min_lengths, max_lengths)),
        prefixes=list(map(model.target_names, request.prefixes)) if any(request.prefixes) else None,
    )
    outputs = _run(model, rows, request)
    if settings.no_loops is not False:
        for row in looping_rows(outputs):
            outputs[row] = []
    beam = settings.kind == "beam"
    best = [
        sorted(nbest, key=lambda output: (beam and not output.ended, -output.score))[: request.n_best]
        for nbest in outputs
    ]
    if request.return_attention and _beam_size(request) > 1:
        best = model.with_attention(rows, best)
    penalized = settings.no_repeat_ngram or settings.repetition_penalty != 1.0
    constrained = bool(penalized or any(rows.min_lengths) or rows.prefixes)
    scores: Sequence[Sequence[list[float] | None]] = [[None] * len(nbest) for nbest in best]
    if return_token_scores or constrained or settings.coverage_penalty:
        scores = model.token_scores(rows, best)

    def hypothesis(output: SearchOutput, token_scores: list[float] | None) -> Hypothesis:
        length = max(len(output.names), 1) ** _length_penalty(settings)
        total = output.score * length if token_scores is None else sum(token_scores)
        return Hypothesis(
            tokens=model.target_ids(output.names[:-1] if output.ended else output.names),
            score=total / length if constrained and not beam else output.score,
            log_probability=total,
            token_scores=token_scores if token_scores is not None and return_token_scores else [],
            ended="end" if output.ended else "length",
            attention_TS=torch.tensor(output.weights) if request.return_attention else None,
        )

    return [[hypothesis(*pair) for pair in zip(*row, strict=True)] for row in zip(best, scores, strict=True)]


def _check(model: CTranslate2Model, request: TranslationRequest, max_lengths: Sequence[int]) -> None:
    """Refuse what CTranslate2 would do differently, or not at all."""
    settings, size = request.settings, _beam_size(request)
    if settings.kind not in KINDS:
        raise SearchError(f"search.kind: {settings.kind!r} is not known to CTranslate2; it has {', '.join(KINDS)}")
    if settings.kind == "greedy" and request.n_best > 1:
        raise SearchError(f"n_best: {request.n_best}; greedy search finds one output")
    if settings.kind == "beam":
        if any(request.prefixes):
            raise SearchError(
                "prefixes: a beam in CTranslate2 leaves a prefix out of its scores and ranks differently; "
                "use greedy search, or weft's own engine"
            )
        if settings.coverage_penalty:
            raise SearchError(
                "search.coverage_penalty: a beam of CTranslate2 mixes up the attention of a batch; "
                "use weft's own engine"
            )
        if 2 * size > model.info.target_vocabulary:
            raise SearchError(
                f"search.size: {size}; in CTranslate2 a beam holds at most half the vocabulary, "
                f"here {model.info.target_vocabulary // 2}"
            )
        if size == 1 and _finished(request) > 1:
            raise SearchError(
                f"search.finish: {_finished(request)}; a beam of 1 is greedy search in CTranslate2 and stops at 1"
            )
    longest = max(map(len, request.sources), default=0)
    if model.info.max_source_length is not None and longest > model.info.max_source_length:
        raise SearchError(
            f"a source of {longest} tokens: {model.folder} has {model.info.max_source_length} positions; "
            "shorten it, or use weft's own engine"
        )
    limit = max(max_lengths, default=0)
    if model.info.max_target_length is not None and limit > model.info.max_target_length:
        raise SearchError(
            f"a limit of {limit} tokens: {model.folder} has {model.info.max_target_length} positions; "
            "lower search.max_ratio or search.max_extra, or use weft's own engine"
        )


def _beam_size(request: TranslationRequest) -> int:
    return max(request.settings.size, request.n_best) if request.settings.kind == "beam" else 1


def _finished(request: TranslationRequest) -> int:
    """Number of finished hypotheses that end the search of a row."""
    if request.settings.kind != "beam":
        return request.n_best
    return max(request.settings.finish or _beam_size(request), request.n_best)


def _length_penalty(settings: SearchSettings) -> float:
    return 0.0 if settings.normalization == "none" else settings.length_penalty


def _options(request: TranslationRequest) -> dict[str, Any]:
    """The request in CTranslate2's own options."""
    settings, size = request.settings, _beam_size(request)
    options: dict[str, Any] = {
        "beam_size": size,
        "length_penalty": _length_penalty(settings) or NO_LENGTH_PENALTY,
        "coverage_penalty": settings.coverage_penalty,
        "no_repeat_ngram_size": settings.no_repeat_ngram,
        "repetition_penalty": settings.repetition_penalty,
        "return_attention": size == 1 and (request.return_attention or settings.coverage_penalty > 0),
        "return_scores": True,
        "return_end_token": True,
        "max_input_length": 0,
    }
    if settings.kind == "sample":
        options |= {
            "sampling_topk": settings.top_k,
            "sampling_topp": settings.top_p,
            "sampling_temperature": settings.temperature,
        }
    return options


def _run(model: CTranslate2Model, rows: Rows, request: TranslationRequest) -> list[list[SearchOutput]]:
    """The outputs of CTranslate2 for every row, each within its own maximum length."""
    indices, size, finished = range(len(rows.sources)), _beam_size(request), _finished(request)
    samples = request.settings.kind == "sample"
    seed = request.settings.seed if samples else None
    options = {
        **_options(request),
        "num_hypotheses": finished,
        "patience": finished / size if size > 1 else 1.0,
    }
    outputs = model.translate(rows, indices, options, seed=seed, same_limit=samples)
    repeated = [] if samples else [row for row in indices if _is_incomplete(outputs[row], rows, row, request)]
    if repeated:  # they reach their maximum length before ``finished`` have ended, so requesting more changes nothing
        if size > 1:
            options |= {"num_hypotheses": finished + size, "patience": (finished + size) / size}
        outputs |= model.translate(rows, repeated, options, same_limit=True)
    return [outputs[row] for row in indices]


def _is_incomplete(outputs: list[SearchOutput], rows: Rows, row: int, request: TranslationRequest) -> bool:
    """Whether a row must be searched again: an output is too long, or an unfinished one may hide one that ended."""
    if any(len(output.names) > rows.max_lengths[row] for output in outputs):
        return True
    return _beam_size(request) > 1 and sum(output.ended for output in outputs) < request.n_best


def looping_rows(outputs: list[list[SearchOutput]]) -> list[int]:
    """The rows in which an output has a loop, such as the constraint `NoLoops` forbids."""
    limits = LoopLimits()
    candidates = [(row, output.names) for row, nbest in enumerate(outputs) for output in nbest]
    candidates = [(row, names) for row, names in candidates if len(names) >= limits.tokens]
    if not candidates:
        return []
    ids: dict[str, int] = {}
    tokens_N = np.array([ids.setdefault(name, len(ids)) for _, names in candidates for name in names])
    loops_R = has_loop(tokens_N, np.array([len(names) for _, names in candidates]), limits)
    return sorted({candidates[index][0] for index in loops_R.nonzero()[0]})
