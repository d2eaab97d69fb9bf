"""CTranslate2 as an engine: the searches of a Transformer, in C++.

    greedy    y_t = argmax p(y | y_<t, x): the same as ours
    beam      the same policy as search/beam.py with its stop 'finished': 2k candidates a step, endings among the first
              k set aside, done when ``finish`` were. Ranked by log p(y|x) / |y|^α; the end mark is asked for, so that
              it counts in |y| as it does with us (by itself CTranslate2 leaves it out)
    sample    temperature, then top-k, then top-p, as ours; the numbers drawn are others

Where it cannot be ours to the letter:

    limits    A call has one limit. Rows are searched together under the largest of theirs, and those in which some
              hypothesis outgrew its own are searched again beside rows of the same limit: what does not reach the limit
              is the same under any larger one. Samples are grouped by limit from the start.
    endings   At the limit CTranslate2 ranks what was cut off with what had ended, and gives ``finish`` of them. Rows
              where that could hide an ending are searched again and give all, and endings come first, as ours do.
    loops     It has no such rule. A row in which something that was found loops is left empty, for our own search; of
              a beam, what was dropped on the way is not looked at.
    weights   are of one more pass: a beam mixes up the first row of a batch. So it has no coverage penalty either.
    rules     (no_repeat_ngram, repetition_penalty, least) change logits before the softmax, so that what is left is
              normalized again; ours change ratings after it. A beam's `score` is by what CTranslate2 used.
    α = 0     is given as 10⁻⁹, which divides by 1: at 0 a beam would stop as soon as its best hypothesis ends.

Rounding aside (1e-5 in float32), log p is ours.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from weft.errors import SearchError
from weft.interop.ctranslate2_weights import token_names
from weft.recipe import SearchSettings
from weft.search.constraints import NoLoops
from weft.search.interface import Hypothesis
from weft.text.specials import END, SPECIALS

ABOUT = "weft.json"
"""What an exported folder says of itself."""
FORMAT = 1
KINDS = ("greedy", "beam", "sample")
BATCH = 64
"""Sentences a batch on a CPU, where more gain nothing."""
BATCH_ON_GPU = 512
NO_PENALTY = 1e-9
SAID = {"kind", "size", "finish", "stop", "groups", "normalization", "length_penalty", "coverage_penalty", "no_loops"}
"""Settings that are told to CTranslate2, or looked at in `supports`."""
ELSEWHERE = {"max_length", "max_ratio", "max_extra", "replace_unknown", "batch_tokens", "engine", "compute_type"}
"""Settings that are the caller's: they are in the limits, or come after the search."""
OF_CHANCE = {"temperature", "top_k", "top_p", "min_p", "typical", "seed", "samples", "utility"}
OF_BEAMS = {"diversity"}
OF_PROOFS = {"max_space", "max_nodes"}


class About(NamedTuple):
    """What is known of an exported model."""

    source_size: int
    target_size: int
    quantization: str
    longest_source: int | None
    """None: any."""
    longest_target: int | None
    stamp: list[int] | None
    """Size and time of the run's model.safetensors; None where there was none."""

    @classmethod
    def read(cls, folder: Path) -> About | None:
        """None where the folder holds no export that this version wrote."""
        try:
            found = json.loads((folder / ABOUT).read_text("utf-8"))
            return cls(**found["about"]) if found["weft_ctranslate2"] == FORMAT else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def written(self) -> str:
        return json.dumps({"weft_ctranslate2": FORMAT, "about": self._asdict()}, indent=1) + "\n"


def supports(settings: SearchSettings, *, n_best: int = 1) -> str | None:
    """Why an engine would not find what our own search finds under these settings; None where it does.

    A setting that this file has never heard of counts against it as soon as it is not at its default.
    """
    if settings.kind == "sample":
        return "search.kind: 'sample' draws other numbers in CTranslate2: a seed gives other outputs"
    if settings.kind not in ("greedy", "beam"):
        return f"search.kind: {settings.kind!r} is not known to CTranslate2; it has greedy and beam"
    for name, field in type(settings).model_fields.items():
        value = getattr(settings, name)
        known = SAID | ELSEWHERE | OF_CHANCE | OF_BEAMS | OF_PROOFS
        if name not in known and value != field.get_default(call_default_factory=True):
            return f"search.{name}: {value!r} cannot be said to CTranslate2, or means something else there"
    if settings.normalization == "gnmt":
        return "search.normalization: 'gnmt' is not known to CTranslate2; it has 'power' and 'none'"
    if settings.kind == "greedy":
        return None if n_best == 1 else f"n_best: {n_best}; greedy search finds one output"
    if settings.stop != "finished":
        return f"search.stop: {settings.stop!r} is not known to CTranslate2; it has 'finished'"
    if settings.groups > 1:
        return f"search.groups: {settings.groups}; CTranslate2 has no diverse beam search"
    if settings.coverage_penalty:
        return "search.coverage_penalty: a beam of CTranslate2 mixes up the attention of a batch"
    if max(settings.size, n_best) == 1 and settings.finish > 1:
        return f"search.finish: {settings.finish}; a beam of 1 is greedy search in CTranslate2 and stops at 1"
    return None


def options_of(settings: SearchSettings) -> dict[str, Any]:
    """Settings that are supported as arguments of `Engine.search`."""
    return {
        "kind": settings.kind,
        "size": settings.size,
        "finish": settings.finish,
        "length_penalty": 0.0 if settings.normalization == "none" else settings.length_penalty,
        "coverage_penalty": settings.coverage_penalty,
        "no_loops": settings.no_loops,
    }


class _Asked(NamedTuple):
    """The rows of a search and what is asked of each."""

    sources: list[list[str]]
    limits: Sequence[int]
    least: Sequence[int]
    prefixes: list[list[str]] | None
    finish: int
    """Hypotheses that end the search of a row."""
    n_best: int


class Engine:
    """An exported model, loaded. ``threads`` workers of one thread each on a CPU: not given, one a core."""

    def __init__(
        self, folder: Path | str, *, device: str = "cpu", threads: int | None = None, compute_type: str = "default"
    ) -> None:
        self.folder = Path(folder)
        about = About.read(self.folder)
        if about is None:
            raise SearchError(
                f"{self.folder}: no CTranslate2 model of this weft; write one with `weft export RUN --to ctranslate2`"
            )
        self.about = about
        self.device, _, index = device.partition(":")
        self._index = int(index or 0)
        self.compute_type = compute_type
        self.threads = max(threads or _cores(), 1) if self.device == "cpu" else 1
        self._source_names = token_names(about.source_size)
        self._target_names = token_names(about.target_size)
        self._target_ids = {name: number for number, name in enumerate(self._target_names)}
        self._translator = self._load(self.threads)

    def _load(self, workers: int) -> Any:
        import ctranslate2

        try:
            return ctranslate2.Translator(
                str(self.folder),
                device=self.device,
                device_index=self._index,
                compute_type=self.compute_type,
                inter_threads=workers,
                intra_threads=1,
                max_queued_batches=-1,
            )
        except (RuntimeError, ValueError) as error:
            raise SearchError(f"{self.folder}: CTranslate2 cannot load it: {_line(error)}") from None

    def search(
        self,
        sources: Sequence[Sequence[int]],
        limits: Sequence[int],
        *,
        kind: str = "beam",
        size: int = 5,
        length_penalty: float = 1.0,
        coverage_penalty: float = 0.0,
        finish: int = 0,
        n_best: int = 1,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int | None = None,
        no_repeat_ngram: int = 0,
        repetition_penalty: float = 1.0,
        no_loops: bool = False,
        least: Sequence[int] | None = None,
        prefixes: Sequence[Sequence[int]] | None = None,
        token_scores: bool = False,
        weights: bool = False,
    ) -> list[list[Hypothesis]]:
        """The ``n_best`` hypotheses of every row, best first (samples: likeliest first), of at most ``limits[row]``.

        sources          ids as the model reads them: closed by the end mark
        length_penalty   α: `score` is log p / |y|^α, of greedy search and samples as well
        finish           beam: stop at so many finished; 0: as many as the beam holds
        seed             sample: with one, the same call gives the same outputs, on a single worker; without, chance
        no_loops         leave a row empty where a hypothesis says one phrase over and over: our own search steers clear
        least            tokens before a row may end
        prefixes         what a row must begin with (greedy and samples only)
        token_scores     fill `Hypothesis.token_scores`: one more pass of the model, over what was found
        weights          fill `Hypothesis.attention_TS`
        """
        self._check(
            sources,
            limits,
            kind=kind,
            size=max(size, n_best),
            coverage_penalty=coverage_penalty,
            prefixes=prefixes,
        )
        size, finish = (max(size, n_best), max(finish or size, n_best)) if kind == "beam" else (1, n_best)
        if kind == "beam" and size == 1 and finish > 1:
            raise SearchError(f"search.finish: {finish}; a beam of 1 is greedy search in CTranslate2 and stops at 1")
        if kind == "greedy" and n_best > 1:
            raise SearchError(f"n_best: {n_best}; greedy search finds one output")
        options: dict[str, Any] = {
            "beam_size": size,
            "length_penalty": length_penalty or NO_PENALTY,
            "coverage_penalty": coverage_penalty,
            "no_repeat_ngram_size": no_repeat_ngram,
            "repetition_penalty": repetition_penalty,
            "return_attention": size == 1 and (weights or coverage_penalty > 0),
            "return_scores": True,
            "return_end_token": True,
            "max_input_length": 0,
        }
        if kind == "sample":
            options |= {"sampling_topk": top_k, "sampling_topp": top_p, "sampling_temperature": temperature}
        asked = _Asked(
            sources=[list(map(self._source_names.__getitem__, source)) for source in sources],
            limits=limits,
            least=[0] * len(limits) if least is None else list(map(min, least, limits)),
            prefixes=None if prefixes is None else [list(map(self._target_names.__getitem__, one)) for one in prefixes],
            finish=finish,
            n_best=n_best,
        )
        found = self._found(asked, options, seed=seed if kind == "sample" else None, by_chance=kind == "sample")
        if no_loops:
            for row in _looping(found):
                found[row] = []
        best = [sorted(many, key=lambda one: (kind == "beam" and not one.ended, -one.score))[:n_best] for many in found]
        ruled = bool(no_repeat_ngram or repetition_penalty != 1.0 or any(asked.least) or prefixes)
        if weights and size > 1:
            best = self._looked(asked, best)
        logs = self._logs(asked, best) if token_scores or ruled or coverage_penalty else None

        def hypothesis(one: _Found, log_T: list[float] | None) -> Hypothesis:
            length = max(len(one.names), 1) ** length_penalty
            total = one.score * length if log_T is None else sum(log_T)
            return Hypothesis(
                tokens=list(map(self._target_ids.__getitem__, one.names[:-1] if one.ended else one.names)),
                score=total / length if ruled and kind != "beam" else one.score,
                log_probability=total,
                token_scores=log_T if log_T is not None and token_scores else [],
                ended="end" if one.ended else "length",
                attention_TS=torch.tensor(one.weights) if weights else None,
            )

        if logs is None:
            return [[hypothesis(one, None) for one in many] for many in best]
        return [[hypothesis(*pair) for pair in zip(*row, strict=True)] for row in zip(best, logs, strict=True)]

    def _check(
        self,
        sources: Sequence[Sequence[int]],
        limits: Sequence[int],
        *,
        kind: str,
        size: int,
        coverage_penalty: float,
        prefixes: Sequence[Sequence[int]] | None,
    ) -> None:
        if kind not in KINDS:
            raise SearchError(f"search.kind: {kind!r} is not known to CTranslate2; it has {', '.join(KINDS)}")
        if kind == "beam" and prefixes is not None:
            raise SearchError(
                "prefixes: a beam in CTranslate2 leaves a prefix out of its scores and ranks otherwise; "
                "use greedy search, or weft's own engine"
            )
        if kind == "beam" and coverage_penalty:
            raise SearchError(
                "search.coverage_penalty: a beam of CTranslate2 mixes up the attention of a batch; "
                "use weft's own engine"
            )
        if kind == "beam" and 2 * size > self.about.target_size:
            raise SearchError(
                f"search.size: {size}; in CTranslate2 a beam holds at most half the vocabulary, "
                f"here {self.about.target_size // 2}"
            )
        longest = max(map(len, sources), default=0)
        if self.about.longest_source is not None and longest > self.about.longest_source:
            raise SearchError(
                f"a source of {longest} tokens: {self.folder} has {self.about.longest_source} positions; "
                "shorten it, or use weft's own engine"
            )
        limit = max(limits, default=0)
        if self.about.longest_target is not None and limit > self.about.longest_target:
            raise SearchError(
                f"a limit of {limit} tokens: {self.folder} has {self.about.longest_target} positions; "
                "lower search.max_ratio or search.max_extra, or use weft's own engine"
            )

    def _found(
        self, asked: _Asked, options: dict[str, Any], *, seed: int | None, by_chance: bool
    ) -> list[list[_Found]]:
        """What CTranslate2 finds for every row, each within its own limit."""
        rows = range(len(asked.limits))
        size: int = options["beam_size"]
        translator = self._translator
        if seed is not None:  # a worker takes its seed once, when it draws for the first time
            import ctranslate2

            ctranslate2.set_random_seed(seed)
            translator = self._load(1)
        first = {**options, "num_hypotheses": asked.finish, "patience": asked.finish / size if size > 1 else 1.0}
        found = self._run(translator, rows, asked, first, one_limit=by_chance)
        again = [] if by_chance else [row for row in rows if _is_open(found[row], row, asked, size)]
        if again:  # they reach their limit before ``finish`` have ended, so to ask for more changes nothing else
            if size > 1:
                all_there_are = asked.finish + size
                first |= {"num_hypotheses": all_there_are, "patience": all_there_are / size}
            found |= self._run(translator, again, asked, first, one_limit=True)
        return [found[row] for row in rows]

    def _run(
        self, translator: Any, rows: Iterable[int], asked: _Asked, options: dict[str, Any], *, one_limit: bool
    ) -> dict[int, list[_Found]]:
        """The rows in batches of about one length, the longest first, so that no worker is left with them."""
        waiting: list[tuple[int, Any]] = []
        try:
            for part in self._parts(rows, asked, one_limit=one_limit):
                answers = translator.translate_batch(
                    [asked.sources[row] for row in part],
                    None if asked.prefixes is None else [asked.prefixes[row] for row in part],
                    max_decoding_length=max(asked.limits[row] for row in part),
                    min_decoding_length=asked.least[part[0]],
                    asynchronous=True,
                    **options,
                )
                waiting += zip(part, answers, strict=True)
            return {row: _read(answer.result()) for row, answer in waiting}
        except (RuntimeError, ValueError) as error:
            raise SearchError(f"{self.folder}: CTranslate2: {_line(error)}") from None

    def _parts(self, rows: Iterable[int], asked: _Asked, *, one_limit: bool) -> Iterator[list[int]]:
        def together(row: int) -> tuple[int, int]:
            return asked.least[row], asked.limits[row] if one_limit else 0

        order = sorted(rows, key=lambda row: (*together(row), len(asked.sources[row]), asked.limits[row]), reverse=True)
        most = BATCH if self.device == "cpu" else BATCH_ON_GPU
        size = max(min(most, -(-len(order) // self.threads)), 1)
        for _, group in groupby(order, together):
            alike = list(group)
            yield from (alike[first : first + size] for first in range(0, len(alike), size))

    def _logs(self, asked: _Asked, found: list[list[_Found]]) -> list[list[list[float]]]:
        """log p(y_t | y_<t, x) of what was found, the end mark's where it ended."""
        logs: list[list[list[float]]] = [[[] for _ in many] for many in found]
        waiting: list[tuple[_Place, Any]] = []
        for part in self._alike(asked, found):
            answers = self._translator.score_batch(
                [asked.sources[place.row] for place in part],
                [place.one.names[:-1] if place.one.ended else place.one.names for place in part],
                max_input_length=0,
                asynchronous=True,
            )
            waiting += zip(part, answers, strict=True)
        for place, answer in waiting:
            logs[place.row][place.rank] = answer.result().log_probs[: len(place.one.names)]
        return logs

    def _looked(self, asked: _Asked, found: list[list[_Found]]) -> list[list[_Found]]:
        """What was found, said once more one by one, with the weights.

        Those that a beam of CTranslate2 4.8 gives are not used: on a CPU the first row of every sentence but the first
        of a batch is another sentence's.
        """
        waiting: list[tuple[_Place, Any]] = []
        for part in self._alike(asked, found):
            answers = self._translator.translate_batch(
                [asked.sources[place.row] for place in part],
                [place.one.names for place in part],
                max_decoding_length=max(len(place.one.names) for place in part),
                beam_size=1,
                max_input_length=0,
                return_attention=True,
                return_end_token=True,
                asynchronous=True,
            )
            waiting += zip(part, answers, strict=True)
        looked = [list(many) for many in found]
        for place, answer in waiting:
            weights = answer.result().attention[0][: len(place.one.names)]
            looked[place.row][place.rank] = place.one._replace(weights=weights)
        return looked

    def _alike(self, asked: _Asked, found: list[list[_Found]]) -> Iterator[list[_Place]]:
        """All hypotheses in batches of about one length."""
        places = [_Place(row, rank, one) for row, many in enumerate(found) for rank, one in enumerate(many)]
        places.sort(key=lambda place: (len(place.one.names), len(asked.sources[place.row])), reverse=True)
        most = BATCH if self.device == "cpu" else BATCH_ON_GPU
        return (places[first : first + most] for first in range(0, len(places), most))


class _Found(NamedTuple):
    """One hypothesis, as CTranslate2 names it."""

    names: list[str]
    """The end mark among them, where it ended."""
    ended: bool
    score: float
    weights: list[list[float]] | None


class _Place(NamedTuple):
    row: int
    rank: int
    one: _Found


def _read(answer: Any) -> list[_Found]:
    names, weights = answer.hypotheses, answer.attention
    looked = weights or [None] * len(names)
    end = SPECIALS[END]
    return [
        _Found(said, bool(said) and said[-1] == end, score, seen)
        for said, score, seen in zip(names, answer.scores, looked, strict=True)
    ]


def _is_open(found: list[_Found], row: int, asked: _Asked, size: int) -> bool:
    """Whether a row must be searched again: one outgrew its limit, or was cut off and may hide one that ended."""
    if any(len(one.names) > asked.limits[row] for one in found):
        return True
    return size > 1 and sum(one.ended for one in found) < asked.n_best


def _looping(found: list[list[_Found]]) -> list[int]:
    """The rows in which a hypothesis has a run of period n ≤ 16 and that `NoLoops` stops."""
    longest, copies, tokens = NoLoops().settings
    places = [(row, one.names) for row, many in enumerate(found) for one in many if len(one.names) >= tokens]
    if not places:
        return []
    numbers: dict[str, int] = {}
    width = max(len(names) for _, names in places)
    said_RT = np.full((len(places), width), -1)
    for place, (_, names) in enumerate(places):
        said_RT[place, : len(names)] = [numbers.setdefault(name, len(numbers)) for name in names]
    loops_R = np.zeros(len(places), dtype=bool)
    for period in range(1, min(longest, width - 1) + 1):
        needed = max(copies * period, tokens) - period
        same_RT = (said_RT[:, period:] == said_RT[:, :-period]) & (said_RT[:, period:] >= 0)
        if same_RT.shape[1] >= needed:
            counts_RT = np.pad(same_RT.cumsum(1), ((0, 0), (1, 0)))
            loops_R |= (counts_RT[:, needed:] - counts_RT[:, :-needed] == needed).any(1)
    return sorted({places[place][0] for place in loops_R.nonzero()[0]})


def _cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _line(error: Exception) -> str:
    return str(error).strip().replace("\n", " ")
