"""Searching with PyTorch: any model, every strategy that `search.kind` can name.

An engine divides a request into batches, encodes each, and searches it. How that is carried out is its `Execution`: the
plain one takes one batch after the other; `weft.fast` has others, for GPUs and for several cores.

A strategy receives a model, a batch (`SearchRequest`) and the settings; it returns the hypotheses of every sentence,
best first. To add one: write such a function and add its line to `weft.recipe.choices.STRATEGIES`. Each imports its
algorithm when it is used, so that loading a run imports none of them.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cache
from itertools import starmap
from threading import Event
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from weft.errors import SearchError, option
from weft.models.interface import Model
from weft.ragged import Layout, Ragged
from weft.recipe.choices import STRATEGIES, resolve
from weft.recipe.search import SearchSettings
from weft.runtime.activity import activity, current_observer
from weft.runtime.devices import DividedWork, release_memory
from weft.runtime.replaceable import replaceable
from weft.runtime.switches import allow_tf32
from weft.search.constraints import make_constraints
from weft.search.interface import Hypothesis, SearchRequest, StepModel
from weft.search.loop import to_device
from weft.search.ranking import Ranking
from weft.text import specials
from weft.text.id_rows import IdRows
from weft.text.tokenizer import Tokenizer
from weft.translation.engines.batch_sizes import (
    SMALL_SEARCH,
    BatchPlanner,
    Rows,
)
from weft.translation.engines.interface import PreparableSearch, SearchedBatch, TranslationRequest
from weft.tree import Tree, leaves

if TYPE_CHECKING:
    from weft.search.loop import StepLoop

DETERMINISTIC = ("greedy", "beam", "exact", "exhaustive")
"""Searches that draw no random numbers."""
Strategy = Callable[[StepModel, SearchRequest, SearchSettings], Sequence[list[Hypothesis]]]
Searched = tuple[Rows, Sequence[list[Hypothesis]]]
"""Rows of a request that were searched together, and their hypotheses."""


class PreparedBatch(NamedTuple):
    """Rows of a request whose sources have been encoded."""

    rows: Rows
    model: StepModel
    inputs: SearchRequest


class Execution:
    """Carries out the searches of an engine: one batch after the other, every step a call of the model."""

    read_prompts: Callable[[Tensor, Any], Any] | None = None
    """Returns the state of a language model after prompts (B, M), given its memory; None: `PromptedLM` reads them."""
    loop: StepLoop | None = None
    """Takes the steps of searches; None: a plain loop."""

    def __init__(self, model: Model, device: torch.device) -> None:
        self.model = model
        self.device = device

    def encode(self, batch: Ragged) -> Any:
        """The memory of sources, which are on the CPU."""
        return self.model.encode(batch.to(self.device))

    def search(self, engine: TorchEngine, request: TranslationRequest) -> Iterator[Searched]:
        """The results of all batches of a request, as they come."""
        for rows in engine.parts(request):
            yield rows, engine.search_rows(request, rows)

    def begin(self, engine: TorchEngine, request: TranslationRequest) -> PreparableSearch | None:
        """See `OverlappingEngine`."""
        return None

    def idle_event(self) -> Event | None:
        """See `OverlappingEngine`."""
        return None

    def set_memory_limit(self, limit: int) -> None:
        """Keep at most this many bytes between two batches; a plain execution keeps none."""

    def release(self) -> None:
        """Free what is kept between two batches, and can be made again."""


@replaceable
def make_execution(model: Model, device: torch.device) -> Execution:
    """The plain execution of any model on any device."""
    return Execution(model, device)


class TorchEngine:
    """Searches a model in batches of sources of similar length."""

    name = "torch"

    def __init__(
        self,
        model: Model,
        tokenizer: Tokenizer,
        *,
        device: torch.device | str = "cpu",
        precision: str = "fp32",
        seed: int = 1,
    ) -> None:
        """``tokenizer``: the target's tokenizer; ``seed``: the seed of sampling, unless `search.seed` sets one."""
        self.device = torch.device(device)
        if isinstance(model, nn.Module):
            if any(tensor.device.type != self.device.type for tensor in model.parameters()):
                model.to(self.device)  # not in any case: `to` copies recurrent weights
            model.eval()
        self.model = model
        self.tokenizer = tokenizer
        self.precision = precision
        self.seed = seed
        self.execution = make_execution(model, self.device)
        self.planner = BatchPlanner(self)
        self.divided = DividedWork("search", self.release)

    def search(self, request: TranslationRequest) -> list[list[Hypothesis]]:
        results: list[list[Hypothesis]] = [[] for _ in request.sources]
        for batch in self.batches(request):
            for row, hypotheses in zip(batch.rows, batch.hypotheses, strict=True):
                results[row] = hypotheses
        return results

    def batches(self, request: TranslationRequest) -> Iterator[SearchedBatch]:
        """The results of each batch as soon as it was searched."""
        request = request.without_texts()
        results = self._search_one(request) if self._is_one_small(request) else self.execution.search(self, request)
        return self.report(request, results)

    def _is_one_small(self, request: TranslationRequest) -> bool:
        """Whether a request is a single source whose search is small whatever its kind, on a CPU: nothing is divided,
        nothing overlaps, and no memory is estimated."""
        most = max(request.settings.size, request.settings.samples, request.n_best)
        is_small = len(request.sources) == 1 and most * (self.tokenizer.size + 1000) <= SMALL_SEARCH
        return is_small and self.device.type == "cpu"

    def _search_one(self, request: TranslationRequest) -> Iterator[Searched]:
        rows = np.arange(len(request.sources))
        yield rows, self.search_rows(request, rows)

    def report(self, request: TranslationRequest, results: Iterator[Searched]) -> Iterator[SearchedBatch]:
        """The results of a request; their progress is shown to the observer, if there is one."""
        if current_observer.get() is None:
            return starmap(SearchedBatch, results)
        return self._observed(request, results)

    def _observed(self, request: TranslationRequest, results: Iterator[Searched]) -> Iterator[SearchedBatch]:
        with activity("translating", "lines", total=len(request.sources)) as translating:
            for rows, hypotheses in results:
                yield SearchedBatch(rows, hypotheses)
                translating.done += len(rows)

    def begin(self, request: TranslationRequest) -> PreparableSearch | None:
        return self.execution.begin(self, request.without_texts())

    def idle_event(self) -> Event | None:
        return self.execution.idle_event()

    def parts(self, request: TranslationRequest) -> Iterator[Rows]:
        """The rows of each batch, or of parts of it that fit in memory."""
        self.divided.parts = 1  # other processes may have given memory back
        yield from self.planner.parts(request)

    def encode(self, request: TranslationRequest) -> tuple[StepModel, Any]:
        """The model to step, and the memory of the sources."""
        sources = IdRows.of(request.sources)
        ids = torch.from_numpy(sources.ids_N if sources.are_arrays else sources.ids_N.astype(np.int64))
        batch = Ragged(ids, Layout(torch.from_numpy(sources.lengths_B.astype(np.int64))))
        with torch.no_grad(), self._tf32():
            if request.settings.ctc:
                from weft.models.ctc import joint_model

                joint = joint_model(self.model, request.settings.ctc)
                return self._started(request.start, joint), joint.encode(batch.to(self.device))
            if not request.prompts:
                return self._started(request.start, self.model), self.execution.encode(batch)
            from weft.models.prompted_lm import PromptedLM

            model = PromptedLM(self.model, specials.BEGIN, self.execution.read_prompts)
            return model, model.encode(to_device(ids, self.device).view(batch.rows, -1))

    def _started(self, start: tuple[int, ...], model: StepModel) -> StepModel:
        """A model after all but the last token of a start."""
        if len(start) == 1:
            return model
        from weft.translation.engines.torch import StartedModel

        return StartedModel(model, start[:-1])

    def search_rows(self, request: TranslationRequest, rows: Rows) -> Sequence[list[Hypothesis]]:
        """The hypotheses of some of the sources, searched together or, if memory is not enough, in parts."""

        def search(part: Rows) -> Sequence[list[Hypothesis]]:
            return self.search_prepared(self.prepare(request, part), request.settings)

        return search(rows) if len(rows) == 1 else self.divided.over_rows(search, rows)

    def release(self) -> None:
        """Give back memory that a search can do without."""
        self.execution.release()
        release_memory()

    def search_prepared(self, batch: PreparedBatch, settings: SearchSettings) -> Sequence[list[Hypothesis]]:
        with self._tf32():
            return search(batch.model, batch.inputs, settings)

    def _tf32(self) -> AbstractContextManager[None]:
        return allow_tf32(self.precision == "tf32") if self.device.type == "cuda" else nullcontext()

    def prepare(self, request: TranslationRequest, rows: Rows) -> PreparedBatch:
        """Encode some of the sources."""
        request = request.select(rows) if len(request.sources) > 1 else request
        settings, decoders = request.settings, request.decoders
        model, memory = self.encode(request)
        inputs = SearchRequest(
            memory=memory,
            begin=request.start[-1],
            end=specials.END,
            max_lengths=request.max_lengths(self.model),
            source_lengths=self._source_lengths(request) if settings.coverage_penalty else (),
            min_lengths=request.min_lengths(),
            prefixes=request.prefixes,
            rng_keys=[] if settings.kind in DETERMINISTIC else [rng_key(source) for source in request.sources],
            seed=self.seed,
            banned=[*self._phrases("banned", settings.banned), *settings.banned_ids],
            required=self._required(request),
            decode=lambda sentence, ids: (decoders[sentence] if decoders else self.tokenizer.decode)(ids),
            n_best=request.n_best,
            return_attention=request.return_attention,
            return_trace=request.return_trace,
            traced_candidates=request.traced_candidates,
            device=self.device,
            loop=self._loop(request),
        )
        return PreparedBatch(rows, model, inputs)

    def _source_lengths(self, request: TranslationRequest) -> list[int]:
        """Source lengths for a coverage penalty."""
        sources = IdRows.of(request.sources)
        if sources.are_arrays:
            raise SearchError("search.coverage_penalty: is for sources that are texts; set it to 0")
        lengths: list[int] = sources.lengths_B.tolist()
        if request.prompts or not any(lengths):
            raise SearchError("search.coverage_penalty: this model has no source to cover; set it to 0")
        return lengths

    def _loop(self, request: TranslationRequest) -> StepLoop | None:
        """The loop that takes the steps: a plain one if each step is observed."""
        if request.observer is not None:
            from weft.search.loop import ObservedLoop

            return ObservedLoop(request.observer)
        return self.execution.loop

    def _required(self, request: TranslationRequest) -> list[list[Sequence[Sequence[int]]]]:
        """The terms that the output of each source contains: those of the request, and the phrases of the settings."""
        phrases = [[phrase] for phrase in self._phrases("required", request.settings.required)]
        if not phrases and not request.required:
            return []
        return [[*terms, *phrases] for terms in request.required or [()] * len(request.sources)]

    def _phrases(self, setting: str, phrases: Sequence[str]) -> list[list[int]]:
        """Phrases as token ids."""
        encoded = [self.tokenizer.encode(phrase) for phrase in phrases]
        for phrase, ids in zip(phrases, encoded, strict=True):
            if specials.UNKNOWN in ids:
                raise SearchError(
                    f"search.{setting}: {phrase!r} has symbols that are not in this model's vocabulary; leave it out"
                )
        return encoded


@dataclass(frozen=True)
class StartedModel:
    """A model with a forced decoder prefix: its initial state is that after the given tokens."""

    model: StepModel
    tokens: tuple[int, ...]

    def start(self, memory: Any) -> Tree:
        state: Any = self.model.start(memory)
        first = next(leaves(state))
        for token in self.tokens:
            tokens_B = torch.full((len(first),), token, device=first.device)
            _, state, _ = self.model.step(tokens_B, state, memory)
        return state

    def step(self, tokens_R: Tensor, state: Any, memory: Any) -> tuple[Tensor, Any, Tensor | None]:
        return self.model.step(tokens_R, state, memory)


def search(model: StepModel, request: SearchRequest, settings: SearchSettings) -> Sequence[list[Hypothesis]]:
    """The hypotheses of every sentence, best first, by the strategy that `search.kind` names."""
    values = {**dict(settings), "banned": tuple(map(tuple, request.banned))}
    strategy = strategy_named(settings.kind)
    return strategy(model, replace(request, constraints=make_constraints(values)), settings)


@cache
def strategy_named(kind: str) -> Strategy:
    """The strategy of a ``search.kind``."""
    strategy: Strategy = resolve(STRATEGIES, kind)
    return strategy


def greedy(model: StepModel, request: SearchRequest, settings: SearchSettings) -> Sequence[list[Hypothesis]]:
    """The most likely token at every step."""
    if request.n_best > 1:
        raise SearchError(
            f"{option('n_best', request.n_best)}: greedy search finds one output; use search.kind = 'beam' or 'sample'"
        )
    if any(request.required):
        from weft.search.constrained_greedy import greedy_search_with_terms

        check_required(settings, request)
        return greedy_search_with_terms(model, request, ranking_of(settings))
    from weft.search.sampling import greedy_search

    return greedy_search(model, request, ranking_of(settings))


def sampling(model: StepModel, request: SearchRequest, settings: SearchSettings) -> Sequence[list[Hypothesis]]:
    """Random tokens, by their probabilities."""
    from weft.search.sampling import Sampler, sample
    from weft.search.sampling_filters import SamplingFilter

    filters = SamplingFilter(
        temperature=settings.temperature,
        top_k=settings.top_k,
        top_p=settings.top_p,
        min_p=settings.min_p,
        typical=settings.typical,
    )
    sampler = Sampler(filters, seed=request.seed if settings.seed is None else settings.seed)
    return sample(model, request, sampler, ranking_of(settings))


def beam(model: StepModel, request: SearchRequest, settings: SearchSettings) -> Sequence[list[Hypothesis]]:
    """Several hypotheses side by side; with required phrases, all of which contain them."""
    from weft.search.beam import BeamOptions, beam_search

    size = max(settings.size, request.n_best)
    options = BeamOptions(
        size=-(-size // settings.groups) * settings.groups,
        ranking=ranking_of(settings),
        stop=settings.stop or BeamOptions.stop,
        finish=settings.finish,
        groups=settings.groups,
        diversity=settings.diversity,
    )
    if any(request.required):
        refuse(settings, "search.required", groups=1)
        check_required(settings, request)
    return beam_search(model, request, options)


def check_required(settings: SearchSettings, request: SearchRequest) -> None:
    """Fail on what a search with required terms cannot do."""
    if any(request.prefixes):
        raise SearchError("search.required: cannot be used with a forced prefix; require it as a phrase")
    if request.return_trace:
        raise SearchError("search.required: a beam with required phrases keeps no trace")


def ranking_of(settings: SearchSettings) -> Ranking:
    """The ranking of hypotheses."""
    return Ranking(settings.normalization, settings.length_penalty, settings.coverage_penalty)


def rng_key(ids: Sequence[int]) -> int:
    """A number for a sentence that depends on nothing but its ids."""
    return zlib.crc32(" ".join(map(str, ids)).encode())


def refuse(settings: SearchSettings, other: str, **expected: object) -> None:
    """Refuse settings that are not at the expected value."""
    for name, value in expected.items():
        if getattr(settings, name) != value:
            raise SearchError(f"search.{name}: cannot be used with {other}; leave it at {value!r}")
