"""Required terms as tensors: what every output of a sentence contains, and how far each hypothesis is with it.

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
from torch.nn.functional import pad

from weft.errors import SearchError
from weft.search.interface import NO_TOKEN, SearchRequest

NOTHING = -2
"""Fills variants after their last token; unlike `NO_TOKEN`, it is in no history."""


class RequiredTerms(NamedTuple):
    """The terms of each sentence. Shapes are rounded up, so that few differ."""

    phrases_BCAT: Tensor
    """The tokens of each variant, then `NOTHING`."""
    lengths_BCA: Tensor
    """The number of these tokens; 0: there is no such variant."""
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
        costs_BC = lengths_BCA.masked_fill(lengths_BCA == 0, longest + 1).amin(2)
        costs_BC = costs_BC.masked_fill(times_BC == 0, 0)
        banks = _rounded(int((costs_BC * times_BC).sum(1).max()))
        return cls(phrases_BCAT, lengths_BCA, costs_BC, times_BC, torch.zeros(len(terms), banks))

    @property
    def most(self) -> int:
        """The most tokens that are required of a sentence, rounded up."""
        return self.banks_BM.shape[1]

    @property
    def window(self) -> int:
        """The number of latest tokens that a match may have before its last."""
        return self.phrases_BCAT.shape[3] - 1

    @property
    def totals_B(self) -> Tensor:
        """The number of tokens that are required."""
        return (self.costs_BC * self.times_BC).sum(1)

    def repeat(self, size: int) -> RequiredTerms:
        """The terms of each of ``size`` hypotheses of a sentence."""
        return RequiredTerms(*(values.repeat_interleave(size, 0) for values in self))

    def start(self, size: int) -> TermProgress:
        """The progress (B, K, …) of ``size`` hypotheses of each sentence, without tokens."""
        nothing_BKC = torch.zeros_like(self.costs_BC)[:, None].repeat(1, size, 1)
        return TermProgress(nothing_BKC, nothing_BKC.clone(), nothing_BKC[:, :, 0].clone())

    def matches(self, history_RW: Tensor, progress: TermProgress) -> TermMatches:
        """The matches of the last tokens of each hypothesis; the terms are those of rows (`repeat`)."""
        window = self.window
        short = window - history_RW.shape[1]
        history_RW = pad(history_RW, (short, 0), value=NO_TOKEN) if short > 0 else history_RW[:, -short:]
        missing_RC = progress.occurred_RC < self.times_BC
        matches: list[Tensor] = []
        for count in range(window + 1):
            last_RT = history_RW[:, window - count :]
            same_RCA = (self.phrases_BCAT[..., :count] == last_RT[:, None, None]).all(3)
            fresh_RC = (progress.since_RC >= count) & missing_RC
            matches.append(same_RCA & fresh_RC[:, :, None] & (count < self.lengths_BCA))
        return TermMatches(self, progress, missing_RC, torch.stack(matches, 3))


class TermMatches(NamedTuple):
    """The matches of the last tokens of each hypothesis."""

    terms: RequiredTerms
    progress: TermProgress
    missing_RC: Tensor
    """Whether a term has to occur once more."""
    matches_RCAT: Tensor
    """Whether the last t tokens are the first t of a variant that is missing, t = 0, 1, …; tokens before the last
    occurrence of the term do not count."""

    def next_tokens(self) -> Tensor:
        """(R, X) the tokens that begin each variant, and that continue its longest match; `NOTHING` where none."""
        phrases_RCAT, matches_RCAT = self.terms.phrases_BCAT, self.matches_RCAT
        first_RCA = phrases_RCAT[..., 0].masked_fill(~matches_RCAT[..., 0], NOTHING)
        longest_RCA = (matches_RCAT * self._counts).amax(3)
        next_RCA = phrases_RCAT.gather(3, longest_RCA[..., None])[..., 0]
        next_RCA = next_RCA.masked_fill(longest_RCA == 0, NOTHING)
        return torch.cat((first_RCA.flatten(1), next_RCA.flatten(1)), 1)

    def advance(self, tokens_RX: Tensor) -> CandidateProgress:
        """The progress of hypotheses with each of their candidates."""
        terms, progress = self.terms, self.progress
        costs_RC = terms.costs_BC
        # By every match, the tokens that it leaves of its variant; the matches are the first dimension of what follows,
        # and numbers are small: it is the largest computation of a step
        left_RCAT = terms.lengths_BCA[..., None] - self._counts - 1
        left_RCAT = torch.where(self.matches_RCAT, left_RCAT, costs_RC[..., None, None])
        phrases_PRC, left_PRC = (
            values_RCAT.flatten(2).permute(2, 0, 1).to(torch.int32) for values_RCAT in (terms.phrases_BCAT, left_RCAT)
        )
        costs_R1C = costs_RC[:, None].to(torch.int32)
        same_PRXC = phrases_PRC[:, :, None] == tokens_RX[:, :, None].to(torch.int32)
        remaining_RXC = torch.where(same_PRXC, left_PRC[:, :, None], costs_R1C).amin(0)
        remaining_RXC = torch.minimum(remaining_RXC, costs_R1C)
        occurs_RXC = (remaining_RXC == 0) & (costs_R1C > 0) & self.missing_RC[:, None]
        occurred_RXC = progress.occurred_RC[:, None] + occurs_RXC
        saved_RXC = (costs_R1C - remaining_RXC).masked_fill(occurs_RXC, 0)
        since_RXC = (progress.since_RC[:, None] + 1).masked_fill(occurs_RXC, 0)
        met_RX = (occurred_RXC * costs_RC[:, None]).sum(2) + saved_RXC.amax(2)
        return CandidateProgress(occurred_RXC, since_RXC, met_RX)

    @property
    def _counts(self) -> Tensor:
        """(T,) the number of tokens of each match."""
        return torch.arange(self.matches_RCAT.shape[3], device=self.matches_RCAT.device)


class TermProgress(NamedTuple):
    """How far each hypothesis is; between two steps (B, K, …) instead of (R, …)."""

    occurred_RC: Tensor
    """How often each term occurred, up to what is required."""
    since_RC: Tensor
    """The number of tokens since then, or since the start."""
    met_R: Tensor
    """The number of required tokens met: its bank."""


class CandidateProgress(NamedTuple):
    """How far each extension of each hypothesis is; see `TermProgress`."""

    occurred_RXC: Tensor
    since_RXC: Tensor
    met_RX: Tensor

    def of(self, indices_BK: Tensor, sentences: int) -> TermProgress:
        """The progress (B, K, …) of some of the extensions of each sentence."""
        occurred_BNC, since_BNC = (values.view(sentences, -1, values.shape[2]) for values in self[:2])
        indices_BKC = indices_BK[:, :, None].expand(-1, -1, occurred_BNC.shape[2])
        met_BK = self.met_RX.view(sentences, -1).gather(1, indices_BK)
        return TermProgress(occurred_BNC.gather(1, indices_BKC), since_BNC.gather(1, indices_BKC), met_BK)


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
