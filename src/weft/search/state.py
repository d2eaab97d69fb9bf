"""A search between two steps, and the loop that takes the steps.

Everything a search knows lies in a `SearchState`: a tree of tensors. A step makes a new one, of the same shapes, and
a record
of what was done. Sentences that are done leave the batch; the loop sees to it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from weft.search.constraints import NOTHING, LogitsConstraint, NoLoops
from weft.search.top_k import Extensions, best_extensions, log_sums
from weft.tree import Tree, keep, leaves, map_tree, select

Advance = Callable[["SearchState"], tuple["SearchState", Tree]]


class Limits(NamedTuple):
    """What holds for each sentence from the start."""

    limit_B: Tensor
    """The most tokens, the end mark counted."""
    least_B: Tensor | None
    """The fewest tokens before the end mark; None: no sentence has a least."""
    prefix_BP: Tensor | None
    """What it must begin with, filled up with `NOTHING`; None: no sentence has a prefix."""

    @classmethod
    def of(
        cls,
        limits: Sequence[int],
        least: Sequence[int] | None = None,
        prefixes: Sequence[Sequence[int]] | None = None,
        *,
        device: torch.device | str,
    ) -> Limits:
        prefix_BP = least_B = None
        if prefixes is not None and any(prefixes):
            longest = max(len(prefix) for prefix in prefixes)
            rows = [[*prefix, *[NOTHING] * (longest + 1 - len(prefix))] for prefix in prefixes]
            prefix_BP = torch.tensor(rows, device=device)
        if least is not None and any(least):
            least_B = torch.tensor(list(least), device=device)
        return cls(torch.tensor(list(limits), device=device), least_B, prefix_BP)


class SearchState(NamedTuple):
    """A search between two steps. Letters: B sentences, R rows (a sentence's stand side by side)."""

    tokens_R: Tensor
    """What each row said last."""
    state: Tree
    """(R, …)"""
    said_RW: Tensor | None
    """What the rules look at: the latest tokens, the newest last."""
    memory: Tree
    """(B, …)"""
    sentences_B: Tensor
    """Which of the sentences that were given these are."""
    bounds: Limits
    done_B: Tensor
    found: Any
    """(B, …) whatever else the search keeps."""
    time_1: Tensor
    """How many tokens every row has said."""

    @classmethod
    def begin(
        cls,
        state: Tree,
        memory: Tree,
        bounds: Limits,
        *,
        begin: int,
        rows: int,
        rules: Sequence[LogitsConstraint],
        device: torch.device | str,
    ) -> SearchState:
        """Before the first token. ``state``: of ``rows`` rows a sentence."""
        count = len(bounds.limit_B)
        window = 0
        if rules:
            longest = int(bounds.limit_B.max())
            window = max(longest if rule.window is None else min(rule.window, longest) for rule in rules)
        return cls(
            tokens_R=torch.full((count * rows,), begin, device=device),
            state=state,
            said_RW=torch.full((count * rows, window), NOTHING, device=device) if window else None,
            memory=memory,
            sentences_B=torch.arange(count, device=device),
            bounds=bounds,
            done_B=torch.zeros(count, dtype=torch.bool, device=device),
            found=None,
            time_1=torch.zeros(1, dtype=torch.int64, device=device),
        )

    def take(self, state: Tree, rows_R: Tensor | None, tokens_R: Tensor) -> SearchState:
        """After a step: the rows that go on from ``rows_R`` (None: each from itself) and what each said."""
        said_RW = self.said_RW
        if rows_R is not None:
            state = select(state, rows_R)
            said_RW = None if said_RW is None else said_RW.index_select(0, rows_R)
        if said_RW is not None:
            said_RW = torch.cat([said_RW[:, 1:], tokens_R[:, None]], 1)
        return self._replace(state=state, said_RW=said_RW, tokens_R=tokens_R, time_1=self.time_1 + 1)

    def keep(self, sentences: Tensor) -> SearchState:
        """Some of the sentences alone, with all that belongs to them."""
        share = len(self.tokens_R) // len(self.sentences_B)
        rows = sentences
        if share > 1:
            rows = (sentences[:, None] * share + torch.arange(share, device=sentences.device)).flatten()
        tokens_R, state, said_RW = keep((self.tokens_R, self.state, self.said_RW), rows)
        of_sentences = (self.memory, self.sentences_B, self.bounds, self.done_B, self.found)
        memory, sentences_B, bounds, done_B, found = select(of_sentences, sentences)
        return SearchState(tokens_R, state, said_RW, memory, sentences_B, bounds, done_B, found, self.time_1)


def apply_constraints(
    ratings_RV: Tensor, live: SearchState, rules: Sequence[LogitsConstraint], end: int, *, in_place: bool = False
) -> Tensor:
    """The ratings of the next token under the rules, least lengths and forced prefixes."""
    share = len(ratings_RV) // len(live.sentences_B)
    least_B, prefix_BP = live.bounds.least_B, live.bounds.prefix_BP
    forced_R1 = rated_R1 = None
    if prefix_BP is not None:
        place_1 = live.time_1.clamp(max=prefix_BP.shape[1] - 1)
        forced_R1 = prefix_BP.index_select(1, place_1).repeat_interleave(share, 0)
        rated_R1 = ratings_RV.gather(1, forced_R1.clamp(min=0))
    if rules:
        sentences_R = live.sentences_B.repeat_interleave(share)
        assert live.said_RW is not None
        for rule in rules:
            ratings_RV = rule(ratings_RV, live.said_RW, sentences_R, in_place=in_place)
    if least_B is not None:
        early_R = (live.time_1 < least_B).repeat_interleave(share)
        ratings_RV[:, end].masked_fill_(early_R, float("-inf"))  # in place: nobody asks for what is forbidden
    if forced_R1 is not None and rated_R1 is not None:  # what is forced is said, whatever the rules are
        free_R1 = forced_R1 == NOTHING
        tokens_R1 = forced_R1.clamp(min=0)
        rated_R1 = torch.where(free_R1, ratings_RV.gather(1, tokens_R1), rated_R1)
        ratings_RV = ratings_RV.masked_fill(~free_R1, float("-inf")).scatter(1, tokens_R1, rated_R1)
    return ratings_RV


def top_extensions(
    logits_RV: Tensor, begun_BK: Tensor, n: int, live: SearchState, rules: Sequence[LogitsConstraint], end: int
) -> Extensions:
    """The ``n`` best extensions of every sentence's hypotheses, by log p; all rules only forbid.

    The logits are overwritten.
    """
    simple = live.bounds.prefix_BP is None and (not rules or (len(rules) == 1 and isinstance(rules[0], NoLoops)))
    if logits_RV.is_cuda and simple and n <= logits_RV.shape[1]:
        return _likeliest_on_gpu(logits_RV, begun_BK, n, live, rules, end)
    begun_BK = begun_BK - log_sums(logits_RV).view_as(begun_BK)
    rated_RV = apply_constraints(logits_RV, live, rules, end, in_place=True)
    if n == begun_BK.shape[1] == 1:
        tokens_B1 = rated_RV.argmax(-1, keepdim=True)
        return Extensions(begun_BK + rated_RV.gather(1, tokens_B1), torch.zeros_like(tokens_B1), tokens_B1)
    return best_extensions(rated_RV, begun_BK, n)


def _likeliest_on_gpu(
    logits_RV: Tensor, begun_BK: Tensor, n: int, live: SearchState, rules: Sequence[LogitsConstraint], end: int
) -> Extensions:
    from weft.kernels.triton.top_k import top_tokens

    loops = rules[0].settings if rules and isinstance(rules[0], NoLoops) else None
    values_RC, tokens_RC = top_tokens(
        logits_RV,
        n,
        end=end,
        said_RW=None if loops is None else live.said_RW,
        loops=loops or NoLoops().settings,
        least_B=live.bounds.least_B,
        time_1=live.time_1,
    )
    rows, size = begun_BK.shape
    if size == 1:
        return Extensions(begun_BK + values_RC, torch.zeros_like(tokens_RC), tokens_RC)
    all_BC = (begun_BK.reshape(-1, 1) + values_RC).view(rows, -1)
    ratings_BC, index_BC = all_BC.topk(n)
    return Extensions(ratings_BC, index_BC // n, tokens_RC.view(rows, -1).gather(1, index_BC))


class StepRecords(NamedTuple):
    """Some steps in a row that the same sentences were in."""

    sentences: Tensor
    """Which of the sentences that were given, (n,)."""
    records: Tree
    """What was done: tensors (T, n, …)."""


class StepLoop:
    """Takes the steps one after the other; done sentences leave the batch after every one."""

    def run(
        self, advance: Advance, live: SearchState, *, key: Hashable = None, looks: bool = False
    ) -> list[StepRecords]:
        """Until all are done: what was done.

        ``key``: what the step depends on beside ``live``, for a loop that keeps steps; ``looks``: whether attention
        weights are wanted.
        """
        steps: list[StepRecords] = []
        while len(live.sentences_B):
            sentences_B = live.sentences_B
            live, record = advance(live)
            steps.append(StepRecords(sentences_B, map_tree(lambda leaf: leaf[None], record)))
            if bool(live.done_B.any()):
                live = live.keep((~live.done_B).nonzero()[:, 0])
        return steps


def by_step(segments: Sequence[StepRecords], sentence: int) -> list[tuple[Any, tuple[int, int]]]:
    """For every step that a sentence was in: the records, and its place (step, row) in them."""
    found: list[tuple[Any, tuple[int, int]]] = []
    for sentences, records in segments:
        rows = (sentences == sentence).nonzero()[:, 0].tolist()
        if rows:
            found += [(records, (step, rows[0])) for step in range(len(next(leaves(records))))]
    return found
