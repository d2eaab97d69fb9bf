"""From the steps of greedy search and sampling to hypotheses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from torch import Tensor

from weft.runtime.replaceable import replaceable
from weft.search.interface import Hypothesis, SearchRequest
from weft.search.loop import StepRecords, stack_attention, steps_of, to_device
from weft.search.ranking import (
    BY_CONSTRAINTS,
    BY_END,
    BY_LENGTH,
    HypothesisArrays,
    Ranking,
    coverage_score,
    gap,
    gaps,
    greedy_bound,
    greedy_bounds,
    penalties,
)
from weft.search.trace import Draw, PathTrace
from weft.tree import map_tree


class PathRecord(NamedTuple):
    """One step of all hypotheses."""

    tokens_BK: Tensor
    log_probs_BK: Tensor
    active_BK: Tensor
    """Whether the hypothesis had not ended before, and a token could follow."""
    scores_BK: Tensor | None
    """log p as constraints have changed it; None where they only forbid."""
    attention_BKS: Tensor | None
    candidates: PathCandidates | None


class PathCandidates(NamedTuple):
    """The most likely tokens of every hypothesis, best first, for a trace; the chosen one is among them."""

    tokens_BKC: Tensor
    probabilities_BKC: Tensor
    """Probabilities after the temperature and before any filter."""
    log_probs_BKC: Tensor
    """log p of the model itself."""
    kept_BKC: Tensor
    mass_BK: Tensor
    count_BK: Tensor


@replaceable
def path_hypotheses(
    steps: Sequence[StepRecords], request: SearchRequest, ranking: Ranking, *, with_gap: bool
) -> Sequence[list[Hypothesis]]:
    """All hypotheses of every sentence, in the order of their slots; ``with_gap``: with gaps, for greedy search."""
    steps = [map_tree(Tensor.cpu, some) for some in steps]
    values = [part.numpy() for part in join_steps(steps, len(request.max_lengths))]
    arrays = path_arrays(values, request, ranking, with_gap=with_gap)
    has_attention = steps[0].records.attention_BKS is not None
    if not has_attention and not request.return_trace:
        return arrays
    outputs: list[list[Hypothesis]] = []
    for row in range(len(arrays)):
        positions = steps_of(steps, row)
        hypotheses = []
        for number, hypothesis in enumerate(arrays[row]):
            length = len(hypothesis.token_scores)
            if has_attention and length:
                weights = [record.attention_BKS[position][number].float() for record, position in positions[:length]]
                attention_TS = stack_attention(weights)
                hypothesis = _with_coverage(hypothesis, attention_TS, ranking, request, row)
                hypothesis = replace(hypothesis, attention_TS=attention_TS if request.return_attention else None)
            trace = _trace(positions[:length], number) if request.return_trace else None
            hypotheses.append(replace(hypothesis, trace=trace))
        outputs.append(hypotheses)
    return outputs


def join_steps(steps: Sequence[StepRecords], sentences: int) -> list[Tensor]:
    """The tokens, their log p, whether they were active and maybe their scores, (T, B, K) each, of all steps of all
    sentences."""
    parts = [part for part in steps[0].records[:4] if part is not None]
    if len(steps) == 1 and len(steps[0].sentences) == sentences:
        return list(parts)
    total = sum(len(some.records[0]) for some in steps)
    joined = [part.new_zeros(total, sentences, *part.shape[2:]) for part in parts]
    time = 0
    for sentences_B, records in steps:
        rows, stop = to_device(sentences_B, parts[0].device), time + len(records[0])
        for whole, part in zip(joined, records, strict=False):
            whole[time:stop].index_copy_(1, rows, part)
        time = stop
    return joined


def path_arrays(
    steps: Sequence[np.ndarray], request: SearchRequest, ranking: Ranking, *, with_gap: bool
) -> HypothesisArrays:
    """All hypotheses, without attention, of the arrays (T, B, K) of `join_steps`."""
    tokens, log_probs, active, *scores = steps
    lengths_BK = active.sum(0)
    log_probs = np.where(active, log_probs.astype(np.float64), 0.0)
    last_BK = np.take_along_axis(tokens, np.maximum(lengths_BK - 1, 0)[None], 0)[0]
    by_end_BK = (lengths_BK > 0) & (last_BK == request.end)
    max_lengths = request.max_lengths  # the results must not keep the request, and with it the encoder output
    at_limit_BK = lengths_BK == np.array(max_lengths)[:, None]
    totals_BK = log_probs.sum(0)
    compared_BK = np.where(active, scores[0].astype(np.float64), 0.0).sum(0) if scores else totals_BK
    scores_BK = compared_BK / penalties(ranking, lengths_BK.ravel()).reshape(lengths_BK.shape)

    def find_gaps() -> np.ndarray:
        gaps_BK = np.full(lengths_BK.shape, np.nan)
        if with_gap:
            bounds_B = greedy_bounds(log_probs[:, :, 0], lengths_BK[:, 0], ranking, max_lengths)
            gaps_BK[by_end_BK] = gaps(bounds_B[:, None][by_end_BK], scores_BK[by_end_BK])
        return gaps_BK

    return HypothesisArrays(
        counts_B=np.full(len(lengths_BK), request.n_best),
        tokens_BNT=tokens.transpose(1, 2, 0),
        lengths_BN=lengths_BK,
        ended_BN=np.where(by_end_BK, BY_END, np.where(at_limit_BK, BY_LENGTH, BY_CONSTRAINTS)),
        scores_BN=scores_BK,
        log_probabilities_BN=totals_BK,
        token_scores_BNT=log_probs.transpose(1, 2, 0),
        gaps=find_gaps,
    )


def _with_coverage(
    hypothesis: Hypothesis, attention_TS: Tensor, ranking: Ranking, request: SearchRequest, row: int
) -> Hypothesis:
    """The hypothesis with a score that counts the coverage, where the ranking does."""
    if not ranking.beta:
        return hypothesis
    score = hypothesis.score + ranking.beta * float(coverage_score(attention_TS.sum(0)[: request.source_length(row)]))
    own_gap = hypothesis.gap
    if own_gap is not None:
        own_gap = gap(greedy_bound(hypothesis.token_scores, ranking, request.max_lengths[row]), score)
    return replace(hypothesis, score=score, gap=own_gap)


def _trace(positions: Sequence[tuple[PathRecord, tuple[int, int]]], number: int) -> PathTrace:
    return PathTrace([draw_of(record, (*position, number)) for record, position in positions])


def draw_of(record: PathRecord, position: tuple[int, ...]) -> Draw:
    """The draw of one hypothesis in a step. ``position``: its index in the record's tensors."""
    candidates = record.candidates
    assert candidates is not None
    tokens = candidates.tokens_BKC[position].tolist()
    return Draw(
        tokens=tokens,
        probabilities=candidates.probabilities_BKC[position].tolist(),
        kept=candidates.kept_BKC[position].tolist(),
        chosen=tokens.index(int(record.tokens_BK[position])),
        mass=float(candidates.mass_BK[position]),
        kept_count=int(candidates.count_BK[position]),
    )
