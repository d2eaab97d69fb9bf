"""Rules: what a search may not say, or should say less gladly.

A rule is given the ratings of every next token (log-probabilities, R × V) and what each row has said, and gives the
ratings back with some of them lowered; −∞ forbids. Rules know ids and rows only.

    BannedPhrases             the token that would complete a banned phrase
    NoRepeatNgrams           the token that would say an n-gram a second time                       Paulus et al. 2018
    RepetitionPenalty  every token already said, less gladly                                  Keskar et al. 2019
    NoLoops            the token that would complete a loop: one phrase over and over

A rule keeps nothing between steps: all it knows is the window. It touches only the few ratings it lowers (`lower`), so
what it costs is one copy of the ratings and some kernels over R × window. The copy is by far the larger part; a caller
who does not need the ratings as they were says ``in_place`` and is spared it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import pad

from weft.errors import SearchError

Constants = dict[torch.device, tuple[Tensor, ...]]

NOTHING = -1
"""Fills the columns of a window from before the first token."""


class LogitsConstraint(Protocol):
    """One rule. It must not wait for the device: no ``.item()``, no ``.tolist()``, no shape that depends on values."""

    window: int | None
    """How many of the latest tokens it looks at; None: all of them."""
    forbids: bool
    """Whether all it does is to forbid: log p of what may be said is not touched."""

    def __call__(self, ratings_RV: Tensor, said_RW: Tensor, sentences_R: Tensor, *, in_place: bool = False) -> Tensor:
        """New ratings, or where ``in_place`` the same tensor, changed.

        ``said_RW``: what each row said, the newest token in the last column, `NOTHING` before the first;
        ``sentences_R``: the sentence (row of the batch as it was given) that each row belongs to.
        """


def lower(ratings_RV: Tensor, tokens_RX: Tensor, to_RX: Tensor, *, in_place: bool = False) -> Tensor:
    """Ratings in which every named token is rated at most ``to_RX``: the least, where it is named more than once.

    +∞ leaves a rating as it is, so the shapes need not depend on what is lowered. `NOTHING` must come with +∞.
    """
    change = ratings_RV.scatter_reduce_ if in_place else ratings_RV.scatter_reduce
    return change(1, tokens_RX.clamp(min=0), to_RX.to(ratings_RV.dtype), "amin")


def forbid(ratings_RV: Tensor, tokens_RX: Tensor, forbidden_RX: Tensor, *, in_place: bool = False) -> Tensor:
    """Ratings in which the tokens are rated −∞ where ``forbidden_RX`` is true."""
    least_RX = torch.full_like(tokens_RX, float("inf"), dtype=ratings_RV.dtype)
    return lower(ratings_RV, tokens_RX, least_RX.masked_fill_(forbidden_RX, float("-inf")), in_place=in_place)


class BannedPhrases:
    """Phrases that are never said: forbidden is the last token of each one whose others were just said.

    A phrase of one token is always forbidden. A phrase is matched by its ids, so words that a tokenizer can cut in
    several ways need one phrase for each.
    """

    forbids = True

    def __init__(self, phrases: Sequence[Sequence[int]]) -> None:
        for place, phrase in enumerate(phrases):
            if not len(phrase):
                raise SearchError(f"banned phrase {place + 1} is empty; expected at least 1 token")
            if min(phrase) < 0:
                raise SearchError(f"banned phrase {place + 1} has the id {min(phrase)}; ids are 0 or more")
        self.largest = max((max(phrase) for phrase in phrases), default=-1)
        self.window: int | None = max([1, *(len(phrase) - 1 for phrase in phrases)])
        before_PW = torch.full((len(phrases), self.window), NOTHING)
        for row_W, phrase in zip(before_PW, phrases, strict=True):
            row_W[self.window - len(phrase) + 1 :] = torch.tensor(phrase[:-1])
        last_P = torch.tensor([phrase[-1] for phrase in phrases], dtype=torch.int64)
        self._constants: Constants = {torch.device("cpu"): (before_PW, before_PW == NOTHING, last_P)}

    def __call__(self, ratings_RV: Tensor, said_RW: Tensor, sentences_R: Tensor, *, in_place: bool = False) -> Tensor:
        if self.largest >= ratings_RV.shape[1]:
            raise SearchError(f"a banned phrase has the id {self.largest}; the vocabulary has {ratings_RV.shape[1]}")
        if self.largest < 0:
            return ratings_RV
        before_PW, any_PW, last_P = _on(ratings_RV.device, self._constants)
        said_R1W = _latest(said_RW, before_PW.shape[1])[:, None]
        forbidden_RP = ((said_R1W == before_PW) | any_PW).all(-1)
        return forbid(ratings_RV, last_P.expand_as(forbidden_RP), forbidden_RP, in_place=in_place)


class NoRepeatNgrams:
    """No n-gram is said twice: forbidden is every token that followed an earlier saying of the last n − 1 tokens.

    Hard on names and on words that a sentence needs twice; with n = 1 no token is said twice at all.
    """

    forbids = True

    def __init__(self, n: int) -> None:
        if n < 1:
            raise SearchError(f"no-repeat: n-grams of {n} tokens; expected at least 1")
        self.n = n
        self.window: int | None = None

    def __call__(self, ratings_RV: Tensor, said_RW: Tensor, sentences_R: Tensor, *, in_place: bool = False) -> Tensor:
        if said_RW.shape[1] < self.n:
            return ratings_RV
        grams_RXN = said_RW.unfold(1, self.n, 1)
        next_RX = grams_RXN[:, :, -1]
        same_RX = (grams_RXN[:, :, :-1] == grams_RXN[:, -1:, 1:]).all(-1)
        return forbid(ratings_RV, next_RX, same_RX & (next_RX != NOTHING), in_place=in_place)


class RepetitionPenalty:
    """Tokens already said are rated θ times as low: rating × θ, θ ≥ 1, however often they were said.

    Keskar et al. 2019 (CTRL) divide the logit x of such a token by θ before the softmax, which punishes only where
    x > 0. Ratings are log-probabilities, never above 0, so here the rating is multiplied: p becomes p^θ. It is not
    normalized again, since a search only compares. θ = 1 changes nothing; the paper's choice is 1.2.
    """

    forbids = False

    def __init__(self, theta: float) -> None:
        if not theta >= 1.0:
            raise SearchError(f"repetition penalty: {theta}; expected 1 (no penalty) or more")
        self.theta = theta
        self.window: int | None = None

    def __call__(self, ratings_RV: Tensor, said_RW: Tensor, sentences_R: Tensor, *, in_place: bool = False) -> Tensor:
        worse_RW = ratings_RV.gather(1, said_RW.clamp(min=0)) * self.theta
        worse_RW = worse_RW.masked_fill_(said_RW == NOTHING, float("inf"))
        return lower(ratings_RV, said_RW, worse_RW, in_place=in_place)


class NoLoops:
    """No phrase over and over: what a model that has lost its way says without end (Holtzman et al. 2020).

    A run of period n is a stretch of tokens in which y_t = y_{t−n} from its (n+1)-th token on. Forbidden is the token
    that would make the last L_n tokens a run of period n, for any n ≤ ``longest``:

        L_n = max(copies · n, tokens)

    So a phrase of n tokens may stand any number of times below ``copies``, and a short one more often, until the run
    has ``tokens`` tokens: "very very very very", "10000000" and a stutter of letters stay possible.
    """

    forbids = True

    def __init__(self, longest: int = 16, copies: int = 3, tokens: int = 10) -> None:
        if longest < 1 or copies < 2:
            raise SearchError(
                f"no-loops: phrases of up to {longest} tokens, {copies} copies; expected at least 1 token and 2 copies"
            )
        # With the forbidden token L_n tokens are a run, so its last L_n − n − 1 tokens said match the n-th before.
        matches_N = [max(copies * n, tokens) - n - 1 for n in range(longest, 0, -1)]
        self.settings = (longest, copies, tokens)
        self.longest = longest
        self.window: int | None = max(copies * longest, tokens) - 1
        self.columns = max(*matches_N, 1)
        outside_NC = torch.tensor([[column >= count for column in range(self.columns)][::-1] for count in matches_N])
        self._constants: Constants = {torch.device("cpu"): (outside_NC,)}

    def __call__(self, ratings_RV: Tensor, said_RW: Tensor, sentences_R: Tensor, *, in_place: bool = False) -> Tensor:
        (outside_NC,) = _on(ratings_RV.device, self._constants)
        said_RW = _latest(said_RW, self.longest + self.columns)
        shifted_RNC = said_RW.unfold(1, self.columns, 1)  # by longest, longest − 1, …, 1 and 0
        run_RN = ((shifted_RNC[:, :-1] == shifted_RNC[:, -1:]) | outside_NC).all(-1)
        next_RN = said_RW[:, -self.longest :]
        # NOTHING matches itself, but only up to the first token: a match all the way ends in NOTHING as well.
        return forbid(ratings_RV, next_RN, run_RN & (next_RN != NOTHING), in_place=in_place)


def _latest(said_RW: Tensor, width: int) -> Tensor:
    """The last ``width`` columns, with `NOTHING` where there are not as many."""
    missing = width - said_RW.shape[1]
    return pad(said_RW, (missing, 0), value=NOTHING) if missing > 0 else said_RW[:, -missing:]


def _on(device: torch.device, constants: Constants) -> tuple[Tensor, ...]:
    """A rule's constants on a device, copied there once, by the first call: make it before a CUDA graph is recorded."""
    if device not in constants:
        constants[device] = tuple(one.to(device) for one in constants[torch.device("cpu")])
    return constants[device]
