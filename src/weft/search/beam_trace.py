"""The trace of a beam: the extensions that each step considered, and the tree that they make of a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from weft.search.constraints import top_k
from weft.search.interface import FORBIDDEN
from weft.search.trace import BeamTrace, Branch
from weft.tree import map_tree

if TYPE_CHECKING:
    from weft.search.beam import BeamRecord

Positions = Sequence[tuple["BeamRecord", tuple[int, int]]]
"""The steps of one sentence; see `weft.search.loop.steps_of`."""


class Candidates(NamedTuple):
    """The extensions that a step considered, best first."""

    tokens_BC: Tensor
    parents_BC: Tensor
    log_probs_BC: Tensor
    totals_BC: Tensor
    """log p of the whole hypothesis."""
    scores_BC: Tensor
    """The scores by which they are compared."""


def best_candidates(scores_RV: Tensor, log_probs_RV: Tensor, scores_BK: Tensor, totals_BK: Tensor) -> Candidates:
    """The best extensions of every hypothesis: twice as many as the beam holds."""
    sentences, size = totals_BK.shape
    scores_RC, tokens_RC = top_k(scores_RV, 2 * size)
    log_probs_RC = log_probs_RV.gather(1, tokens_RC)
    scores_BC = (scores_BK.flatten()[:, None] + scores_RC).view(sentences, -1)
    totals_BC = (totals_BK.flatten()[:, None] + log_probs_RC).view(sentences, -1)
    slots_K = torch.arange(size, device=scores_RV.device)
    parents_BC = slots_K.repeat_interleave(tokens_RC.shape[1]).expand(sentences, -1)
    order_BC = scores_BC.argsort(dim=1, descending=True, stable=True)
    return Candidates(
        tokens_RC.view(sentences, -1).gather(1, order_BC),
        parents_BC.gather(1, order_BC),
        log_probs_RC.view(sentences, -1).gather(1, order_BC),
        totals_BC.gather(1, order_BC),
        scores_BC.gather(1, order_BC),
    )


def trace_beam(positions: Positions, tokens: list[int], parents: list[int], end: int) -> BeamTrace:
    """The tree of one sentence, and the path of its best hypothesis through it."""
    steps: list[list[Branch]] = []
    winner: list[int] = []
    totals: list[float] = []
    for time, (record, position) in enumerate(positions):
        step = map_tree(lambda leaf, position=position: leaf[position], record)  # type: ignore[misc]
        branches = branches_of(step, end, totals)
        totals = step.totals_BK.tolist()
        steps.append(branches)
        if time < len(tokens):
            key = (tokens[time], parents[time])
            indices = (index for index, branch in enumerate(branches) if (branch.token, branch.parent) == key)
            winner.append(next(indices))
    return BeamTrace(steps, winner)


def branches_of(step: BeamRecord, end: int, before: list[float]) -> list[Branch]:
    """The extensions of one step of one sentence: the k² best, and any other that was kept.

    ``before``: log p of the parents; empty at the first step.
    """
    tokens, parents = step.tokens_BK.tolist(), step.parents_BK.tolist()
    totals, scores = step.totals_BK.tolist(), step.ranking_BK.tolist()
    kept = {(token, parent): slot for slot, (token, parent) in enumerate(zip(tokens, parents, strict=True))}
    kept = {key: slot for key, slot in kept.items() if scores[slot] > FORBIDDEN}
    ended = {parent for parent, ends in zip(step.end_parents_BK.tolist(), step.ends_BK.tolist(), strict=True) if ends}
    assert step.candidates is not None
    branches: list[Branch] = []
    remaining = len(tokens) ** 2 - len(kept)
    for token, parent, log_probability, total, score in zip(
        *(values.tolist() for values in step.candidates), strict=True
    ):
        slot = kept.pop((token, parent), -1)
        outcome = "kept" if slot >= 0 else "finished" if token == end and parent in ended else "pruned"
        remaining -= outcome == "pruned"
        if score > FORBIDDEN and (outcome != "pruned" or remaining >= 0):
            branches.append(Branch(token, parent, log_probability, total, score, outcome, slot))
    for (token, parent), slot in kept.items():  # a group of a diverse beam may choose further down
        log_probability = totals[slot] - (before[parent] if before else 0.0)
        branches.append(Branch(token, parent, log_probability, totals[slot], scores[slot], "kept", slot))
    return sorted(branches, key=lambda branch: -branch.score)
