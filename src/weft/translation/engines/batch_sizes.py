"""Batch sizes by the bytes that a search needs: a batch is made smaller, or a search refused, before they run out.

For K hypotheses of a sentence with S source tokens and at most T output tokens, a vocabulary of V and a model whose
state has s bytes after one token and g more for each further one, a search needs at most about

    K (24 V + 3 s + 2000)                          for one step: six arrays of scores, three copies of the state
  + K (T − 1) (3 g + 200 + 4 S [attention])        for what is kept of all steps

bytes (tests/translation/engines/test_batch_sizes.py compares it with what a search takes). Sentences are searched in
batches that need no more than `search.memory` allows; with ``search.batch_tokens`` = "auto", on a GPU, a batch may take
all of it but a sixteenth, which is for what is kept between batches. A search of one sentence whose first step alone
needs more than half of the available memory is refused; the rest depends on when its outputs end, so it is not refused
for that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from weft.errors import SearchError
from weft.ragged import budget_slices
from weft.recipe.search import SearchSettings
from weft.runtime.devices import device_memory, gigabytes
from weft.runtime.replaceable import replaceable
from weft.search.interface import StepModel
from weft.text.id_rows import IdRows
from weft.translation.engines.interface import TranslationRequest
from weft.tree import Tree, leaves

if TYPE_CHECKING:
    from weft.translation.engines.torch import TorchEngine

SMALL_SEARCH = 2**26
"""Hypotheses times vocabulary (and 1,000) up to which nothing is estimated: the scores of a step take 256 MB."""
SCORE_BYTES, STATE_COPIES, ROW_BYTES, RECORD_BYTES = 24, 3, 2000, 200
KEPT = 16
"""On a GPU, one part in so many of the memory of a search is for what is kept between batches."""
USABLE = 0.5
"""The part of the available memory that a search of one sentence may take."""
CPU_BATCH_TOKENS = 4_096
"""`search.batch_tokens` = "auto" on a CPU."""
BYTES_PER_STATE = 64
"""Bytes of a picture or of frames that count as much as a token: an encoder makes about one state of them."""
GPU_ARRAY_BYTES = 1 << 26
"""Bytes of pictures or frames that a GPU encodes together, at most."""
MAX_HYPOTHESES = 20_480
"""Hypotheses at a time beyond which a GPU searches no faster."""
Rows = NDArray[np.int64]


class HypothesisCount(NamedTuple):
    """The number of hypotheses of a sentence that are searched together, and the setting that it comes from."""

    number: int
    setting: str

    @classmethod
    def of(cls, request: TranslationRequest) -> HypothesisCount:
        settings, n_best = request.settings, request.n_best
        count, setting = {
            "beam": (settings.size, "search.size"),
            "mbr": (settings.samples, "search.samples"),
        }.get(settings.kind, (1, "n_best"))
        return cls(n_best, "n_best") if n_best > count else cls(count, setting)


class StepSize(NamedTuple):
    """The bytes that a step of a model takes for one hypothesis."""

    vocabulary: int
    state: int
    growth: int
    """Growth of the state per token."""
    logits: int = 0
    memory: int = 0
    """The encoder's output for a source, whose length is the next field."""
    source_length: int = 1

    @classmethod
    def measure(
        cls, model: StepModel, memory: Tree, begin: int, device: torch.device, *, source_length: int = 1
    ) -> StepSize:
        """From two steps of one hypothesis."""
        token = torch.full((1,), begin, device=device)
        logits, state, _ = model.step(token, model.start(memory), memory)
        first = _bytes(state)
        _, state, _ = model.step(token, state, memory)
        growth = max(_bytes(state) - first, 0)
        return cls(logits.shape[-1], first, growth, logits.nbytes, _bytes(memory), source_length)

    def one_step(self) -> int:
        return SCORE_BYTES * self.vocabulary + STATE_COPIES * self.state + ROW_BYTES

    def later_steps(self, *, length: int, source_length: int) -> int:
        """The bytes that all steps but the first keep; ``source_length``: 0 without attention."""
        return (length - 1) * (STATE_COPIES * self.growth + RECORD_BYTES + 4 * source_length)


def _bytes(tree: Tree) -> int:
    return sum(leaf.numel() * leaf.element_size() for leaf in leaves(tree))


def fixed_batch_tokens(settings: SearchSettings) -> int:
    """The token budget of a batch where memory plays no part: `search.batch_tokens`, or that of a CPU."""
    return CPU_BATCH_TOKENS if settings.batch_tokens == "auto" else settings.batch_tokens


def memory_limit(settings: SearchSettings, available: int) -> int:
    """The bytes that a search may take of those that are available: `search.memory`."""
    return int(available * settings.memory) if settings.memory <= 1 else min(int(settings.memory), available)


def memory_slices(
    request: TranslationRequest,
    size: StepSize,
    *,
    max_lengths: Sequence[int],
    limit: int,
    device: torch.device | str = "cpu",
) -> list[slice]:
    """Consecutive sentences, in the order of their lengths, in batches as large as ``limit`` bytes allow.

    The longest come first: what is kept of the first batch has room for the others. Never more than `MAX_HYPOTHESES` at
    a time, which is all that helps.
    """
    most = max(MAX_HYPOTHESES // HypothesisCount.of(request).number, 1)
    bytes_B = sentence_bytes(request, size, np.maximum.accumulate(np.array(max_lengths, dtype=np.int64)), device)
    slices: list[slice] = []
    stop = len(request.sources)
    while stop:
        fits = max(min(limit // int(bytes_B[stop - 1]), most), 1)
        start = max(stop - fitting_batch(fits, device), 0)
        slices.append(slice(start, stop))
        stop = start
    return slices


@replaceable
def sentence_bytes(
    request: TranslationRequest, size: StepSize, max_lengths_B: Rows, device: torch.device | str
) -> Rows:
    """(B,) the bytes that every sentence takes of a batch, of which this one is the longest."""
    width = _longest_source(request) if request.return_attention else 0
    later_B = (max_lengths_B - 1) * size.later_steps(length=2, source_length=width)
    return HypothesisCount.of(request).number * (size.one_step() + later_B)


@replaceable
def fitting_batch(most: int, device: torch.device | str) -> int:
    """The number of sentences in a batch of at most so many: as many."""
    return most


def _longest_source(request: TranslationRequest) -> int:
    sources = IdRows.of(request.sources)
    longest = int(sources.lengths_B.max(initial=0))
    return -(-longest // BYTES_PER_STATE) if sources.are_arrays else longest


def sentences_at_once(
    request: TranslationRequest, size: StepSize, *, max_lengths: Sequence[int], device: torch.device
) -> int:
    """The number of sentences of a request that fit in memory together; an error if it is none."""
    available = device_memory(device)
    if available is None:
        return len(request.sources)
    usable, (count, setting) = int(USABLE * available), HypothesisCount.of(request)
    if count * size.one_step() > usable:
        raise SearchError(
            f"{setting}: {count:,} hypotheses need about {gigabytes(count * size.one_step())} for a vocabulary of "
            f"{size.vocabulary:,}, and {gigabytes(usable)} may be used on {device}; at most "
            f"{usable // size.one_step():,} fit"
        )
    source_length = _longest_source(request) if request.return_attention else 0
    kept = size.later_steps(length=max(max_lengths, default=1), source_length=source_length)
    limit = memory_limit(request.settings, available)
    return max(limit // (count * (size.one_step() + kept)), 1)


class BatchPlanner:
    """Divides the requests of an engine into batches that fit in memory."""

    def __init__(self, engine: TorchEngine) -> None:
        self.engine = engine
        self.step_size: StepSize | None = None
        """Measured before the first large search."""
        self.measured_prompt = 0
        """The length of the prompt that it was measured with, if the sources are prompts."""
        self.applied_share: float | None = None
        """The value of `search.memory` by which the execution was limited."""

    def parts(self, request: TranslationRequest) -> Iterator[Rows]:
        """The rows of each batch, or of parts of it that fit in memory."""
        if self.engine.device.type == "cuda" and request.settings.memory != self.applied_share:
            self.applied_share = request.settings.memory
            available = device_memory(self.engine.device) or 0
            self.engine.execution.set_memory_limit(memory_limit(request.settings, available) // KEPT)
        if self._chooses_by_memory(request):
            yield from self._batches(request)
            return
        for rows in self._batches(request):
            size = self._rows_at_once(request.select(rows))
            yield from (rows[start : start + size] for start in range(0, len(rows), size))

    def _rows_at_once(self, request: TranslationRequest) -> int:
        """The number of rows of a batch that fit in memory: all of them, unless the search is large."""
        if self._is_small(request) or request.settings.kind in ("exact", "exhaustive"):
            return len(request.sources)
        lengths = request.max_lengths(self.engine.model)
        return sentences_at_once(request, self._step_size(request), max_lengths=lengths, device=self.engine.device)

    def _chooses_by_memory(self, request: TranslationRequest) -> bool:
        """Whether batches are as large as the memory of the device allows."""
        return request.settings.batch_tokens == "auto" and self.engine.device.type == "cuda"

    def _is_small(self, request: TranslationRequest) -> bool:
        """Whether a search is so small that its memory need not be estimated."""
        hypotheses = HypothesisCount.of(request).number * len(request.sources)
        return hypotheses * (self.engine.tokenizer.size + 1000) <= SMALL_SEARCH

    def _step_size(self, request: TranslationRequest) -> StepSize:
        """The bytes of a step, measured with the longest source of the first request that needs it.

        The state of a hypothesis contains its prompt: it is measured again for a longer one.
        """
        lengths = IdRows.of(request.sources).lengths_B
        longest = int(lengths.argmax())
        if self.step_size is None or (request.prompts and lengths[longest] > self.measured_prompt):
            model, memory = self.engine.encode(request.select([longest]))
            with torch.no_grad():
                self.step_size = StepSize.measure(
                    model, memory, request.start[-1], self.engine.device, source_length=int(lengths[longest])
                )
            self.measured_prompt = int(lengths[longest])
        return self.step_size

    def _batches(self, request: TranslationRequest) -> Iterator[Rows]:
        """Rows to search together: of similar length, prompts of the same length."""
        budget = fixed_batch_tokens(request.settings)
        sources = IdRows.of(request.sources)
        lengths, by_memory = sources.lengths_B, self._chooses_by_memory(request)
        if sources.are_arrays:
            budget, by_memory = GPU_ARRAY_BYTES if by_memory else BYTES_PER_STATE * budget, False
        orders = [np.argsort(lengths, kind="stable")]
        if request.prompts:
            orders = [np.flatnonzero(lengths == length) for length in np.unique(lengths)]
        for order in orders:
            if by_memory:
                slices = self._memory_slices(request.select(order))
            else:
                slices = budget_slices([lengths[order]], [budget])
            yield from (order[part] for part in slices)

    def _memory_slices(self, request: TranslationRequest) -> list[slice]:
        """Batches of sources that are sorted by length, chosen by the memory that is free."""
        if self._is_small(request) or (available := device_memory(self.engine.device)) is None:
            return [slice(0, len(request.sources))] if request.sources else []
        limit = memory_limit(request.settings, available)
        self.engine.execution.set_memory_limit(limit // KEPT)
        size, max_lengths = self._step_size(request), request.max_lengths(self.engine.model)
        sentences_at_once(request, size, max_lengths=max_lengths, device=self.engine.device)  # fails if it is none
        limit, device = limit - limit // KEPT, self.engine.device
        return memory_slices(request, size, max_lengths=max_lengths, limit=limit, device=device)
