"""Searching with PyTorch: any model, every strategy of `weft.translation.strategies`.

An engine divides a request into batches, encodes each, and searches it. How that is carried out is its `Execution`: the
plain one takes one batch after the other; `weft.fast` has others, for GPUs and for several cores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from threading import Event
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from weft.errors import SearchError
from weft.models.interface import Model
from weft.ragged import Layout, Ragged, budget_slices
from weft.runtime.activity import activity
from weft.runtime.devices import DividedWork, device_memory, release_memory
from weft.runtime.replaceable import replaceable
from weft.runtime.switches import allow_tf32
from weft.search.interface import Hypothesis, SearchRequest, StepModel
from weft.search.loop import to_device
from weft.text import specials
from weft.text.id_rows import IdRows
from weft.text.tokenizer import Tokenizer
from weft.translation.engines.batch_sizes import (
    SMALL_SEARCH,
    HypothesisCount,
    StepSize,
    fixed_batch_tokens,
    memory_limit,
    memory_slices,
    sentences_at_once,
)
from weft.translation.engines.interface import PreparableSearch, SearchedBatch, TranslationRequest
from weft.translation.strategies import rng_key, search
from weft.tree import Tree, leaves

if TYPE_CHECKING:
    from weft.recipe import SearchSettings
    from weft.search.loop import StepLoop

DETERMINISTIC = ("greedy", "beam", "exact", "exhaustive")
"""Searches that draw no random numbers."""
Rows = NDArray[np.int64]
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
        """``tokenizer``: the target's; ``seed``: for sampling, unless `search.seed` sets one."""
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
        self.step_size: StepSize | None = None
        """Measured before the first large search."""
        self.divided = DividedWork("search", self.release)
        self.applied_share: float | None = None
        """The value of `search.memory` by which the execution was limited."""
        self.measured_prompt = 0
        """The length of the prompt that it was measured with, if the sources are prompts."""

    def search(self, request: TranslationRequest) -> list[list[Hypothesis]]:
        results: list[list[Hypothesis]] = [[] for _ in request.sources]
        for batch in self.batches(request):
            for row, hypotheses in zip(batch.rows, batch.hypotheses, strict=True):
                results[row] = hypotheses
        return results

    def batches(self, request: TranslationRequest) -> Iterator[SearchedBatch]:
        """The results of each batch as soon as it was searched."""
        request = replace(request, sources=IdRows.of(request.sources))
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
        """The results of a request, whose progress is shown."""
        with activity("translating", "lines", total=len(request.sources)) as translating:
            for rows, hypotheses in results:
                yield SearchedBatch(rows, hypotheses)
                translating.done += len(rows)

    def begin(self, request: TranslationRequest) -> PreparableSearch | None:
        return self.execution.begin(self, replace(request, sources=IdRows.of(request.sources)))

    def idle_event(self) -> Event | None:
        return self.execution.idle_event()

    def parts(self, request: TranslationRequest) -> Iterator[Rows]:
        """The rows of each batch, or of parts of it that fit in memory."""
        self.divided.parts = 1  # other processes may have given memory back
        if self.device.type == "cuda" and request.settings.memory != self.applied_share:
            self.applied_share = request.settings.memory
            available = device_memory(self.device) or 0
            self.execution.set_memory_limit(memory_limit(request.settings, available) // 2)
        for rows in self._batches(request):
            size = self._rows_at_once(request.select(rows))
            yield from (rows[start : start + size] for start in range(0, len(rows), size))

    def _rows_at_once(self, request: TranslationRequest) -> int:
        """The number of rows of a batch that fit in memory: all of them, unless the search is large."""
        if (
            self._chooses_by_memory(request)
            or self._is_small(request)
            or request.settings.kind in ("exact", "exhaustive")
        ):
            return len(request.sources)
        lengths = request.max_lengths(self.model)
        return sentences_at_once(request, self._step_size(request), max_lengths=lengths, device=self.device)

    def _chooses_by_memory(self, request: TranslationRequest) -> bool:
        """Whether batches are as large as the memory of the device allows."""
        return request.settings.batch_tokens == "auto" and self.device.type == "cuda"

    def _is_small(self, request: TranslationRequest) -> bool:
        """Whether a search is so small that its memory need not be estimated."""
        hypotheses = HypothesisCount.of(request).number * len(request.sources)
        return hypotheses * (self.tokenizer.size + 1000) <= SMALL_SEARCH

    def _step_size(self, request: TranslationRequest) -> StepSize:
        """The bytes of a step, measured with the longest source of the first request that needs it.

        The state of a hypothesis contains its prompt: it is measured again for a longer one.
        """
        lengths = IdRows.of(request.sources).lengths_B
        longest = int(lengths.argmax())
        if self.step_size is None or (request.prompts and lengths[longest] > self.measured_prompt):
            model, memory = self._encode(request.select([longest]))
            with torch.no_grad():
                self.step_size = StepSize.measure(model, memory, request.start[-1], self.device)
            self.measured_prompt = int(lengths[longest])
        return self.step_size

    def _batches(self, request: TranslationRequest) -> Iterator[Rows]:
        """Rows to search together: of similar length, prompts of the same length."""
        budget = fixed_batch_tokens(request.settings)
        lengths = IdRows.of(request.sources).lengths_B
        orders = [np.argsort(lengths, kind="stable")]
        if request.prompts:
            orders = [np.flatnonzero(lengths == length) for length in np.unique(lengths)]
        for order in orders:
            if self._chooses_by_memory(request):
                slices = self._memory_slices(request.select(order))
            else:
                slices = budget_slices([lengths[order]], [budget])
            yield from (order[part] for part in slices)

    def _memory_slices(self, request: TranslationRequest) -> list[slice]:
        """Batches of sources that are sorted by length, chosen by the memory that is free."""
        if self._is_small(request) or (available := device_memory(self.device)) is None:
            return [slice(0, len(request.sources))] if request.sources else []
        limit = memory_limit(request.settings, available)
        self.execution.set_memory_limit(limit // 2)
        size, max_lengths = self._step_size(request), request.max_lengths(self.model)
        sentences_at_once(request, size, max_lengths=max_lengths, device=self.device)  # fails if it is none
        return memory_slices(request, size, max_lengths=max_lengths, limit=limit // 2)

    def _encode(self, request: TranslationRequest) -> tuple[StepModel, Any]:
        """The model to step, and the memory of the sources."""
        sources = IdRows.of(request.sources)
        ids, lengths = (torch.from_numpy(array.astype(np.int64)) for array in (sources.ids_N, sources.lengths_B))
        batch = Ragged(ids, Layout(lengths))
        with torch.no_grad(), self._tf32():
            if not request.prompts:
                return self._started(request.start), self.execution.encode(batch)
            from weft.models.prompted_lm import PromptedLM

            model = PromptedLM(self.model, specials.BEGIN, self.execution.read_prompts)
            return model, model.encode(to_device(ids, self.device).view(batch.rows, -1))

    def _started(self, start: tuple[int, ...]) -> StepModel:
        """The model after all but the last token of a start."""
        if len(start) == 1:
            return self.model
        from weft.translation.engines.torch import StartedModel

        return StartedModel(self.model, start[:-1])

    def search_rows(self, request: TranslationRequest, rows: Rows) -> Sequence[list[Hypothesis]]:
        """The hypotheses of some of the sources, searched together or, if memory is not enough, in parts."""

        def search(part: Rows) -> Sequence[list[Hypothesis]]:
            return self.search_prepared(self.prepare(request, part), request.settings)

        return self.divided.over_rows(search, rows)

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
        request = request.select(rows)
        settings, decoders = request.settings, request.decoders
        model, memory = self._encode(request)
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
            required=[self._phrases("required", settings.required)] * len(rows) if settings.required else (),
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
        """For a coverage penalty."""
        lengths: list[int] = IdRows.of(request.sources).lengths_B.tolist()
        if request.prompts or not any(lengths):
            raise SearchError("search.coverage_penalty: this model has no source to cover; set it to 0")
        return lengths

    def _loop(self, request: TranslationRequest) -> StepLoop | None:
        """The loop that takes the steps: a plain one if each step is observed."""
        if request.observer is not None:
            from weft.search.loop import ObservedLoop

            return ObservedLoop(request.observer)
        return self.execution.loop

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
