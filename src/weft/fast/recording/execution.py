"""An engine on a GPU: encoder, prompts and steps are CUDA graphs, and the next batch is encoded while one is searched.

Lengths are rounded up, so that fewer shapes occur and fewer graphs are recorded. Equal to
`weft.translation.engines.torch.Execution` up to rounding errors, and to `weft.search.loop.longest_output` up to a
multiple; tests/fast/recording/test_execution.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from threading import Event
from typing import TYPE_CHECKING, Any, cast

import torch

from weft.fast.overlap.prefetch import PrefetchingSearch
from weft.fast.recording.compilation import is_rehearsing
from weft.fast.recording.encoder import EncoderGraphs
from weft.fast.recording.prompts import PromptGraphs
from weft.fast.recording.search import CudaGraphLoop
from weft.fast.recording.search_rehearsal import SearchRehearsals
from weft.models.architecture import architecture_of
from weft.models.interface import Model
from weft.ragged import DeviceLayout, Layout, Ragged
from weft.search.loop import to_device
from weft.translation.engines.interface import TranslationRequest
from weft.translation.engines.torch import Execution, Searched, TorchEngine

if TYPE_CHECKING:
    from weft.models.prefix_lm import PrefixLM

HISTORY_MULTIPLE = 32
"""The history of short outputs has room for a multiple of this many tokens."""
SOURCE_MULTIPLE = 16
"""The longest source of a batch is rounded up to a multiple of this many tokens."""


def is_gpu_search(max_lengths: Sequence[int], device: torch.device) -> bool:
    return torch.device(device).type == "cuda"


def rounded_longest_output(max_lengths: Sequence[int], device: torch.device) -> int:
    """The most tokens of any output, rounded up to a multiple of `HISTORY_MULTIPLE`."""
    return round_up(max(max_lengths, default=0), HISTORY_MULTIPLE)


def round_up(length: int, multiple: int) -> int:
    return -(-length // multiple) * multiple


def is_on_gpu(model: Model, device: torch.device) -> bool:
    return device.type == "cuda"


def recorded_execution(model: Model, device: torch.device) -> RecordedExecution:
    """The execution of a model on a GPU, with graphs of its encoder or of its prompts where it has them."""
    described = architecture_of(model)
    encoder = prompts = None
    if described.is_plain and described.kind in ("seq2seq", "prefix_lm"):
        encoder = EncoderGraphs(model, device)
    if described.is_plain and described.kind == "language_model" and described.is_transformer:
        prompts = PromptGraphs(cast("PrefixLM", model))
    return RecordedExecution(model, CudaGraphLoop(device), encoder, prompts)


class RecordedExecution(Execution):
    """Replays the steps of a batch; the host encodes the next batch at the same time."""

    loop: CudaGraphLoop

    def __init__(
        self,
        model: Model,
        loop: CudaGraphLoop,
        encoder: EncoderGraphs | None = None,
        prompts: PromptGraphs | None = None,
    ) -> None:
        super().__init__(model, loop.device)
        self.loop = loop
        self.encoder = encoder
        self.prompts = prompts
        self.read_prompts = None if prompts is None else prompts.read
        self.architecture = architecture_of(model)
        self.rehearsals = SearchRehearsals(model, loop.device)

    def encode(self, batch: Ragged) -> Any:
        """The memory of sources, whose longest length is rounded up, so that fewer shapes occur."""
        longest = self._rounded_length(batch.layout.longest)
        if longest is None:
            return super().encode(batch)
        memory = None if self.encoder is None or is_rehearsing() else self.encoder.encode(batch, longest=longest)
        if memory is not None:
            return memory
        kind = DeviceLayout if self.device.type == "cuda" else Layout
        layout = kind(batch.lengths, self.device, longest=longest)
        return self.model.encode(Ragged(to_device(batch.values, self.device), layout))

    def _rounded_length(self, longest: int) -> int | None:
        """The longest length, rounded up; None: it is left as it is."""
        encoder = self.architecture.encoder
        unknown = self.architecture.edited or self.architecture.reads_arrays
        if not longest or encoder is None or encoder.family != "transformer" or unknown:
            return None
        longest, limit = round_up(longest, SOURCE_MULTIPLE), encoder.max_positions
        return None if limit is not None and longest > limit else longest

    def search(self, engine: TorchEngine, request: TranslationRequest) -> Iterator[Searched]:
        search = self.begin(engine, request)
        return super().search(engine, request) if search is None else search.results()

    def begin(self, engine: TorchEngine, request: TranslationRequest) -> PrefetchingSearch | None:
        """A search of batches that are encoded ahead; None where an observer sees every step."""
        if request.observer is not None:
            return None
        self.rehearsals.before(engine, request)
        return PrefetchingSearch(engine, self.loop, request)

    def idle_event(self) -> Event:
        return self.loop.idle

    def set_memory_limit(self, limit: int) -> None:
        self.loop.limit = limit

    def release(self) -> None:
        """Free all graphs with their buffers; searches to come capture new ones."""
        for recorder in (self.loop, self.encoder, self.prompts):
            if recorder is not None:
                with recorder.lock:
                    recorder.clear()
