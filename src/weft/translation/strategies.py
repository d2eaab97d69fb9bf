"""The table of searches: what ``search.kind`` may name, on the command line and in Python alike.

A strategy is given a model, what it is to be asked (`SearchRequest`) and the settings; it gives hypotheses, best first.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from weft.errors import SearchError
from weft.evaluation.sentence_metrics import UTILITIES
from weft.recipe import SearchSettings
from weft.search import Hypothesis, Ranking, Sampler, SamplingFilter, SearchRequest, StepModel, beam, follow, greedy
from weft.search.constrained_beam import constrained_beam
from weft.search.constraints import BannedPhrases, LogitsConstraint, NoLoops, NoRepeatNgrams, RepetitionPenalty
from weft.search.exact import exact, exhaustive
from weft.translation.mbr import expected_utilities

NO_LOOPS = NoLoops()
Strategy = Callable[[StepModel, SearchRequest, SearchSettings], list[list[Hypothesis]]]


def _greedy(model: StepModel, asked: SearchRequest, settings: SearchSettings) -> list[list[Hypothesis]]:
    _one_only(asked, settings)
    return follow(model, asked.memory, asked.max_lengths, greedy, **_common(asked), **_steered(asked, settings))


def _sample(model: StepModel, asked: SearchRequest, settings: SearchSettings) -> list[list[Hypothesis]]:
    return _draw(model, asked, settings, asked.n_best)


def _draw(model: StepModel, asked: SearchRequest, settings: SearchSettings, paths: int) -> list[list[Hypothesis]]:
    cuts = SamplingFilter(
        temperature=settings.temperature,
        top_k=settings.top_k,
        top_p=settings.top_p,
        min_p=settings.min_p,
        typical=settings.typical,
    )
    choose = Sampler(cuts, seed=asked.seed if settings.seed is None else settings.seed)
    common = {**_common(asked), **_steered(asked, settings), "names": asked.rng_keys or None, "paths": paths}
    return follow(model, asked.memory, asked.max_lengths, choose, **common)


def _minimum_risk(model: StepModel, asked: SearchRequest, settings: SearchSettings) -> list[list[Hypothesis]]:
    """Draw many, take the one that agrees most with the others: its score is that agreement."""
    utility = UTILITIES[settings.utility]
    answers = []
    for found in _draw(model, replace(asked, return_trace=False), settings, max(settings.samples, asked.n_best)):
        texts = [asked.decode(one.tokens) for one in found]
        worth = expected_utilities(texts, utility)
        ranked = sorted(range(len(found)), key=lambda place: -worth[place])
        first: dict[str, int] = {}
        for place in ranked:
            first.setdefault(texts[place], place)
        answers.append([replace(found[place], score=worth[place]) for place in list(first.values())[: asked.n_best]])
    return answers


def _beam(model: StepModel, asked: SearchRequest, settings: SearchSettings) -> list[list[Hypothesis]]:
    size = max(settings.size, asked.n_best)
    if any(asked.required):
        _without(asked, settings, "search.required", stop="finished", groups=1)
        if any(asked.prefixes):
            raise SearchError("search.required: cannot be used with a forced prefix; require it as a phrase")
        if asked.return_trace:
            raise SearchError("search.required: a beam with required phrases keeps no trace")
        return constrained_beam(
            model,
            asked.memory,
            asked.max_lengths,
            **_common(asked),
            required=asked.required,
            size=size,
            ranking=_ranking(settings),
            n_best=asked.n_best,
            rules=_rules(asked, settings),
            minimums=asked.min_lengths or None,
            finish=settings.finish or None,
        )
    return beam(
        model,
        asked.memory,
        asked.max_lengths,
        **_common(asked),
        **_steered(asked, settings),
        size=-(-size // settings.groups) * settings.groups,
        finish=settings.finish or None,
        n_best=asked.n_best,
        stop=settings.stop,
        groups=settings.groups,
        diversity=settings.diversity,
    )


def _exact(model: StepModel, asked: SearchRequest, settings: SearchSettings) -> list[list[Hypothesis]]:
    _plain(asked, settings)
    quick = beam(
        model,
        asked.memory,
        asked.max_lengths,
        **_common(asked),
        ranking=_ranking(settings),
        n_best=asked.n_best,
        size=5,
    )
    ended = [[one.score for one in found if one.ended == "end"] for found in quick]
    start = [min(scores) if len(scores) >= asked.n_best else float("-inf") for scores in ended]
    found = exact(
        model,
        asked.memory,
        asked.max_lengths,
        **_common(asked),
        ranking=_ranking(settings),
        n_best=asked.n_best,
        max_nodes=settings.max_nodes,
        start=start,
    )
    return [ours if ours[0].proven else _better(ours, theirs) for ours, theirs in zip(found, quick, strict=True)]


def _better(ours: list[Hypothesis], theirs: list[Hypothesis]) -> list[Hypothesis]:
    """Where the exact search gave up, what a beam found may be better."""
    return max(ours, theirs, key=lambda found: (found[0].ended == "end", found[0].score))


def _exhaustive(model: StepModel, asked: SearchRequest, settings: SearchSettings) -> list[list[Hypothesis]]:
    _plain(asked, settings)
    return exhaustive(
        model,
        asked.memory,
        asked.max_lengths,
        **_common(asked),
        ranking=_ranking(settings),
        n_best=asked.n_best,
        max_space=settings.max_space,
    )


STRATEGIES: dict[str, Strategy] = {
    "greedy": _greedy,
    "beam": _beam,
    "sample": _sample,
    "mbr": _minimum_risk,
    "exact": _exact,
    "exhaustive": _exhaustive,
}


def search(model: StepModel, asked: SearchRequest, settings: SearchSettings) -> list[list[Hypothesis]]:
    """The hypotheses of every sentence, best first, by the strategy that the settings name."""
    return STRATEGIES[settings.kind](model, asked, settings)


def rng_key(ids: Sequence[int]) -> int:
    """A number for a sentence that depends on nothing but the sentence."""
    return zlib.crc32(" ".join(map(str, ids)).encode())


def _common(request: SearchRequest) -> dict[str, Any]:
    return {"begin": request.begin, "end": request.end, "weights": request.return_attention, "device": request.device}


def _ranking(settings: SearchSettings) -> Ranking:
    return Ranking(settings.normalization, settings.length_penalty, settings.coverage_penalty)


def _rules(asked: SearchRequest, settings: SearchSettings) -> list[LogitsConstraint]:
    rules: list[LogitsConstraint] = []
    if asked.banned:
        rules.append(BannedPhrases(asked.banned))
    if settings.no_repeat_ngram:
        rules.append(NoRepeatNgrams(settings.no_repeat_ngram))
    if settings.repetition_penalty != 1.0:
        rules.append(RepetitionPenalty(settings.repetition_penalty))
    if settings.no_loops and max(asked.max_lengths) >= 10:
        rules.append(NO_LOOPS)
    return rules


def _steered(asked: SearchRequest, settings: SearchSettings) -> dict[str, Any]:
    """What the searches take that go forward step by step."""
    return {
        "ranking": _ranking(settings),
        "rules": _rules(asked, settings),
        "least": asked.min_lengths or None,
        "prefixes": asked.prefixes or None,
        "trace": asked.return_trace,
        "loop": asked.loop,
    }


def _one_only(asked: SearchRequest, settings: SearchSettings) -> None:
    if asked.n_best > 1:
        raise SearchError(
            f"--n-best {asked.n_best}: {settings.kind} search finds one output; use search.kind = 'beam' or 'sample'"
        )


def _plain(asked: SearchRequest, settings: SearchSettings) -> None:
    """The exact searches judge the model itself: nothing may steer them."""
    _without(asked, settings, f"search.kind = '{settings.kind}'", no_repeat_ngram=0, repetition_penalty=1.0, banned=[])
    _without(asked, settings, f"search.kind = '{settings.kind}'", min_length=0, min_ratio=0.0, coverage_penalty=0.0)
    if any(asked.prefixes):
        raise SearchError(f"search.prefix: search.kind = '{settings.kind}' takes none; use beam")
    if asked.return_trace:
        raise SearchError(f"search.kind = '{settings.kind}' keeps no trace; use greedy, sample or beam")


def _without(asked: SearchRequest, settings: SearchSettings, what: str, **expected: object) -> None:
    for name, value in expected.items():
        if getattr(settings, name) != value:
            raise SearchError(f"search.{name}: cannot be used with {what}; leave it at {value!r}")
