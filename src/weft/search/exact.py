"""Searches that find the best answer there is: by trying everything, and by branch and bound.

The space: every sequence of at most L tokens that ends with the end mark, which counts as one of them. What the limit
would cut off is not in it. With V tokens that is Σ_{t<L} (V−1)^t sequences.

    exhaustive   tries them all
    exact        leaves out what cannot win: log-probabilities only fall, so nothing that goes on from a prefix scores
                 above bound(log p(prefix)); where that is below the n-th best found, the prefix is dropped

Branch and bound over a model's prefixes: Stahlberg and Byrne 2019 ("On NMT search errors and model errors"). Ours goes
down greedily once, so that there is something to beat, and then depth first, many prefixes of one length at a time
(Zhou and Hansen 2005, beam-stack search): the first descent is a beam, and only one batch of states is kept for every
length. Whatever the order, every prefix whose bound is above the answer must be looked at for a proof. The bound is
sharp where scores are log p(y|x) and weak where they are divided by the length: a prefix might still go on, with
certainty, to the limit.

Ties, in both: of equal scores the higher log p, then the shorter, then the one whose ids come first in dictionary
order. An answer that was shown to be the best is `proven`. Tokens of probability 0 are never followed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from weft.errors import SearchError
from weft.search.interface import Hypothesis, StepModel
from weft.search.ranking import Ranking, coverage
from weft.tree import Tree, repeat, select

CHUNK = 1024
"""How many prefixes `exhaustive` expands at a time, at most."""
CHUNK_ENTRIES = 1 << 22
"""How many log-probabilities it holds at a time, at most."""


@torch.no_grad()
def exhaustive(
    model: StepModel,
    memory: Any,
    limits: Sequence[int],
    *,
    begin: int,
    end: int,
    ranking: Ranking,
    n_best: int = 1,
    max_space: int = 1_000_000,
    weights: bool = False,
    device: torch.device | str = "cpu",
) -> list[list[Hypothesis]]:
    """The ``n_best`` of all sequences of every row, best first; fewer where there are fewer.

    Where nothing can end within the limit: the most likely prefix of that length, ``ended="length"``, not proven.
    """
    _check(n_best=n_best)
    if not limits:
        return []
    rows = [_row(memory, row, device) for row in range(len(limits))]
    vocabulary = model.step(torch.tensor([begin], device=device), model.start(rows[0]), rows[0])[0].shape[-1]
    longest = max(limits)
    size = sum((vocabulary - 1) ** length for length in range(max(longest, 1)))
    if size > max_space:
        raise SearchError(
            f"exhaustive search: {_human(size)} sequences of at most {longest} tokens out of {vocabulary}; at most "
            f"{_human(max_space)} are tried; lower search.max_length, or use search.kind = 'exact'"
        )
    answers = []
    for one, limit in zip(rows, limits, strict=True):
        search = _Search(model, one, limit, begin=begin, end=end, ranking=ranking, n_best=n_best, device=device)
        search.run(width=max(1, min(CHUNK, CHUNK_ENTRIES // vocabulary)))
        answers.append(search.answers(proven=True, weights=weights))
    return answers


@torch.no_grad()
def exact(
    model: StepModel,
    memory: Any,
    limits: Sequence[int],
    *,
    begin: int,
    end: int,
    ranking: Ranking,
    n_best: int = 1,
    max_nodes: int = 100_000,
    width: int = 64,
    weights: bool = False,
    device: torch.device | str = "cpu",
    start: Sequence[float] | None = None,
) -> list[list[Hypothesis]]:
    """What `exhaustive` finds, without looking at what cannot win.

    ``max_nodes``: how many prefixes of a row may be expanded; after that the best found so far are given, not proven,
    and where nothing ended at all the most likely of the longest prefixes seen, ``ended="length"``. ``width``: how many
    are expanded in one step. ``start``: for every row a score that ``n_best`` sequences are known to reach (by a beam,
    say), −∞ for nothing known; where fewer do reach it, the row is searched again without it.
    """
    _check(n_best=n_best, max_nodes=max_nodes, width=width)
    answers = []
    for row, limit in enumerate(limits):
        one = _row(memory, row, device)
        nodes = max_nodes
        for known in (float("-inf"),) if start is None else (start[row], float("-inf")):
            search = _Search(model, one, limit, begin=begin, end=end, ranking=ranking, n_best=n_best, device=device)
            search.known = known - 1e-5 * (1.0 + abs(known))  # rounding depends on what else is in a step
            dived = known == float("-inf") and search.run(width=1, prune=True, max_nodes=nodes, once=True)
            done = dived or search.run(width=width, prune=True, max_nodes=nodes)
            proven = done and search.reached
            nodes -= search.nodes
            if proven or nodes <= 0:
                break
        answers.append(search.answers(proven=proven, weights=weights))
    return answers


class _Key(NamedTuple):
    """What finished sequences are ordered by, the smallest first. That of a prefix, with its bound for a score, is
    smaller than that of anything that goes on from it."""

    minus_score: float
    minus_log_probability: float
    length: int
    tokens: list[int]


class _Found(NamedTuple):
    """A finished sequence, or a prefix that stands in for one."""

    key: _Key
    token_scores: list[float]


@dataclass
class _Level:
    """Prefixes of one length that wait to be expanded, most likely first: a parent's row and one token more each."""

    state: Tree
    """Of the parents, before they are told the token."""
    said_RT: Tensor
    """What the parents said, the begin mark first."""
    scores_RT: Tensor
    """log p of what they said; 0 for the begin mark."""
    looked_RS: Tensor | None
    """Σ_t a_tj of the parents; None where it counts for nothing."""
    parents: Tensor
    tokens: Tensor
    scores: Tensor
    """log p of the token."""
    totals: Tensor
    """log p of the prefix; falls from place to place."""
    taken: int = 0
    """How many have been expanded."""


class _Search:
    """The search for one row. What is in a level lies on the CPU, in double precision, but for the states."""

    def __init__(
        self,
        model: StepModel,
        memory: Any,
        limit: int,
        *,
        begin: int,
        end: int,
        ranking: Ranking,
        n_best: int,
        device: torch.device | str,
    ) -> None:
        self.model, self.memory, self.limit, self.ranking = model, memory, max(limit, 1), ranking
        self.begin, self.end, self.n_best, self.device = begin, end, n_best, device
        self.best: list[_Found] = []
        """Finished, best first, never more than asked for."""
        self.longest: _Found | None = None
        """The most likely of the longest prefixes seen, as long as nothing has ended."""
        self.known = float("-inf")
        """A score that is reached for certain."""
        self.nodes = 0
        """Prefixes expanded."""

    def run(self, *, width: int, prune: bool = False, max_nodes: int | None = None, once: bool = False) -> bool:
        """Expand all prefixes from the first on, or with ``prune`` those that may matter; whether none is left.

        ``once``: go down once and do not turn back.
        """
        levels = [self._root()]
        while levels:
            level = levels[-1]
            count = min(width, self._may_win(level) if prune else len(level.totals) - level.taken)
            if max_nodes is not None and count > max_nodes - self.nodes:
                count = max_nodes - self.nodes
                if not count:
                    return False
            children = self._expand(level, count, prune) if count else None
            if children is not None:
                levels.append(children)
            elif once:
                return not any(self._may_win(level) for level in levels)
            elif not count or level.taken == len(level.totals):
                levels.pop()
        return True

    def _root(self) -> _Level:
        nothing, zero = torch.zeros(1, 0), torch.zeros(1, dtype=torch.int64)
        return _Level(
            state=self.model.start(self.memory),
            said_RT=nothing.long(),
            scores_RT=nothing.double(),
            looked_RS=nothing if self.ranking.beta else None,
            parents=zero,
            tokens=torch.tensor([self.begin]),
            scores=zero.double(),
            totals=zero.double(),
        )

    def _expand(self, level: _Level, count: int, prune: bool) -> _Level | None:
        """One step of the model for the next ``count`` prefixes of a level; their children, if any."""
        chunk = slice(level.taken, level.taken + count)
        level.taken += count
        self.nodes += count
        parents_R, tokens_R, totals_R = level.parents[chunk], level.tokens[chunk], level.totals[chunk]
        said_RT = torch.cat([level.said_RT[parents_R], tokens_R[:, None]], 1)
        scores_RT = torch.cat([level.scores_RT[parents_R], level.scores[chunk, None]], 1)
        state = select(level.state, parents_R.to(self.device))
        logits_RV, state, weights_RS = self.model.step(tokens_R.to(self.device), state, self.memory)
        log_RV = logits_RV.float().log_softmax(-1)
        looked_RS = level.looked_RS
        if looked_RS is not None:
            if weights_RS is None:
                raise SearchError(
                    "search.coverage_penalty: this model has no attention, so nothing is known of coverage"
                )
            now_RS = weights_RS.cpu().float()
            looked_RS = now_RS + pad(looked_RS[parents_R], (0, now_RS.shape[1] - looked_RS.shape[1]))
        self._finish(log_RV[:, self.end].cpu().double(), said_RT, scores_RT, totals_R, looked_RS)

        log_RV[:, self.end] = float("-inf")
        if not self.best:
            self._remember_longest(log_RV, said_RT, scores_RT, totals_R)
        if said_RT.shape[1] >= self.limit:  # with the end mark still to say, a child would be too long
            return None
        worst = self._worst() if prune else float("-inf")
        penalty = self.ranking.penalty(self.limit)
        slack = 1e-6 * (1.0 + abs(worst * penalty)) if prune else 0.0
        least_R = (worst * penalty - totals_R - slack).to(log_RV.device, log_RV.dtype)
        kept_RV = (log_RV >= least_R[:, None]) & ~log_RV.isneginf()
        rows, tokens = kept_RV.nonzero(as_tuple=True)
        if not len(rows):
            return None
        scores = log_RV[rows, tokens].cpu().double()
        rows, tokens = rows.cpu(), tokens.cpu()
        totals, order = (totals_R[rows] + scores).sort(descending=True, stable=True)
        kept, rows = rows[order].unique(return_inverse=True)
        return _Level(
            state=select(state, kept.to(self.device)) if len(kept) < count else state,
            said_RT=said_RT[kept],
            scores_RT=scores_RT[kept],
            looked_RS=looked_RS[kept] if looked_RS is not None else None,
            parents=rows,
            tokens=tokens[order],
            scores=scores[order],
            totals=totals,
        )

    def _may_win(self, level: _Level) -> int:
        """How many of those that wait may still lead to something better than the worst of the best."""
        totals = level.totals[level.taken :]
        if not len(totals):
            return 0
        largest = float(totals[0])
        key = (-self.ranking.bound(largest, self.limit), -largest, level.said_RT.shape[1])
        if len(self.best) == self.n_best and key > self.best[-1].key[:3]:
            return 0
        return int((totals / self.ranking.penalty(self.limit) >= self._worst()).sum())

    @property
    def reached(self) -> bool:
        """Whether what was taken for known is true."""
        full = len(self.best) == self.n_best
        return self.known == float("-inf") or (full and -self.best[-1].key.minus_score >= self.known)

    def _worst(self) -> float:
        """The score to be reached."""
        return max(self.known, -self.best[-1].key.minus_score if len(self.best) == self.n_best else float("-inf"))

    def _finish(
        self, ends_R: Tensor, said_RT: Tensor, scores_RT: Tensor, totals_R: Tensor, looked_RS: Tensor | None
    ) -> None:
        """Say the end mark after every prefix, and keep the best."""
        length = said_RT.shape[1]  # the begin mark stands in for the end mark
        covered = torch.zeros(len(ends_R)) if looked_RS is None else coverage(looked_RS)
        worst = self.best[-1].key.minus_score if len(self.best) == self.n_best else float("inf")
        before = {tuple(one.key.tokens) for one in self.best}  # by the greedy descent, maybe
        for row, (total, seen) in enumerate(zip((totals_R + ends_R).tolist(), covered.tolist(), strict=True)):
            score = self.ranking.score(total, length, seen)
            if total > float("-inf") and -score <= worst:
                key = _Key(-score, -total, length - 1, said_RT[row, 1:].tolist())
                if tuple(key.tokens) not in before:
                    self.best.append(_Found(key, [*scores_RT[row, 1:].tolist(), float(ends_R[row])]))
        self.best = sorted(self.best)[: self.n_best]

    def _remember_longest(self, log_RV: Tensor, said_RT: Tensor, scores_RT: Tensor, totals_R: Tensor) -> None:
        """The most likely child, where it is longer than what was seen before, or as long and likelier."""
        best_R, token_R = (found.cpu() for found in log_RV.max(1))
        place = int((totals_R + best_R.double()).argmax())
        total, length = float(totals_R[place] + best_R[place].double()), said_RT.shape[1]
        last = self.longest.key if self.longest else _Key(0.0, float("inf"), 0, [])
        if total > float("-inf") and (length, total) > (last.length, -last.minus_log_probability):
            key = _Key(-self.ranking.score(total, length), -total, length, said_RT[place, 1:].tolist())
            key.tokens.append(int(token_R[place]))
            self.longest = _Found(key, [*scores_RT[place, 1:].tolist(), float(best_R[place])])

    def answers(self, *, proven: bool, weights: bool) -> list[Hypothesis]:
        """What was found, written out."""
        found = self.best or ([self.longest] if self.longest else [])
        if not found:
            raise SearchError("exact search: the model gives no token any probability; are its weights finite?")
        ended = bool(self.best)
        looks = self._looks(found) if weights else [None] * len(found)
        return [
            Hypothesis(
                tokens=one.key.tokens,
                score=-one.key.minus_score,
                log_probability=-one.key.minus_log_probability,
                token_scores=one.token_scores,
                ended="end" if ended else "length",
                attention_TS=attention_TS,
                proven=proven and ended,
            )
            for one, attention_TS in zip(found, looks, strict=True)
        ]

    def _looks(self, found: list[_Found]) -> list[Tensor] | list[None]:
        """Where the model looks when it says these. They are said once more: kept for all prefixes it would be much."""
        lengths = [len(one.token_scores) for one in found]
        said = [[self.begin, *one.key.tokens, *[self.end] * max(lengths)][: max(lengths)] for one in found]
        state = repeat(self.model.start(self.memory), len(found))
        looks: list[Tensor] = []
        for tokens_R in torch.tensor(said, device=self.device).unbind(1):
            _, state, weights_RS = self.model.step(tokens_R, state, self.memory)
            if weights_RS is None:
                return [None] * len(found)
            looks.append(weights_RS.cpu())
        widths = [look.shape[1] for look in looks]  # grow, where a model looks at its own past
        looks_RTS = torch.stack([pad(look, (0, widths[-1] - look.shape[1])) for look in looks], 1)
        return [looks_RTS[row, :length, : widths[length - 1]] for row, length in enumerate(lengths)]


def _row(memory: Any, row: int, device: torch.device | str) -> Any:
    return select(memory, torch.tensor([row], device=device))


def _check(**counts: int) -> None:
    for name, count in counts.items():
        if count < 1:
            raise SearchError(f"exact search: {name} = {count}; at least 1")


def _human(count: int) -> str:
    return f"{count:,}" if count < 10**9 else f"{Decimal(count):.1e}"
