"""Beam search: k hypotheses side by side.

The policy, in full. At each step every hypothesis is extended by every token; the 2k best extensions are looked at.
Those among the first k that end are *set aside* as finished; the k best that do not end go on. A sentence is done
when ``finish`` hypotheses (never fewer than asked for) have been set aside, or at its length limit. Finished
hypotheses are ranked by log p(y|x) / |y|^α (the end mark counts in both); those cut off by the limit come after all
finished ones.

So a beam of one is not greedy search: it sets an ending aside and goes on only where ``finish`` > 1, and then can
find a better one. A done sentence leaves the batch. All bookkeeping is kept as tensors of back-pointers, from which
the winners are traced back once at the end.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from weft.errors import SearchError
from weft.search.follow import stack_weights
from weft.search.hypothesis import Hypothesis, Steps, normalised
from weft.tree import map_tree, repeat, select


class BeamStep(NamedTuple):
    """One step of the search over the sentences still running, as back-pointers."""

    sentences: Tensor
    """(B,) which sentences these are."""
    parents_BK: Tensor
    """For each hypothesis that goes on, the slot it came from."""
    tokens_BK: Tensor
    scores_BK: Tensor
    """log p so far; −∞ for an empty slot."""
    ends_BK: Tensor
    """Whether the k-th best extension ended (and was set aside)."""
    end_parents_BK: Tensor
    end_scores_BK: Tensor
    done_B: Tensor
    """Whether the sentence stopped after this step."""
    weights_BKS: Tensor | None
    """Where each slot looked before it was extended."""


@torch.no_grad()
def beam(
    model: Steps,
    memory: Any,
    limits: Sequence[int],
    *,
    begin: int,
    end: int,
    size: int = 5,
    length_penalty: float = 1.0,
    finish: int | None = None,
    n_best: int = 1,
    weights: bool = False,
    device: torch.device | str = "cpu",
) -> list[list[Hypothesis]]:
    """The ``n_best`` hypotheses of every row, best first, each of at most ``limits[row]`` tokens."""
    if size < 1:
        raise SearchError(f"search.size: {size}; a beam holds at least 1 hypothesis")
    finish = max(finish or size, n_best)
    steps: list[BeamStep] = []
    sentences = torch.arange(len(limits), device=device)
    limit_B = torch.tensor(list(limits), device=device)
    found_B = torch.zeros_like(limit_B)
    state = repeat(model.start(memory), size)
    tokens_R = torch.full((len(limits) * size,), begin, device=device)
    scores_BK = torch.full((len(limits), size), float("-inf"), device=device)
    scores_BK[:, 0] = 0.0
    while len(sentences):
        logits_RV, state, weights_RS = model.step(tokens_R, state, memory)
        step = _extend(logits_RV, scores_BK, sentences, end)
        found_B = found_B + step.ends_BK.sum(1)
        done_B = (found_B >= finish) | (limit_B <= len(steps) + 1) | step.scores_BK[:, 0].isneginf()
        looked = None if weights_RS is None or not weights else weights_RS.view(*scores_BK.shape, -1)
        steps.append(step._replace(done_B=done_B, weights_BKS=looked))

        going = (~done_B).nonzero()[:, 0]
        rows_BK = step.parents_BK + torch.arange(len(sentences), device=device)[:, None] * size
        state = select(state, rows_BK[going].flatten())
        tokens_R, scores_BK = step.tokens_BK[going].flatten(), step.scores_BK[going]
        if len(going) < len(sentences):
            memory = select(memory, going)
            sentences, limit_B, found_B = sentences[going], limit_B[going], found_B[going]
    return _trace_back(steps, len(limits), length_penalty=length_penalty, n_best=n_best)


def _extend(logits_RV: Tensor, scores_BK: Tensor, sentences: Tensor, end: int) -> BeamStep:
    """Every hypothesis by every token: the 2k best, parted into those that end and those that go on."""
    rows, size = scores_BK.shape
    log_BKV = logits_RV.float().log_softmax(-1).view(rows, size, -1)
    vocabulary = log_BKV.shape[-1]
    total_BC = (scores_BK[:, :, None] + log_BKV).flatten(1)
    best_BC, index_BC = total_BC.topk(min(2 * size, total_BC.shape[1]))
    parents_BC, tokens_BC = index_BC // vocabulary, index_BC % vocabulary
    ended_BC = tokens_BC == end
    onward_BK = ended_BC.to(torch.uint8).argsort(dim=1, stable=True)[:, :size]
    onward_scores_BK = best_BC.gather(1, onward_BK).masked_fill(ended_BC.gather(1, onward_BK), float("-inf"))
    return BeamStep(
        sentences=sentences,
        parents_BK=parents_BC.gather(1, onward_BK),
        tokens_BK=tokens_BC.gather(1, onward_BK),
        scores_BK=onward_scores_BK,
        ends_BK=ended_BC[:, :size] & best_BC[:, :size].isfinite(),
        end_parents_BK=parents_BC[:, :size],
        end_scores_BK=best_BC[:, :size],
        done_B=ended_BC[:, 0],
        weights_BKS=None,
    )


class _Ending(NamedTuple):
    """A hypothesis before it is written out: the step it ended at and the slot it came from."""

    score: float
    log_probability: float
    step: int
    parent: int
    last: int | None
    """The last token, where the limit cut the hypothesis off; None where it ended by itself."""


def _trace_back(steps: list[BeamStep], sentences: int, *, length_penalty: float, n_best: int) -> list[list[Hypothesis]]:
    finished: list[list[_Ending]] = [[] for _ in range(sentences)]
    cut_off: list[list[_Ending]] = [[] for _ in range(sentences)]
    cpu_steps: list[BeamStep] = [map_tree(Tensor.cpu, step) for step in steps]
    places = [{sentence: row for row, sentence in enumerate(step.sentences.tolist())} for step in cpu_steps]
    for time, step in enumerate(cpu_steps):
        length = time + 1
        names = step.sentences.tolist()
        for row, slot in step.ends_BK.nonzero().tolist():
            total = float(step.end_scores_BK[row, slot])
            score = normalised(total, length, length_penalty)
            finished[names[row]].append(_Ending(score, total, time, int(step.end_parents_BK[row, slot]), None))
        for row in step.done_B.nonzero()[:, 0].tolist():
            columns = (step.scores_BK[row].tolist(), step.parents_BK[row].tolist(), step.tokens_BK[row].tolist())
            for total, parent, token in zip(*columns, strict=True):
                if total > float("-inf"):
                    score = normalised(total, length, length_penalty)
                    cut_off[names[row]].append(_Ending(score, total, time, parent, token))
    answers: list[list[Hypothesis]] = []
    for sentence in range(sentences):
        ranked = sorted(finished[sentence], key=lambda ending: -ending.score)
        ranked += sorted(cut_off[sentence], key=lambda ending: -ending.score)
        answers.append([_write_out(ending, sentence, cpu_steps, places) for ending in ranked[:n_best]])
    return answers


def _write_out(ending: _Ending, sentence: int, steps: list[BeamStep], places: list[dict[int, int]]) -> Hypothesis:
    """Follow the back-pointers from an ending to the beginning."""
    tokens = [] if ending.last is None else [ending.last]
    totals = [ending.log_probability]
    looks: list[Tensor] = []
    slot = ending.parent
    for time in range(ending.step, -1, -1):
        weights_BKS = steps[time].weights_BKS
        if weights_BKS is not None:
            looks.append(weights_BKS[places[time][sentence], slot])
        if time == 0:
            break
        row = places[time - 1][sentence]
        tokens.append(int(steps[time - 1].tokens_BK[row, slot]))
        totals.append(float(steps[time - 1].scores_BK[row, slot]))
        slot = int(steps[time - 1].parents_BK[row, slot])
    totals = [0.0, *reversed(totals)]
    return Hypothesis(
        tokens=tokens[::-1],
        score=ending.score,
        log_probability=ending.log_probability,
        token_scores=[after - before for before, after in itertools.pairwise(totals)],
        ended="end" if ending.last is None else "length",
        weights_TS=stack_weights(looks[::-1]) if looks else None,
    )
