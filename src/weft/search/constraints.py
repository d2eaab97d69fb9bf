"""Constraints: tokens that may not follow, or that are made less likely.

A constraint receives the log-probabilities of every next token (R × V) and the history of each row, and returns scores:
the same with some of them lowered; −∞ forbids. Constraints know ids and rows only.

    BannedPhrases      forbids the token that would complete a banned phrase
    NoRepeatNgrams     forbids the token that would repeat an n-gram                               Paulus et al. 2018
    RepetitionPenalty  lowers every token that occurred before                                     Keskar et al. 2019
    NoLoops            forbids the token that would complete a loop: one phrase over and over

A constraint keeps nothing between steps: all it knows is the history. It changes only the few scores it lowers
(`lower`), so it costs one copy of the scores and some kernels over R × window. The copy is by far the larger part; a
caller that does not need the scores as they were passes ``in_place`` and avoids it.

To add one: write the class, and the line in `CONSTRAINTS` that makes it from its setting in ``[search]``.

`top_k_constrained` finds the k best extensions of hypotheses under constraints; among equal ones any may be taken. The
functions here take one pass over all scores each; `weft.fast.searching.top_k` reads them less often.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn.functional import pad

from weft.errors import SearchError
from weft.runtime.replaceable import replaceable
from weft.search.interface import FORBIDDEN, NO_TOKEN
from weft.search.loop import SearchState
from weft.search.repetition import LoopLimits

if TYPE_CHECKING:
    from weft.search.loop import SearchState

UNCHANGED = float("inf")
"""Lowering a score to at most this leaves it as it is."""

Constants = dict[torch.device, tuple[Tensor, ...]]


class LogitsConstraint(Protocol):
    """One constraint. It must not wait for the device: no ``.item()``, no ``.tolist()``, no shape that depends on
    values."""

    window: int | None
    """The number of latest tokens that it reads; None: all of them."""
    forbids: bool
    """Whether all it does is to forbid: other log-probabilities are not changed."""

    def __call__(self, scores_RV: Tensor, history_RW: Tensor, sentences_R: Tensor, *, in_place: bool = False) -> Tensor:
        """New scores, or where ``in_place`` the same tensor, changed.

        ``history_RW``: the tokens of each row, the newest in the last column, `NO_TOKEN` before the first;
        ``sentences_R``: the sentence (position in the batch that was given) that each row belongs to.
        """


def apply_constraints(
    scores_RV: Tensor,
    state: SearchState,
    constraints: Sequence[LogitsConstraint],
    end: int,
    *,
    in_place: bool = False,
) -> Tensor:
    """The scores of the next token under constraints, minimum lengths and forced prefixes.

    The end token's scores may be changed in place even where ``in_place`` is not set.
    """
    rows_per_sentence = len(scores_RV) // len(state.sentences_B)
    _, min_lengths_B, prefixes_BP, _ = state.limits
    forced_R1 = forced_scores_R1 = None
    if prefixes_BP is not None:
        position_1 = state.length_1.clamp(max=prefixes_BP.shape[1] - 1)
        forced_R1 = prefixes_BP.index_select(1, position_1).repeat_interleave(rows_per_sentence, 0)
        forced_scores_R1 = scores_RV.gather(1, forced_R1.clamp(min=0))
    if constraints:
        sentences_R = state.sentences_B.repeat_interleave(rows_per_sentence)
        assert state.history_RW is not None
        for constraint in constraints:
            scores_RV = constraint(scores_RV, state.history_RW, sentences_R, in_place=in_place)
    if min_lengths_B is not None:
        early_R = (state.length_1 < min_lengths_B).repeat_interleave(rows_per_sentence)
        scores_RV[:, end].masked_fill_(early_R, FORBIDDEN)
    if forced_R1 is not None and forced_scores_R1 is not None:  # a forced prefix overrules the constraints
        free_R1 = forced_R1 == NO_TOKEN
        tokens_R1 = forced_R1.clamp(min=0)
        forced_scores_R1 = torch.where(free_R1, scores_RV.gather(1, tokens_R1), forced_scores_R1)
        scores_RV = scores_RV.masked_fill(~free_R1, FORBIDDEN).scatter(1, tokens_R1, forced_scores_R1)
    return scores_RV


def lower(scores_RV: Tensor, tokens_RX: Tensor, to_RX: Tensor, *, in_place: bool = False) -> Tensor:
    """Scores in which every listed token has at most ``to_RX``: the least, where it is listed more than once.

    `UNCHANGED` leaves a score as it is, so the shapes need not depend on what is lowered; `NO_TOKEN` must come with it.
    """
    change = scores_RV.scatter_reduce_ if in_place else scores_RV.scatter_reduce
    return change(1, tokens_RX.clamp(min=0), to_RX.to(scores_RV.dtype), "amin")


def forbid(scores_RV: Tensor, tokens_RX: Tensor, forbidden_RX: Tensor, *, in_place: bool = False) -> Tensor:
    """Scores in which the tokens have −∞ where ``forbidden_RX`` is true."""
    to_RX = torch.full_like(tokens_RX, UNCHANGED, dtype=scores_RV.dtype)
    return lower(scores_RV, tokens_RX, to_RX.masked_fill_(forbidden_RX, FORBIDDEN), in_place=in_place)


class BannedPhrases:
    """Phrases that never occur: forbidden is the last token of each one whose others have just been generated.

    A phrase of one token is always forbidden. Phrases are matched by their ids, so words that a tokenizer can split in
    several ways need one phrase for each.
    """

    forbids = True

    def __init__(self, phrases: Sequence[Sequence[int]]) -> None:
        for number, phrase in enumerate(phrases, 1):
            if not len(phrase):
                raise SearchError(f"banned phrase {number} is empty; expected at least 1 token")
            if min(phrase) < 0:
                raise SearchError(f"banned phrase {number} has the id {min(phrase)}; ids are 0 or more")
        self.largest = max((max(phrase) for phrase in phrases), default=-1)
        self.window: int | None = max([1, *(len(phrase) - 1 for phrase in phrases)])
        before_PW = torch.full((len(phrases), self.window), NO_TOKEN)
        for row_W, phrase in zip(before_PW, phrases, strict=True):
            row_W[self.window - len(phrase) + 1 :] = torch.tensor(phrase[:-1])
        last_P = torch.tensor([phrase[-1] for phrase in phrases], dtype=torch.int64)
        self._constants: Constants = {torch.device("cpu"): (before_PW, before_PW == NO_TOKEN, last_P)}

    def __call__(self, scores_RV: Tensor, history_RW: Tensor, sentences_R: Tensor, *, in_place: bool = False) -> Tensor:
        if self.largest >= scores_RV.shape[1]:
            raise SearchError(f"a banned phrase has the id {self.largest}; the vocabulary has {scores_RV.shape[1]}")
        if self.largest < 0:
            return scores_RV
        before_PW, any_PW, last_P = _on(scores_RV.device, self._constants)
        history_R1W = _latest(history_RW, before_PW.shape[1])[:, None]
        forbidden_RP = ((history_R1W == before_PW) | any_PW).all(-1)
        return forbid(scores_RV, last_P.expand_as(forbidden_RP), forbidden_RP, in_place=in_place)


class NoRepeatNgrams:
    """No n-gram occurs twice: forbidden is every token that followed an earlier occurrence of the last n − 1 tokens.

    Hard on names and on words that a sentence needs twice; with n = 1 no token occurs twice at all.
    """

    forbids = True

    def __init__(self, n: int) -> None:
        if n < 1:
            raise SearchError(f"no-repeat: n-grams of {n} tokens; expected at least 1")
        self.n = n
        self.window: int | None = None

    def __call__(self, scores_RV: Tensor, history_RW: Tensor, sentences_R: Tensor, *, in_place: bool = False) -> Tensor:
        if history_RW.shape[1] < self.n:
            return scores_RV
        ngrams_RXN = history_RW.unfold(1, self.n, 1)
        next_RX = ngrams_RXN[:, :, -1]
        same_RX = (ngrams_RXN[:, :, :-1] == ngrams_RXN[:, -1:, 1:]).all(-1)
        return forbid(scores_RV, next_RX, same_RX & (next_RX != NO_TOKEN), in_place=in_place)


class RepetitionPenalty:
    """Log-probabilities of tokens that occurred before are multiplied by θ ≥ 1, however often they occurred.

    Keskar et al. 2019 (CTRL) divide the logit x of such a token by θ before the softmax, which penalizes only where
    x > 0. Log-probabilities are never above 0, so here they are multiplied: p becomes p^θ. It is not normalized again,
    since a search only compares. θ = 1 changes nothing; the paper's choice is 1.2.
    """

    forbids = False

    def __init__(self, theta: float) -> None:
        if not theta >= 1.0:
            raise SearchError(f"repetition penalty: {theta}; expected 1 (no penalty) or more")
        self.theta = theta
        self.window: int | None = None

    def __call__(self, scores_RV: Tensor, history_RW: Tensor, sentences_R: Tensor, *, in_place: bool = False) -> Tensor:
        penalized_RW = scores_RV.gather(1, history_RW.clamp(min=0)) * self.theta
        penalized_RW = penalized_RW.masked_fill_(history_RW == NO_TOKEN, UNCHANGED)
        return lower(scores_RV, history_RW, penalized_RW, in_place=in_place)


class NoLoops:
    """Forbids the token that would make the last L_n tokens a run of period n: a loop (`weft.search.repetition`)."""

    forbids = True

    def __init__(self, limits: LoopLimits = LoopLimits()) -> None:
        if limits.longest < 1 or limits.copies < 2:
            raise SearchError(
                f"no-loops: phrases of up to {limits.longest} tokens, {limits.copies} copies; "
                "expected at least 1 token and 2 copies"
            )
        self.limits = limits
        # With the forbidden token L_n tokens are a run, so the last L_n − n − 1 before it match those n positions back.
        matches_N = [limits.length(n) - n - 1 for n in range(limits.longest, 0, -1)]
        self.window: int | None = limits.length(limits.longest) - 1
        self.columns = max(*matches_N, 1)
        outside_NC = torch.tensor([[column >= count for column in range(self.columns)][::-1] for count in matches_N])
        self._constants: Constants = {torch.device("cpu"): (outside_NC,)}

    def __call__(self, scores_RV: Tensor, history_RW: Tensor, sentences_R: Tensor, *, in_place: bool = False) -> Tensor:
        (outside_NC,) = _on(scores_RV.device, self._constants)
        longest = self.limits.longest
        history_RW = _latest(history_RW, longest + self.columns)
        shifted_RNC = history_RW.unfold(1, self.columns, 1)  # by longest, longest − 1, …, 1 and 0
        run_RN = ((shifted_RNC[:, :-1] == shifted_RNC[:, -1:]) | outside_NC).all(-1)
        next_RN = history_RW[:, -longest:]
        # NO_TOKEN matches itself, but only up to the first token: a match all the way ends in NO_TOKEN as well.
        return forbid(scores_RV, next_RN, run_RN & (next_RN != NO_TOKEN), in_place=in_place)


CONSTRAINTS: dict[str, Callable[[Any], LogitsConstraint | None]] = {
    "banned": lambda phrases: BannedPhrases(phrases) if phrases else None,
    "no_repeat_ngram": lambda n: NoRepeatNgrams(n) if n else None,
    "repetition_penalty": lambda theta: RepetitionPenalty(theta) if theta != 1.0 else None,
    "no_loops": lambda enabled: NoLoops() if enabled is not False else None,
}
"""From the settings of ``[search]`` to constraints, in the order they are applied; None: the setting is off."""


def make_constraints(settings: Mapping[str, Any]) -> tuple[LogitsConstraint, ...]:
    """The constraints that settings turn on. ``banned``: phrases as tuples of ids.

    The same value of a setting gives the same object, so that a CUDA graph of a step can be used again.
    """
    made = (make_constraint(name, settings[name]) for name in CONSTRAINTS)
    return tuple(constraint for constraint in made if constraint is not None)


@lru_cache(maxsize=64)
def make_constraint(name: str, value: Any) -> LogitsConstraint | None:
    """The constraint of one setting; None: it is off."""
    return CONSTRAINTS[name](value)


def _latest(history_RW: Tensor, width: int) -> Tensor:
    """The last ``width`` columns, with `NO_TOKEN` where there are not as many."""
    missing = width - history_RW.shape[1]
    return pad(history_RW, (missing, 0), value=NO_TOKEN) if missing > 0 else history_RW[:, -missing:]


def _on(device: torch.device, constants: Constants) -> tuple[Tensor, ...]:
    """Constants on a device, copied there once, by the first call: make it before a CUDA graph is captured."""
    if device not in constants:
        constants[device] = tuple(tensor.to(device) for tensor in constants[torch.device("cpu")])
    return constants[device]


class Extensions(NamedTuple):
    """Hypotheses extended by one token, best first."""

    scores_BC: Tensor
    parents_BC: Tensor
    """Index of the extended hypothesis in its sentence."""
    tokens_BC: Tensor


def top_k(values_RV: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The ``k`` largest values of every row and their indices, largest first; fewer where the row is shorter."""
    largest = top_k_extensions(values_RV, values_RV.new_zeros(len(values_RV), 1), k)
    return largest.scores_BC, largest.tokens_BC


@replaceable
def top_k_extensions(scores_RV: Tensor, totals_BK: Tensor, k: int) -> Extensions:
    """The ``k`` largest of ``totals_BK[b, h] + scores_RV[b · K + h, v]`` over all hypotheses h of a sentence b and all
    tokens v."""
    sentences, size = totals_BK.shape
    vocabulary = scores_RV.shape[1]
    sums_BX = (totals_BK[:, :, None] + scores_RV.view(sentences, size, vocabulary)).flatten(1)
    scores_BC, indices_BC = sums_BX.topk(min(k, sums_BX.shape[1]))
    return Extensions(scores_BC, indices_BC // vocabulary, indices_BC % vocabulary)


@replaceable
def top_k_constrained(
    logits_RV: Tensor,
    totals_BK: Tensor,
    k: int,
    state: SearchState,
    constraints: Sequence[LogitsConstraint],
    end: int,
) -> Extensions:
    """`top_k_extensions` of the log-probabilities under constraints, all of which only forbid.

    log p(v) = logit_v − log Σ exp(logits): the sum is subtracted from the totals, not from every logit. The logits are
    overwritten.
    """
    totals_BK = totals_BK - log_sum_exp(logits_RV).view_as(totals_BK)
    scores_RV = apply_constraints(logits_RV, state, constraints, end, in_place=True)
    if k == totals_BK.shape[1] == 1:
        tokens_B1 = first_largest(scores_RV)
        return Extensions(totals_BK + scores_RV.gather(1, tokens_B1), torch.zeros_like(tokens_B1), tokens_B1)
    return top_k_extensions(scores_RV, totals_BK, k)


def constrained_scores(
    logits_RV: Tensor, state: SearchState, constraints: Sequence[LogitsConstraint], end: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Log p of all tokens, the same under constraints, and (R, 1) what is still to be subtracted from both.

    Under constraints that only forbid, that is log Σ exp(logits), both are one tensor, and the logits are overwritten.
    """
    if all(constraint.forbids for constraint in constraints):
        sums_R1 = log_sum_exp(logits_RV)[:, None]
        scores_RV = apply_constraints(logits_RV, state, constraints, end, in_place=True)
        return scores_RV, scores_RV, sums_R1
    log_probs_RV = logits_RV.log_softmax(-1, dtype=torch.float32)
    return (
        log_probs_RV,
        apply_constraints(log_probs_RV, state, constraints, end),
        logits_RV.new_zeros(len(logits_RV), 1),
    )


@replaceable
def first_largest(values_RV: Tensor) -> Tensor:
    """(R, 1) the index of the largest value of every row, of equals the first."""
    return values_RV.argmax(-1, keepdim=True)


@replaceable
def log_sum_exp(values_RV: Tensor) -> Tensor:
    """log Σ exp of every row, in single precision."""
    return values_RV.float().logsumexp(-1)
