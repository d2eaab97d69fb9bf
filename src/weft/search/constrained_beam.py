"""Lexically constrained beam search: required phrases by dynamic beam allocation. Post & Vilar 2018; Hu et al. 2019

Each sentence has terms that every finished hypothesis contains. A term is one or more phrases, its variants, one of
which has to occur as consecutive tokens. Different terms may share tokens ("a b c" contains "a b" and "b c"); one that
is listed twice must occur twice without sharing any, as ``str.count`` counts.

The policy, in full. For each variant a hypothesis may have several matches: the last m tokens are the first m of the
variant, counted since the term last occurred. A term costs the tokens of its shortest variant. The *bank* of a
hypothesis is the number of required tokens met: the costs of the terms that occurred, and what the best match has saved
of the cost of its own.

At each step the candidates of a sentence are every token that begins a variant of a term that is missing, or continues
its longest match, and of each hypothesis the k + 1 best others. The end token is allowed only where nothing is
missing. From each bank, the endings among its first k candidates are set aside as finished (only the last bank has
any). The k slots of the beam are dealt like cards: one to each bank in turn, the last bank first, until k are dealt; a
bank with no candidates left is skipped. So the fullest bank gains a token a step, however unlikely, unless a constraint
or the model forbids it (−∞). A sentence with nothing required has one bank: that is plain beam search, so sentences
with and without terms share a batch.

A sentence with terms is done when as many hypotheses as requested are finished, and nothing in the beam ranks above
them at its present length: an early ending of an unlikely hypothesis does not stop the search for a better position.
Hypotheses that the length limit cuts off are those of the fullest bank; they alone may lack a term.

Here are the tensors; `weft.search.beam` has the search. Letters: C terms, A variants, T tokens of a variant, X
candidates of a hypothesis, N of a sentence, M banks.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from weft.search.beam import BeamState, BeamStep, Chosen
from weft.search.constraints import constrained_scores, forbid, top_k
from weft.search.interface import FORBIDDEN
from weft.search.loop import SearchState
from weft.search.required import RequiredTerms, TermProgress
from weft.tree import map_tree, select


class Candidates(NamedTuple):
    """Extensions of each hypothesis, (R, X), or of all of a sentence, best first, (B, N)."""

    tokens: Tensor
    scores: Tensor
    """log p of all tokens, changed by constraints; −∞ for those that do not exist."""
    totals: Tensor
    """log p of all tokens."""
    parents: Tensor
    """The slot that each continues."""
    banks: Tensor


def choose_by_bank(step: BeamStep, logits_RV: Tensor, state: SearchState) -> tuple[Chosen, TermProgress]:
    """The extensions that end and those that stay in the beam, and the progress of the latter."""
    beam: BeamState = state.extra
    terms = state.limits.required
    assert terms is not None
    sentences, size = beam.totals_BK.shape
    progress: TermProgress = map_tree(lambda leaf: leaf.flatten(0, 1), beam.progress)
    terms_R = terms.repeat(size)
    tokens_RX, scores_RX, totals_RX = _extensions(step, logits_RV, state, terms_R, progress)
    met_RX = terms_R.banks(progress, tokens_RX)
    scores_BN, order_BN = scores_RX.view(sentences, -1).sort(dim=1, descending=True, stable=True)
    parents_N = torch.arange(size, device=order_BN.device).repeat_interleave(tokens_RX.shape[1])
    banks_RX = met_RX.clamp(max=terms.most)
    tokens_BN, totals_BN, banks_BN = (
        values_RX.view(sentences, -1).gather(1, order_BN) for values_RX in (tokens_RX, totals_RX, banks_RX)
    )
    candidates = Candidates(tokens_BN, scores_BN, totals_BN, parents_N[order_BN], banks_BN)
    chosen, indices_BK = deal(candidates, size, banks=terms.most + 1, end=step.end)
    met_BK = met_RX.view(sentences, -1).gather(1, order_BN.gather(1, indices_BK))
    first_B1 = torch.arange(0, sentences * size, size, device=order_BN.device)[:, None]
    progress = select(progress, (first_B1 + chosen.parents_BK).flatten())
    progress = terms_R.take(progress, chosen.tokens_BK.flatten())._replace(met_R=met_BK.flatten())
    return chosen, map_tree(lambda leaf: leaf.unflatten(0, (sentences, size)), progress)


def deal(candidates: Candidates, size: int, *, banks: int, end: int) -> tuple[Chosen, Tensor]:
    """The candidates (B, N) that end, and those that stay in the beam, with the indices (B, K) of the latter."""
    tokens_BN, scores_BN, totals_BN, parents_BN, banks_BN = candidates
    exists_BN, none = ~scores_BN.isneginf(), tokens_BN.shape[1] * banks
    ends_BN = exists_BN & (tokens_BN == end) & (_ranks(banks_BN, exists_BN, banks) < size)
    stay_BN = exists_BN & (tokens_BN != end)
    ranks_BN = _ranks(banks_BN, stay_BN, banks)
    # Like cards: in each turn one to every bank, the fullest first
    turn_BN = ranks_BN * banks + banks - 1 - banks_BN
    turn_BN = turn_BN.masked_fill(~stay_BN | (ranks_BN >= size), none)
    turn_BK, stay_BK = _padded(turn_BN, size, none).topk(size, dim=1, largest=False, sorted=True)
    stay_BK = stay_BK.clamp(max=tokens_BN.shape[1] - 1)
    end_BK = _padded(scores_BN.masked_fill(~ends_BN, FORBIDDEN), size, FORBIDDEN).topk(size, dim=1).indices
    end_BK = end_BK.clamp(max=tokens_BN.shape[1] - 1)
    chosen = Chosen(
        parents_BN.gather(1, stay_BK),
        tokens_BN.gather(1, stay_BK),
        totals_BN.gather(1, stay_BK),
        scores_BN.gather(1, stay_BK).masked_fill(turn_BK == none, FORBIDDEN),
        ends_BN.gather(1, end_BK) & (torch.arange(size, device=end_BK.device) < ends_BN.sum(1, keepdim=True)),
        parents_BN.gather(1, end_BK),
        totals_BN.gather(1, end_BK),
        scores_BN.gather(1, end_BK),
        _padded(scores_BN[:, size : size + 1], 1, FORBIDDEN),  # for sentences with one bank
    )
    return chosen, stay_BK


def _extensions(
    step: BeamStep, logits_RV: Tensor, state: SearchState, terms_R: RequiredTerms, progress: TermProgress
) -> tuple[Tensor, Tensor, Tensor]:
    """The tokens, scores and log p (R, X) of what begins or continues a missing term of each hypothesis, and of the
    best other extensions. The logits are overwritten."""
    beam: BeamState = state.extra
    log_probs_RV, scores_RV, sums_R1 = constrained_scores(logits_RV, state, step.constraints, step.end)
    next_RX = torch.cat(terms_R.next_tokens(progress), 1)
    required_RX, exists_RX = next_RX.clamp(min=0), next_RX >= 0
    again_RX = ((next_RX[:, :, None] == next_RX[:, None]) & exists_RX[:, None]).tril(-1).any(2)
    required_scores_RX = scores_RV.gather(1, required_RX).masked_fill(again_RX | ~exists_RX, FORBIDDEN)
    required_log_probs_RX = log_probs_RV.gather(1, required_RX)
    scores_RV = forbid(scores_RV, required_RX, exists_RX, in_place=True)
    scores_RV[:, step.end].masked_fill_(progress.is_missing_R, FORBIDDEN)
    # Those of a hypothesis have the same bank, or nearly all: at most as many stay as a bank may have, and one ends
    best_scores_RX, best_RX = top_k(scores_RV, step.options.size + 1)
    scores_RX = torch.cat((required_scores_RX, best_scores_RX), 1) - sums_R1
    log_probs_RX = torch.cat((required_log_probs_RX, log_probs_RV.gather(1, best_RX)), 1) - sums_R1
    totals_RX = log_probs_RX + beam.totals_BK.view(-1, 1)
    return torch.cat((required_RX, best_RX), 1), scores_RX + beam.scores_BK.view(-1, 1), totals_RX


def _ranks(banks_BN: Tensor, counted_BN: Tensor, banks: int) -> Tensor:
    """The number of earlier candidates of the same bank among those that are counted."""
    banks_1M1 = torch.arange(banks, device=banks_BN.device)[None, :, None]
    earlier_BMN = ((banks_BN[:, None] == banks_1M1) & counted_BN[:, None]).cumsum(2, dtype=torch.int32)
    return earlier_BMN.gather(1, banks_BN[:, None])[:, 0] - counted_BN.to(torch.int32)


def _padded(values_BN: Tensor, size: int, fill: float) -> Tensor:
    missing = size - values_BN.shape[1]
    return values_BN if missing <= 0 else pad(values_BN, (0, missing), value=fill)
