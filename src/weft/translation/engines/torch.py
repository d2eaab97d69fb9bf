"""Searching with PyTorch: any model, every strategy of `weft.translation.strategies`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from threading import Event
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import nn

from weft.activity import activity
from weft.errors import SearchError
from weft.models.device import allow_tf32
from weft.models.interface import Model
from weft.ragged import DeviceLayout, Layout, Ragged, budget_slices
from weft.runs.size_limits import device_memory
from weft.search.interface import Hypothesis, SearchRequest, StepModel
from weft.search.transfers import to_device
from weft.text import specials
from weft.text.id_rows import IdRows
from weft.text.tokenizer import Tokenizer
from weft.translation.engines.interface import EngineRequest, SearchedBatch
from weft.translation.engines.search_memory import (
    SMALL_SEARCH,
    HypothesisCount,
    StepSize,
    fixed_batch_tokens,
    memory_slices,
    sentences_at_once,
)
from weft.translation.engines.search_threads import MIN_HYPOTHESES, Rows, search_in_threads, shares
from weft.translation.strategies import rng_key, search

if TYPE_CHECKING:
    from weft.recipe import SearchSettings
    from weft.search.cuda_graphs import CudaGraphLoop
    from weft.search.loop import StepLoop
    from weft.translation.engines.encoder_graphs import EncoderGraphs
    from weft.translation.engines.prompt_graphs import PromptGraphs
    from weft.translation.engines.search_ahead import SearchAhead

LENGTH_MULTIPLE = 16
"""With CUDA graphs the longest source of a batch is rounded up to a multiple of this, so that fewer shapes occur."""


DETERMINISTIC = ("greedy", "beam", "exact", "exhaustive")
"""Searches that draw no random numbers."""
Searched = tuple[Rows, Sequence[list[Hypothesis]]]
"""Rows of a request that were searched together, and their hypotheses."""


class PreparedBatch(NamedTuple):
    """Rows of a request whose sources have been encoded."""

    rows: Rows
    model: StepModel
    inputs: SearchRequest


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
        """``tokenizer``: the target's; ``seed``: of sampling, where `search.seed` does not set one."""
        self.device = torch.device(device)
        if isinstance(model, nn.Module):
            if any(tensor.device.type != self.device.type for tensor in model.parameters()):
                model.to(self.device)  # not in any case: `to` copies recurrent weights
            model.eval()
        self.model = model
        self.tokenizer = tokenizer
        self.precision = precision
        self.seed = seed
        modules = model.modules() if isinstance(model, nn.Module) else [model]
        self._is_own_code = all(type(module).__module__.split(".")[0] in ("weft", "torch") for module in modules)
        self.step_size: StepSize | None = None
        """Measured before the first large search."""
        self.measured_prompt = 0
        """The length of the prompt that it was measured with, if the sources are prompts."""
        self.loop: CudaGraphLoop | None = None
        self.encoder_graphs: EncoderGraphs | None = None
        self.prompt_graphs: PromptGraphs | None = None
        if self.device.type == "cuda":
            from weft.models.prefix_lm import PrefixLM
            from weft.models.seq2seq import Seq2Seq
            from weft.search.cuda_graphs import CudaGraphLoop
            from weft.translation.engines.encoder_graphs import EncoderGraphs

            self.loop = CudaGraphLoop(self.device)
            is_recorded = type(model) in (Seq2Seq, PrefixLM)
            self.encoder_graphs = EncoderGraphs(model, self.device) if is_recorded else None
            if type(model) is PrefixLM and model.source_embedding is None:
                from weft.translation.engines.prompt_graphs import PromptGraphs

                self.prompt_graphs = PromptGraphs(model)

    def search(self, request: EngineRequest) -> list[list[Hypothesis]]:
        results: list[list[Hypothesis]] = [[] for _ in request.sources]
        for batch in self.batches(request):
            for row, hypotheses in zip(batch.rows, batch.hypotheses, strict=True):
                results[row] = hypotheses
        return results

    @property
    def idle(self) -> Event | None:
        """Set while a search waits for the device; None where it does not."""
        return None if self.loop is None else self.loop.idle

    def begin(self, request: EngineRequest) -> SearchAhead | None:
        """A search whose first batch can be encoded before its turn; None where nothing is gained by that."""
        if self.loop is None or self._loop(request) is not self.loop:
            return None
        from weft.translation.engines.search_ahead import SearchAhead

        return SearchAhead(self, self.loop, request)

    def batches(
        self, request: EngineRequest, ahead: SearchAhead | None = None, at_end: Callable[[], None] | None = None
    ) -> Iterator[SearchedBatch]:
        """The results of each batch as soon as it was searched.

        ``ahead``: what `begin` has returned for the request; ``at_end``: see `SearchAhead.results`.
        """
        ahead = ahead or self.begin(request)
        with activity("translating", "lines", total=len(request.sources)) as translating:
            results = self._searched(request) if ahead is None else ahead.results(at_end)
            for rows, hypotheses in results:
                yield SearchedBatch(rows, hypotheses)
                translating.done += len(rows)

    def _searched(self, request: EngineRequest) -> Iterator[Searched]:
        """Without CUDA graphs: one batch after the other, or dealt out to threads."""
        request = replace(request, sources=IdRows.of(request.sources))
        threads, hypotheses = self._threads(request), HypothesisCount.of(request).number
        if threads == 1 or len(request.sources) * hypotheses < 2 * MIN_HYPOTHESES:
            yield from ((rows, self._search_batch(request, rows)) for rows in self.parts(request))
            return
        dealt_out = (shares(rows, hypotheses=hypotheses, threads=threads) for rows in self.parts(request))
        parts = itertools.chain.from_iterable(dealt_out)
        yield from search_in_threads(lambda rows: self._search_batch(request, rows), parts, threads=threads)

    def _threads(self, request: EngineRequest) -> int:
        """The number of threads that search; one if steps are observed, or a user's own code is called."""
        is_alone = request.observer is not None or request.decoders or request.settings.kind not in ("beam", "greedy")
        return 1 if is_alone or self.device.type != "cpu" or not self._is_own_code else torch.get_num_threads()

    def parts(self, request: EngineRequest) -> Iterator[Rows]:
        """The rows of each batch, or of parts of it that fit in memory."""
        for rows in self._batches(request):
            size = self._rows_at_once(request.select(rows))
            yield from (rows[start : start + size] for start in range(0, len(rows), size))

    def _rows_at_once(self, request: EngineRequest) -> int:
        """How many rows of a batch fit in memory: all of them, unless the search is large."""
        if (
            self._chooses_by_memory(request)
            or self._is_small(request)
            or request.settings.kind in ("exact", "exhaustive")
        ):
            return len(request.sources)
        lengths = request.max_lengths(self.model)
        return sentences_at_once(request, self._step_size(request), max_lengths=lengths, device=self.device)

    def _chooses_by_memory(self, request: EngineRequest) -> bool:
        """Whether batches are as large as the memory of the device allows."""
        return request.settings.batch_tokens == "auto" and self.device.type == "cuda"

    def _is_small(self, request: EngineRequest) -> bool:
        """Whether a search is so small that its memory need not be estimated."""
        hypotheses = HypothesisCount.of(request).number * len(request.sources)
        return hypotheses * (self.tokenizer.size + 1000) <= SMALL_SEARCH

    def _step_size(self, request: EngineRequest) -> StepSize:
        """What a step takes, measured with the longest source of the first request that needs it.

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

    def _batches(self, request: EngineRequest) -> Iterator[Rows]:
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

    def _memory_slices(self, request: EngineRequest) -> list[slice]:
        """Batches of sources that are sorted by length, chosen by the memory that is free."""
        if self._is_small(request) or (available := device_memory(self.device)) is None:
            return [slice(0, len(request.sources))] if request.sources else []
        size, max_lengths = self._step_size(request), request.max_lengths(self.model)
        sentences_at_once(request, size, max_lengths=max_lengths, device=self.device)  # fails if it is none
        return memory_slices(request, size, max_lengths=max_lengths, available=available)

    def _encode(self, request: EngineRequest) -> tuple[StepModel, Any]:
        """What steps are taken with: the model, and the memory of the sources."""
        sources = IdRows.of(request.sources)
        ids, lengths = (torch.from_numpy(array.astype(np.int64)) for array in (sources.ids_N, sources.lengths_B))
        batch = Ragged(ids, Layout(lengths))
        with torch.no_grad(), self._tf32():
            if not request.prompts:
                return self._started(request.start), self._encode_sources(batch)
            from weft.models.prompted_lm import PromptedLM

            read = None if self.prompt_graphs is None else self.prompt_graphs.read
            model = PromptedLM(self.model, specials.BEGIN, read)
            return model, model.encode(to_device(ids, self.device).view(batch.rows, -1))

    def _started(self, start: tuple[int, ...]) -> StepModel:
        """The model after all but the last token of a start."""
        if len(start) == 1:
            return self.model
        from weft.translation.engines.started_model import StartedModel

        return StartedModel(self.model, start[:-1])

    def _search_batch(self, request: EngineRequest, rows: Rows) -> Sequence[list[Hypothesis]]:
        return self.search_prepared(self.prepare(request, rows), request.settings)

    def search_prepared(self, batch: PreparedBatch, settings: SearchSettings) -> Sequence[list[Hypothesis]]:
        with self._tf32():
            return search(batch.model, batch.inputs, settings)

    def _tf32(self) -> AbstractContextManager[None]:
        return allow_tf32(self.precision == "tf32") if self.device.type == "cuda" else nullcontext()

    def prepare(self, request: EngineRequest, rows: Rows) -> PreparedBatch:
        """Encode some of the sources."""
        request = request.select(rows)
        settings, decoders = request.settings, request.decoders
        model, memory = self._encode(request)
        inputs = SearchRequest(
            memory=memory,
            begin=request.start[-1],
            end=specials.END,
            max_lengths=request.max_lengths(self.model),
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

    def _loop(self, request: EngineRequest) -> StepLoop | None:
        """The loop that takes the steps: the plain one if each step is observed or traced."""
        if request.observer is not None:
            from weft.search.loop import ObservedLoop

            return ObservedLoop(request.observer)
        return self.loop

    def _encode_sources(self, batch: Ragged) -> Any:
        """The memory of sources. With CUDA graphs their longest length is rounded up, so that fewer shapes occur."""
        longest = self._rounded_length(batch.layout.longest)
        if longest is None:
            return self.model.encode(batch.to(self.device))
        memory = None if self.encoder_graphs is None else self.encoder_graphs.encode(batch, longest=longest)
        if memory is not None:
            return memory
        kind = DeviceLayout if self.device.type == "cuda" else Layout
        layout = kind(batch.lengths, self.device, longest=longest)
        return self.model.encode(Ragged(to_device(batch.values, self.device), layout))

    def _rounded_length(self, longest: int) -> int | None:
        """What the longest length is rounded up to; None: it is not."""
        if self.loop is None:
            return None
        from weft.models.prefix_lm import PrefixLM
        from weft.models.transformer_encoder import TransformerEncoder

        reader = self.model if isinstance(self.model, PrefixLM) else getattr(self.model, "encoder", None)
        if not longest or not isinstance(reader, PrefixLM | TransformerEncoder):
            return None
        longest = -(-longest // LENGTH_MULTIPLE) * LENGTH_MULTIPLE
        limit = reader.stack.max_positions
        return None if limit is not None and longest > limit else longest

    def _phrases(self, setting: str, phrases: Sequence[str]) -> list[list[int]]:
        """Phrases as token ids."""
        encoded = [self.tokenizer.encode(phrase) for phrase in phrases]
        for phrase, ids in zip(phrases, encoded, strict=True):
            if specials.UNKNOWN in ids:
                raise SearchError(
                    f"search.{setting}: {phrase!r} has symbols that are not in this model's vocabulary; leave it out"
                )
        return encoded
