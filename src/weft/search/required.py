"""Required terms as tensors: what every output of a sentence contains, and how far each hypothesis is with it.

For each variant v of a missing term, m_t says whether the last t tokens are its first t (Shift-And: Baeza-Yates and
Gonnet 1992). With the next token y

    m'_0 = 1,  m'_{t+1} = m_t ∧ (v_{t+1} = y)

and the term occurs where m'_{|v|} = 1; then the matches of its variants begin again.

The searches with them are `weft.search.constrained_beam`, which has the definitions, and
`weft.search.constrained_greedy`. Letters: B sentences, R hypotheses, C terms, A variants, T tokens of a variant, X
candidates of a hypothesis.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from weft.errors import SearchError
from weft.search.interface import SearchRequest

NOTHING = -2
"""Fills variants after their last token."""


class RequiredTerms(NamedTuple):
    """The terms of each sentence. Shapes are rounded up, so that few differ."""

    phrases_BCAT: Tensor
    """The tokens of each variant, then `NOTHING`."""
    lasts_BCAT: Tensor
    """Whether this is the last token of the variant."""
    lengths_BCA: Tensor
    """The number of tokens of each variant; 0: there is no such variant."""
    costs_BC: Tensor
    """The tokens of the shortest variant; 0: there is no such term."""
    times_BC: Tensor
    """How often the term has to occur."""
    banks_BM: Tensor
    """Zeros, one for each of the most tokens that are required of a sentence, rounded up: M."""

    @classmethod
    def of(cls, request: SearchRequest) -> RequiredTerms:
        """The terms of a request that has some, on the CPU."""
        _check(request)
        terms = [Counter(tuple(map(tuple, variants)) for variants in row) for row in request.required]
        variants = [variant for row in terms for term in row for variant in term]
        count = _rounded(max(map(len, terms)))
        most = _rounded(max(len(term) for row in terms for term in row))
        longest = _rounded(max(map(len, variants)))
        phrases = np.full((len(terms), count, most, longest), NOTHING)
        occurrences = np.zeros((len(terms), count), dtype=np.int64)
        for number, row in enumerate(terms):
            for index, (term, times) in enumerate(row.items()):
                occurrences[number, index] = times
                for which, variant in enumerate(term):
                    phrases[number, index, which, : len(variant)] = variant
        phrases_BCAT, times_BC = torch.from_numpy(phrases), torch.from_numpy(occurrences)
        lengths_BCA = (phrases_BCAT != NOTHING).sum(3)
        lasts_BCAT = torch.arange(1, longest + 1) == lengths_BCA[..., None]
        costs_BC = lengths_BCA.masked_fill(lengths_BCA == 0, longest + 1).amin(2)
        costs_BC = costs_BC.masked_fill(times_BC == 0, 0)
        banks = _rounded(int((costs_BC * times_BC).sum(1).max()))
        return cls(phrases_BCAT, lasts_BCAT, lengths_BCA, costs_BC, times_BC, torch.zeros(len(terms), banks))

    @property
    def most(self) -> int:
        """The most tokens that are required of a sentence, rounded up."""
        return self.banks_BM.shape[1]

    @property
    def totals_B(self) -> Tensor:
        """The number of tokens that are required."""
        return (self.costs_BC * self.times_BC).sum(1)

    def repeat(self, size: int) -> RequiredTerms:
        """The terms of each of ``size`` hypotheses of a sentence."""
        return RequiredTerms(*(values.repeat_interleave(size, 0) for values in self))

    def start(self, size: int) -> TermProgress:
        """The progress (B, K, …) of ``size`` hypotheses of each sentence, without tokens."""
        occurred_BKC = torch.zeros_like(self.costs_BC)[:, None].repeat(1, size, 1)
        matches_BCAT = torch.zeros_like(self.lasts_BCAT)
        matches_BCAT[..., 0] = self.lengths_BCA > 0
        return TermProgress(occurred_BKC, matches_BCAT[:, None].repeat(1, size, 1, 1, 1), occurred_BKC[:, :, 0].clone())

    # The terms of rows (`repeat`), with the progress of each

    def next_tokens(self, progress: TermProgress) -> tuple[Tensor, Tensor]:
        """(R, X) the tokens that begin each variant, and that continue its longest match; `NOTHING` where none."""
        matches_RCAT = progress.matches_RCAT
        first_RCA = self.phrases_BCAT[..., 0].masked_fill(~matches_RCAT[..., 0], NOTHING)
        longest_RCA = (matches_RCAT * self._counts).amax(3)
        next_RCA = self.phrases_BCAT.gather(3, longest_RCA[..., None])[..., 0]
        return first_RCA.flatten(1), next_RCA.masked_fill(longest_RCA == 0, NOTHING).flatten(1)

    def take(self, progress: TermProgress, tokens_R: Tensor) -> TermProgress:
        """The progress of each hypothesis after one more token, its bank aside."""
        same_RCAT = progress.matches_RCAT & (self.phrases_BCAT == tokens_R[:, None, None, None])
        occurs_RC = (same_RCAT & self.lasts_BCAT).flatten(2).any(2)
        occurred_RC = progress.occurred_RC + occurs_RC
        is_missing_RC1 = (occurred_RC < self.times_BC)[:, :, None]
        begins_RCA = (self.lengths_BCA > 0) & is_missing_RC1
        longer_RCAT = same_RCAT[..., :-1] & ~occurs_RC[:, :, None, None]
        matches_RCAT = torch.cat((begins_RCA[..., None], longer_RCAT), 3)
        return TermProgress(occurred_RC, matches_RCAT, progress.met_R)

    def banks(self, progress: TermProgress, tokens_RX: Tensor) -> Tensor:
        """(R, X) the bank of each hypothesis after each of its candidates: the required tokens met."""
        costs_RC = self.costs_BC
        # By every match, the tokens that it leaves of its variant; the matches are the first dimension of what follows,
        # and numbers are small: it is the largest computation of a step of a beam
        left_RCAT = self.lengths_BCA[..., None] - self._counts - 1
        left_RCAT = torch.where(progress.matches_RCAT, left_RCAT, costs_RC[..., None, None])
        phrases_PRC = self.phrases_BCAT.flatten(2).permute(2, 0, 1).to(torch.int32)
        left_PRC = left_RCAT.flatten(2).permute(2, 0, 1).to(torch.int16)
        costs_RC1 = costs_RC[..., None].to(torch.int16)
        same_PRCX = phrases_PRC[..., None] == tokens_RX[:, None].to(torch.int32)
        remaining_RCX = torch.where(same_PRCX, left_PRC[..., None], costs_RC1).amin(0)
        remaining_RCX = torch.minimum(remaining_RCX, costs_RC1)
        is_missing_RC = progress.occurred_RC < self.times_BC
        occurs_RCX = (remaining_RCX == 0) & ((costs_RC > 0) & is_missing_RC)[..., None]
        occurred_RCX = progress.occurred_RC[..., None] + occurs_RCX
        saved_RCX = (costs_RC1 - remaining_RCX).masked_fill(occurs_RCX, 0)
        return (occurred_RCX * costs_RC[..., None]).sum(1) + saved_RCX.amax(1)

    @property
    def _counts(self) -> Tensor:
        """(T,) the number of tokens of each match."""
        return torch.arange(self.phrases_BCAT.shape[3], device=self.phrases_BCAT.device)


class TermProgress(NamedTuple):
    """How far each hypothesis is; between two steps (B, K, …) instead of (R, …)."""

    occurred_RC: Tensor
    """How often each term occurred, up to what is required."""
    matches_RCAT: Tensor
    """Whether the last t tokens are the first t of a variant that is missing, t = 0, 1, …; tokens before the last
    occurrence of the term do not count."""
    met_R: Tensor
    """The number of required tokens met: its bank, in a beam."""

    @property
    def is_missing_R(self) -> Tensor:
        """Whether a term has to occur once more."""
        return self.matches_RCAT[:, :, 0, 0].any(1)


def _rounded(count: int) -> int:
    """The next power of two."""
    return 1 << max(count - 1, 0).bit_length()


def _check(request: SearchRequest) -> None:
    if len(request.required) != len(request.max_lengths):
        raise SearchError(
            f"required phrases for {len(request.required)} sentences, expected {len(request.max_lengths)}: "
            "a list for each"
        )
    for number, terms in enumerate(request.required, 1):
        for variants in terms:
            if not variants or not all(map(len, variants)):
                raise SearchError(f"sentence {number}: a required phrase is empty; expected at least 1 token")
            for phrase in variants:
                if min(phrase) < 0 or request.end in phrase:
                    wrong = "the end token" if request.end in phrase else f"the id {min(phrase)}"
                    raise SearchError(
                        f"sentence {number}: a required phrase contains {wrong}, which cannot be generated"
                    )
