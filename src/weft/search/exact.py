"""Searches that find the best output there is: by trying everything, and by branch and bound.

The space: every sequence of at most L tokens that ends with the end token, which counts as one of them. Longer
sequences are not in it. With V tokens that is Σ_{t<L} (V−1)^t sequences.

    exhaustive   tries them all
    exact        skips what cannot win: log-probabilities only fall, so no continuation of a prefix scores above
                 bound(log p(prefix)); where that is below the n-th best found, the prefix is pruned

Branch and bound over a model's prefixes: Stahlberg and Byrne 2019 ("On NMT search errors and model errors"). Ours
descends greedily once, so that there is a score to beat, and then searches depth first, many prefixes of one length at
a time (Zhou and Hansen 2005, beam-stack search): the first descent is a beam, and only one batch of states is kept for
every length. Whatever the order, every prefix whose bound is above the answer must be expanded for a proof. The bound
is tight where scores are log p(y|x) and loose where they are divided by the length: a prefix might still continue, with
certainty, to the limit.

Ties, in both: of equal scores the higher log p, then the shorter, then the one whose ids come first in lexicographic
order. An output that was shown to be the best has a gap of 0 (`weft.search.ranking`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from weft.errors import SearchError
from weft.search.interface import FORBIDDEN, Hypothesis, SearchRequest, StepModel
from weft.search.loop import SearchState, StepLoop, attention_of
from weft.search.ranking import DEFAULT_RANKING, NO_ATTENTION, TOLERANCE, Ranking, coverage_score, gap
from weft.tree import select

CHUNK = 1024
"""The most prefixes that `exhaustive_search` expands at a time."""
CHUNK_ENTRIES = 1 << 22
"""The most log-probabilities that it holds at a time."""
SLACK = 1e-6
"""Relative rounding error of a bound."""


@dataclass(frozen=True)
class ExactOptions:
    """The settings of the exact searches."""

    ranking: Ranking = DEFAULT_RANKING
    max_nodes: int = 100_000
    """exact: how many prefixes of a sentence may be expanded. After that the best found so far are returned, with a
    gap; where nothing ended at all, the most likely of the longest prefixes seen, ``ended="nodes"``."""
    width: int = 64
    """exact: how many prefixes are expanded in one step."""
    max_space: int = 1_000_000
    """exhaustive: how many sequences may be tried."""

    def __post_init__(self) -> None:
        _check(max_nodes=self.max_nodes, width=self.width)


@torch.no_grad()
def exhaustive_search(model: StepModel, request: SearchRequest, options: ExactOptions) -> list[list[Hypothesis]]:
    """The best of all sequences of every sentence, best first; fewer than requested where there are fewer.

    Where nothing can end within the limit: the most likely prefix of that length, ``ended="length"``, not proven.
    """
    _check(n_best=request.n_best)
    sentences = list(_split(request))
    if not sentences:
        return []
    begin_1 = torch.tensor([request.begin], device=request.device)
    memory = sentences[0].memory
    vocabulary = model.step(begin_1, model.start(memory), memory)[0].shape[-1]
    longest = max(request.max_lengths)
    space = sum((vocabulary - 1) ** length for length in range(max(longest, 1)))
    if space > options.max_space:
        raise SearchError(
            f"exhaustive search: {_format(space)} sequences of at most {longest} tokens out of {vocabulary}; at most "
            f"{_format(options.max_space)} are tried; lower search.max_length, or use search.kind = 'exact'"
        )
    width = max(1, min(CHUNK, CHUNK_ENTRIES // vocabulary))
    outputs = []
    for sentence in sentences:
        search = _Search(model, sentence, options.ranking)
        search.run(_Traversal(width))
        outputs.append(search.hypotheses(FORBIDDEN))
    return outputs


@torch.no_grad()
def exact_search(
    model: StepModel, request: SearchRequest, options: ExactOptions, known_scores: Sequence[float] | None = None
) -> list[list[Hypothesis]]:
    """The outputs of `exhaustive_search`, found without expanding prefixes that cannot win.

    ``known_scores``: for every sentence a score that ``n_best`` sequences are known to reach (by a beam, say), −∞ for
    nothing known; where fewer do reach it, the sentence is searched again without it.
    """
    _check(n_best=request.n_best)
    outputs = []
    for row, sentence in enumerate(_split(request)):
        nodes = options.max_nodes
        for known in (FORBIDDEN,) if known_scores is None else (known_scores[row], FORBIDDEN):
            search = _Search(model, sentence, options.ranking, known - TOLERANCE * (1.0 + abs(known)))
            done = known == FORBIDDEN and search.run(_Traversal(1, nodes, dive=True))
            done = done or search.run(_Traversal(options.width, nodes))
            proven = done and search.known_score_reached
            nodes -= search.nodes
            if proven or nodes <= 0:
                break
        outputs.append(search.hypotheses(FORBIDDEN if proven else search.bound()))
    return outputs


class _Traversal(NamedTuple):
    """The order in which prefixes are expanded."""

    width: int
    """The number of prefixes expanded in one step."""
    max_nodes: int | None = None
    """Expand those that may win, and no more than this; None: expand all."""
    dive: bool = False
    """Descend once and do not return to what was passed over."""

    @property
    def prune(self) -> bool:
        return self.max_nodes is not None


class _SortKey(NamedTuple):
    """The sort key of finished sequences, the smallest first. That of a prefix, with its bound for a score, is
    smaller than that of any continuation."""

    minus_score: float
    minus_log_probability: float
    length: int
    tokens: list[int]


class _Sequence(NamedTuple):
    """A finished sequence, or a prefix that stands in for one."""

    key: _SortKey
    token_scores: list[float]


class _Prefixes(NamedTuple):
    """The prefixes that a step expands, on the CPU, in double precision."""

    tokens_RT: Tensor
    """The begin token first."""
    log_probs_RT: Tensor
    """log p of every token; 0 for the begin token."""
    totals_R: Tensor
    """log p of the prefix."""
    coverage_RS: Tensor | None
    """Σ_t a_tj before this step; None without a coverage penalty."""


@dataclass
class _Level:
    """Prefixes of one length that wait to be expanded, most likely first: a parent's row and one token more each."""

    state: SearchState
    """State of the parents, after their step; its `extra` are their prefixes."""
    parents: Tensor
    tokens: Tensor
    log_probs: Tensor
    """log p of the token."""
    totals: Tensor
    """log p of the prefix, descending."""
    taken: int = 0
    """The number of prefixes that have been expanded."""

    def take(self, count: int, device: torch.device) -> SearchState:
        """The next ``count`` prefixes as a state to step."""
        chunk = slice(self.taken, self.taken + count)
        self.taken += count
        parents_R, tokens_R = self.parents[chunk], self.tokens[chunk]
        prefixes: _Prefixes = self.state.extra
        extended = _Prefixes(
            torch.cat([prefixes.tokens_RT[parents_R], tokens_R[:, None]], 1),
            torch.cat([prefixes.log_probs_RT[parents_R], self.log_probs[chunk, None]], 1),
            self.totals[chunk],
            None if prefixes.coverage_RS is None else prefixes.coverage_RS[parents_R],
        )
        state = self.state.advance(self.state.model_state, parents_R.to(device), tokens_R.to(device))
        return state._replace(extra=extended)


class _Search:
    """The search for one sentence: its step expands some prefixes and chooses those to expand next."""

    def __init__(
        self, model: StepModel, request: SearchRequest, ranking: Ranking, known_score: float = FORBIDDEN
    ) -> None:
        self.model, self.request, self.ranking = model, request, ranking
        self.known_score = known_score
        """A score that counts as reached."""
        self.max_length, self.n_best = request.max_lengths[0], request.n_best
        self.source_length = request.source_length(0)
        self.best: list[_Sequence] = []
        """Finished, best first, never more than requested."""
        self.longest: _Sequence | None = None
        """The most likely of the longest prefixes seen, as long as nothing has ended."""
        self.nodes = 0
        """Prefixes expanded."""
        self.levels: list[_Level] = []

    def run(self, traversal: _Traversal) -> bool:
        """Expand prefixes from the first on; whether none is left that may win."""
        if traversal.prune and self._threshold() > 0.0:
            return True
        if traversal.max_nodes is not None and self.nodes >= traversal.max_nodes:
            return False
        self.traversal = traversal
        self.levels = []
        self.complete = False
        zeros = torch.zeros(1, dtype=torch.float64)
        coverage_RS = torch.zeros(1, 0) if self.ranking.beta else None
        root = _Prefixes(torch.tensor([[self.request.begin]]), zeros[:, None], zeros, coverage_RS)
        state = SearchState.start(self.request, self.model.start(self.request.memory), extra=root)
        self.nodes += 1
        StepLoop().run(self._step, state)
        return self.complete

    def _step(self, state: SearchState) -> tuple[SearchState, tuple[()]]:
        children = self._expand(state)
        following = self._next(children)
        if self.request.loop is not None and self.request.loop.is_abandoned(0):
            following, self.complete = None, False
        if following is None:
            return state._replace(done_B=torch.ones_like(state.done_B)), ()
        return following, ()

    def _next(self, children: _Level | None) -> SearchState | None:
        """The prefixes to expand next, deepest first; None: there are none, or the search is over."""
        width, max_nodes, dive = self.traversal
        if children is not None:
            self.levels.append(children)
        over = dive and children is None
        while self.levels and not over:
            level = self.levels[-1]
            count = min(width, self._may_win(level) if self.traversal.prune else len(level.totals) - level.taken)
            if max_nodes is not None and count > max_nodes - self.nodes:
                count = max_nodes - self.nodes
                if not count:
                    return None
            if count:
                self.nodes += count
                return level.take(count, self.request.device)
            over = dive
            if not dive:
                self.levels.pop()
        self.complete = not any(map(self._may_win, self.levels))
        return None

    def _expand(self, state: SearchState) -> _Level | None:
        """One step of the model; the continuations of its prefixes, if any."""
        prefixes: _Prefixes = state.extra
        logits_RV, model_state, attention_RS = self.model.step(state.tokens_R, state.model_state, state.memory)
        log_probs_RV = logits_RV.float().log_softmax(-1)
        coverage_RS = prefixes.coverage_RS
        if coverage_RS is not None:
            if attention_RS is None:
                raise SearchError(NO_ATTENTION)
            now_RS = attention_RS.cpu().float()[:, : self.source_length]
            coverage_RS = now_RS + pad(coverage_RS, (0, now_RS.shape[1] - coverage_RS.shape[1]))
            prefixes = prefixes._replace(coverage_RS=coverage_RS)
        end = self.request.end
        self._finish(log_probs_RV[:, end].cpu().double(), prefixes)

        log_probs_RV[:, end] = FORBIDDEN
        if not self.best:
            self._remember_longest(log_probs_RV, prefixes)
        if prefixes.tokens_RT.shape[1] >= self.max_length:  # with the end token to come, it would be too long
            return None
        threshold = self._threshold() if self.traversal.prune else FORBIDDEN
        penalty = self.ranking.penalty(self.max_length)
        slack = SLACK * (1.0 + abs(threshold * penalty)) if self.traversal.prune else 0.0
        least_R = (threshold * penalty - prefixes.totals_R - slack).to(log_probs_RV.device, log_probs_RV.dtype)
        kept_RV = (log_probs_RV >= least_R[:, None]) & ~log_probs_RV.isneginf()
        rows, tokens = kept_RV.nonzero(as_tuple=True)
        if not len(rows):
            return None
        log_probs = log_probs_RV[rows, tokens].cpu().double()
        rows, tokens = rows.cpu(), tokens.cpu()
        totals, order = (prefixes.totals_R[rows] + log_probs).sort(descending=True, stable=True)
        kept, parents = rows[order].unique(return_inverse=True)
        if len(kept) < len(state.tokens_R):
            model_state = select(model_state, kept.to(self.request.device))
        state = state._replace(model_state=model_state, extra=select(prefixes, kept))
        return _Level(state, parents, tokens[order], log_probs[order], totals)

    def _may_win(self, level: _Level) -> int:
        """The number of waiting prefixes that may still lead to something better than the worst of the best."""
        totals = level.totals[level.taken :]
        if not len(totals):
            return 0
        largest = float(totals[0])
        key = (-self.ranking.bound(largest, self.max_length), -largest, level.state.extra.tokens_RT.shape[1])
        if len(self.best) == self.n_best and key > self.best[-1].key[:3]:
            return 0
        return int((totals / self.ranking.penalty(self.max_length) >= self._threshold()).sum())

    @property
    def known_score_reached(self) -> bool:
        """Whether the score that was taken for reached is."""
        return self.known_score == FORBIDDEN or self._worst() >= self.known_score

    def _threshold(self) -> float:
        """The score to reach."""
        return max(self.known_score, self._worst())

    def _worst(self) -> float:
        """The score of the n-th best; −∞ as long as there are fewer."""
        return -self.best[-1].key.minus_score if len(self.best) == self.n_best else FORBIDDEN

    def _finish(self, end_log_probs_R: Tensor, prefixes: _Prefixes) -> None:
        """End every prefix, and keep the best."""
        tokens_RT, log_probs_RT, totals_R, coverage_RS = prefixes
        length = tokens_RT.shape[1]  # the begin token counts instead of the end token
        coverage_R = torch.zeros(len(totals_R)) if coverage_RS is None else coverage_score(coverage_RS)
        worst, known = self._worst(), {tuple(one.key.tokens) for one in self.best}  # by the greedy descent, maybe
        totals = (totals_R + end_log_probs_R).tolist()
        for row, (total, coverage) in enumerate(zip(totals, coverage_R.tolist(), strict=True)):
            score = self.ranking.score(total, length, coverage)
            if total > FORBIDDEN and score >= worst:
                key = _SortKey(-score, -total, length - 1, tokens_RT[row, 1:].tolist())
                if tuple(key.tokens) not in known:
                    self.best.append(_Sequence(key, [*log_probs_RT[row, 1:].tolist(), float(end_log_probs_R[row])]))
        self.best = sorted(self.best)[: self.n_best]

    def _remember_longest(self, log_probs_RV: Tensor, prefixes: _Prefixes) -> None:
        """The most likely continuation, where it is longer than what was seen before, or as long and likelier."""
        best_R, tokens_R = (values.cpu() for values in log_probs_RV.max(1))
        totals_R = prefixes.totals_R + best_R.double()
        row = int(totals_R.argmax())
        total, length = float(totals_R[row]), prefixes.tokens_RT.shape[1]
        last = self.longest.key if self.longest else _SortKey(0.0, float("inf"), 0, [])
        if total > FORBIDDEN and (length, total) > (last.length, -last.minus_log_probability):
            tokens = [*prefixes.tokens_RT[row, 1:].tolist(), int(tokens_R[row])]
            coverage = 0.0 if prefixes.coverage_RS is None else float(coverage_score(prefixes.coverage_RS[row]))
            key = _SortKey(-self.ranking.score(total, length, coverage), -total, length, tokens)
            self.longest = _Sequence(key, [*prefixes.log_probs_RT[row, 1:].tolist(), float(best_R[row])])

    def bound(self) -> float:
        """An upper bound on the scores of all other sequences: those that wait, and those that were pruned."""
        waiting = [float(level.totals[level.taken]) for level in self.levels if level.taken < len(level.totals)]
        largest = max(waiting, default=FORBIDDEN) if self.nodes else 0.0
        return max(self.ranking.bound(largest, self.max_length), self._threshold())

    def hypotheses(self, bound: float) -> list[Hypothesis]:
        """The sequences found, best first. ``bound``: upper bound on other scores; −∞ where the search is complete."""
        sequences = self.best or ([self.longest] if self.longest else [])
        if not sequences:
            raise SearchError("exact search: the model gives no token any probability; are its weights finite?")
        ended = bool(self.best)
        reason = "end" if ended else "length" if len(sequences[0].token_scores) == self.max_length else "nodes"
        attention: list[Tensor] | list[None] = [None] * len(sequences)
        if self.request.return_attention:
            outputs = [[*one.key.tokens, self.request.end][: len(one.token_scores)] for one in sequences]
            attention = attention_of(outputs, self.model, self.request)
        return [
            Hypothesis(
                tokens=one.key.tokens,
                score=-one.key.minus_score,
                log_probability=-one.key.minus_log_probability,
                token_scores=one.token_scores,
                ended=reason,
                attention_TS=attention_TS,
                gap=gap(bound, -one.key.minus_score) if ended else None,
            )
            for one, attention_TS in zip(sequences, attention, strict=True)
        ]


def _split(request: SearchRequest) -> Iterator[SearchRequest]:
    """A request for every sentence: the exact searches judge the model itself, so without constraints."""
    for row, max_length in enumerate(request.max_lengths):
        memory = select(request.memory, torch.tensor([row], device=request.device))
        lengths = request.source_lengths[row : row + 1]
        plain = replace(request, constraints=(), min_lengths=(), prefixes=(), source_lengths=lengths)
        loop = None if request.loop is None else request.loop.of_sentences([row])
        yield replace(plain, memory=memory, max_lengths=[max(max_length, 1)], loop=loop)


def _check(**counts: int) -> None:
    for name, count in counts.items():
        if count < 1:
            raise SearchError(f"exact search: {name} = {count}; at least 1")


def _format(count: int) -> str:
    return f"{count:,}" if count < 10**9 else f"{Decimal(count):.1e}"
