"""Diverse beam search: a beam that is divided into groups   Vijayakumar et al. 2018.

At each step a group sees the tokens that the groups before it have just chosen ``diversity`` lower for each time they
were chosen:

    score_g(v) = log p(v) − diversity · |{groups before g that chose v}|

That steers the choice, and is undone afterwards: hypotheses are ranked by log p, as in any beam.
"""

from __future__ import annotations

import torch
from torch import Tensor

from weft.search.beam import BeamOptions, BeamState, Chosen, extend


def choose_by_group(scores_RV: Tensor, log_probs_RV: Tensor, beam: BeamState, options: BeamOptions, end: int) -> Chosen:
    """The extensions of one group after the other, each avoiding the tokens of those before it."""
    sentences, size = beam.totals_BK.shape
    group_size, diversity = size // options.groups, options.diversity
    counts_BV = log_probs_RV.new_zeros(sentences, log_probs_RV.shape[-1])
    groups: list[Chosen] = []
    scores_BKV, log_probs_BKV = scores_RV.view(sentences, size, -1), log_probs_RV.view(sentences, size, -1)
    for first in range(0, size, group_size):
        slots = slice(first, first + group_size)
        lowered_RV = (scores_BKV[:, slots] - diversity * counts_BV[:, None]).flatten(0, 1)
        group_log_probs_RV = log_probs_BKV[:, slots].flatten(0, 1)
        group = extend(lowered_RV, group_log_probs_RV, beam.scores_BK[:, slots], beam.totals_BK[:, slots], end)
        undone_BK = counts_BV.gather(1, group.tokens_BK) * diversity
        group = group._replace(
            scores_BK=group.scores_BK + undone_BK,
            end_scores_BK=group.end_scores_BK + (counts_BV[:, end] * diversity)[:, None],
            parents_BK=group.parents_BK + first,
            end_parents_BK=group.end_parents_BK + first,
        )
        used_BK = (~group.scores_BK.isneginf()).to(counts_BV.dtype)
        counts_BV = counts_BV.scatter_add(1, group.tokens_BK, used_BK)
        groups.append(group)
    return Chosen(*(torch.cat(columns, 1) for columns in zip(*groups, strict=True)))
