"""Searches that follow a single path: greedy (argmax at every step) and sampling.

    greedy    y_t = argmax p(y | y_<t, x)
    sampling  y_t ~ p(y | y_<t, x), with a temperature and cut-offs (`SamplingFilter`), several paths a sentence on
    request

A draw depends on the seed, the sentence's own number, which of its paths it is, and the step: never on who else is in
the batch. A path's score is log p(y|x) by the ranking given; what rules and cut-offs did does not change it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from weft.search.backtrace import stack_weights
from weft.search.constraints import LogitsConstraint
from weft.search.interface import Hypothesis, StepModel
from weft.search.ranking import Ranking, coverage
from weft.search.sampling_filters import SamplingFilter, draw, uniforms
from weft.search.state import Limits, SearchState, StepLoop, StepRecords, apply_constraints, by_step, top_extensions
from weft.search.top_k import best
from weft.search.trace import Draw, PathTrace
from weft.tree import map_tree, repeat

TRACED = 12
"""Candidates of a step that a trace shows."""


class TokenChooser(Protocol):
    """How the next token is chosen."""

    def cut(self, ratings_RV: Tensor) -> Tensor:
        """The ratings that are left to choose from."""

    def take(self, ratings_RV: Tensor, names_R: Tensor, paths_R: Tensor, time_1: Tensor) -> Tensor:
        """The tokens said next, of what was left. ``names_R``: the sentences' own numbers."""


class Greedy:
    """The most likely token; of equals the one with the smallest id."""

    def cut(self, ratings_RV: Tensor) -> Tensor:
        return ratings_RV

    def take(self, ratings_RV: Tensor, names_R: Tensor, paths_R: Tensor, time_1: Tensor) -> Tensor:
        return ratings_RV.argmax(-1)


@dataclass(frozen=True)
class Sampler:
    """A choice by chance from what the cut-offs leave."""

    cuts: SamplingFilter = field(default_factory=SamplingFilter)
    seed: int = 1

    def cut(self, ratings_RV: Tensor) -> Tensor:
        return self.cuts(ratings_RV)

    def take(self, ratings_RV: Tensor, names_R: Tensor, paths_R: Tensor, time_1: Tensor) -> Tensor:
        return draw(ratings_RV, uniforms(self.seed, names_R, paths_R, time_1.expand_as(names_R)))


greedy = Greedy()


class PathStep(NamedTuple):
    """One step of all paths."""

    tokens_BK: Tensor
    logs_BK: Tensor
    going_BK: Tensor
    """Whether the path was still going, and had something to say."""
    weights_BKS: Tensor | None
    traced: _Traced | None


class _Traced(NamedTuple):
    tokens_BKC: Tensor
    probabilities_BKC: Tensor
    kept_BKC: Tensor
    mass_BK: Tensor
    count_BK: Tensor


class Paths(NamedTuple):
    """What is kept of every sentence between two steps."""

    going_BK: Tensor
    names_B: Tensor


@torch.no_grad()
def follow(
    model: StepModel,
    memory: Any,
    limits: Sequence[int],
    choose: TokenChooser,
    *,
    begin: int,
    end: int,
    paths: int = 1,
    ranking: Ranking = Ranking("none"),
    rules: Sequence[LogitsConstraint] = (),
    least: Sequence[int] | None = None,
    prefixes: Sequence[Sequence[int]] | None = None,
    names: Sequence[int] | None = None,
    weights: bool = False,
    trace: bool = False,
    device: torch.device | str = "cpu",
    loop: StepLoop | None = None,
) -> list[list[Hypothesis]]:
    """``paths`` hypotheses for every row, in the order they were drawn, each of at most ``limits[row]`` tokens.

    ``least``: tokens before a row may end; ``prefixes``: what a row must begin with; ``names``: the numbers that draws
    depend on (not given: the row's).
    """
    if not limits:
        return []
    rows = len(limits)
    watch = weights or bool(ranking.beta)
    quick = isinstance(choose, Greedy) and not trace and all(rule.forbids for rule in rules)

    def advance(live: SearchState) -> tuple[SearchState, PathStep]:
        known: Paths = live.found
        logits_RV, state, looked_RS = model.step(live.tokens_R, live.state, live.memory)
        shape = known.going_BK.shape
        traced = None
        if quick:
            found = top_extensions(
                logits_RV, logits_RV.new_zeros(len(logits_RV), 1, dtype=torch.float32), 1, live, rules, end
            )
            tokens_R, logs_R = found.tokens_BC[:, 0], found.ratings_BC[:, 0]
        else:
            log_RV = logits_RV.log_softmax(-1, dtype=torch.float32)
            left_RV = choose.cut(apply_constraints(log_RV, live, rules, end))
            paths_BK = torch.arange(shape[1], device=log_RV.device).expand(shape)
            names_R = known.names_B.repeat_interleave(shape[1])
            tokens_R = choose.take(left_RV, names_R, paths_BK.flatten(), live.time_1)
            logs_R = log_RV.gather(1, tokens_R[:, None])[:, 0]
            traced = _note(left_RV, log_RV, choose, tokens_R, shape) if trace else None
            logs_R = logs_R.masked_fill(left_RV.amax(-1).isneginf(), float("-inf"))
        tokens_BK = tokens_R.view(shape)
        could_BK = known.going_BK & ~logs_R.view(shape).isneginf()  # where nothing may be said, a path stops
        going_BK = could_BK & (tokens_BK != end) & (live.bounds.limit_B > live.time_1 + 1)[:, None]
        step = PathStep(
            tokens_BK,
            logs_R.view(shape),
            could_BK,
            looked_RS.view(*shape, -1) if looked_RS is not None and watch else None,
            traced,
        )
        after = live.take(state, None, tokens_R)
        return after._replace(found=Paths(going_BK, known.names_B), done_B=~going_BK.any(1)), step

    live = SearchState.begin(
        repeat(model.start(memory), paths) if paths > 1 else model.start(memory),
        memory,
        Limits.of(limits, least, prefixes, device=device),
        begin=begin,
        rows=paths,
        rules=rules,
        device=device,
    )
    going_BK = torch.ones(rows, paths, dtype=torch.bool, device=device)
    known = Paths(going_BK, torch.tensor(list(names or range(rows)), device=device))
    key = (model, choose, end, paths, tuple(rules), watch, trace)
    steps = (loop or StepLoop()).run(advance, live._replace(found=known), key=key, looks=watch)
    return _write_out(steps, limits, paths, end=end, ranking=ranking, weights=weights)


def _note(left_RV: Tensor, log_RV: Tensor, choose: TokenChooser, tokens_R: Tensor, shape: torch.Size) -> _Traced:
    """For a trace: the most likely candidates, the one that was taken among them."""
    temperature = choose.cuts.temperature if isinstance(choose, Sampler) else 1.0
    probabilities_RV = (log_RV / temperature).softmax(-1)
    kept_RV = ~left_RV.isneginf() if isinstance(choose, Sampler) else _only(left_RV, tokens_R)
    tokens_RC = best(log_RV, min(TRACED, log_RV.shape[1]))[1]
    missing_R = (tokens_RC != tokens_R[:, None]).all(1)
    tokens_RC[:, -1] = torch.where(missing_R, tokens_R, tokens_RC[:, -1])
    return _Traced(
        tokens_RC.view(*shape, -1),
        probabilities_RV.gather(1, tokens_RC).view(*shape, -1),
        kept_RV.gather(1, tokens_RC).view(*shape, -1),
        probabilities_RV.masked_fill(~kept_RV, 0.0).sum(1).view(shape),
        kept_RV.sum(1).view(shape),
    )


def _only(like_RV: Tensor, tokens_R: Tensor) -> Tensor:
    return torch.zeros_like(like_RV, dtype=torch.bool).scatter(1, tokens_R[:, None], True)


def _write_out(
    segments: Sequence[StepRecords], limits: Sequence[int], paths: int, *, end: int, ranking: Ranking, weights: bool
) -> list[list[Hypothesis]]:
    segments, rows = [map_tree(Tensor.cpu, segment) for segment in segments], len(limits)
    shape = (sum(len(segment.records.tokens_BK) for segment in segments), rows, paths)
    tokens, logs, going = np.zeros(shape, dtype=np.int64), np.zeros(shape), np.zeros(shape, dtype=bool)
    time = 0
    for sentences, step in segments:
        times = slice(time, time + len(step.tokens_BK))
        for column, values in zip((tokens, logs, going), step[:3], strict=True):
            column[times, sentences.numpy()] = values.numpy()
        time = times.stop
    lengths = going.sum(0)
    looked = segments[0].records.weights_BKS is not None
    answers: list[list[Hypothesis]] = []
    for row in range(rows):
        places = by_step(segments, row) if looked or segments[0].records.traced is not None else []
        found = []
        for path in range(paths):
            length = int(lengths[row, path])
            said, scores = tokens[:length, row, path].tolist(), logs[:length, row, path].tolist()
            looks = None
            if looked and length:
                looks = stack_weights([segment.weights_BKS[at][path].float() for segment, at in places[:length]])
            total = float(sum(scores))
            covered = 0.0 if looks is None or not ranking.beta else float(coverage(looks.sum(0)))
            ended = "end" if said and said[-1] == end else "length" if length == limits[row] else "constraints"
            found.append(
                Hypothesis(
                    tokens=said[:-1] if ended == "end" else said,
                    score=ranking.score(total, length, covered),
                    log_probability=total,
                    token_scores=scores,
                    ended=ended,
                    attention_TS=looks if weights else None,
                    trace=_trace(places[:length], path) if segments[0].records.traced is not None else None,
                )
            )
        answers.append(found)
    return answers


def _trace(places: Sequence[tuple[PathStep, tuple[int, int]]], path: int) -> PathTrace:
    draws = []
    for step, at in places:
        traced = step.traced
        assert traced is not None
        tokens = traced.tokens_BKC[at][path].tolist()
        draws.append(
            Draw(
                tokens=tokens,
                probabilities=traced.probabilities_BKC[at][path].tolist(),
                kept=traced.kept_BKC[at][path].tolist(),
                drawn=tokens.index(int(step.tokens_BK[at][path])),
                mass=float(traced.mass_BK[at][path]),
                left=int(traced.count_BK[at][path]),
            )
        )
    return PathTrace(draws)
