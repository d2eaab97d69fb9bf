"""Updates on a GPU: batches filled up to one of a few shapes, the whole update replayed as a CUDA graph.

A ragged batch has no pads, but its size differs from the last one's, and with it the plans of every kernel; and a
recurrence is a thousand small kernels, each of which waits for Python. Here a batch is filled up with tokens that have
no loss, so that all have the same number of tokens; forward, backward, clipping and optimizer are recorded once and
then launched as one. Rows and their lengths vary: a graph is kept for each of a few counts and bounds. Where a run is
long enough to pay for it, a Transformer's layers are compiled too (one compilation for all layers of a side).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeGuard

import torch
from torch import Tensor

from weft.data.batching.batches import side_budgets
from weft.data.batching.prefetch import StepBatches
from weft.data.store.token_store import Batch, CorpusSize
from weft.models import AnyModel, Seq2Seq
from weft.models.recurrent import RecurrentStack
from weft.models.transformer import TransformerLayer
from weft.ragged import FixedLayout, Ragged
from weft.recipe import TrainingSettings
from weft.training.loss import NOTHING, output_cross_entropy
from weft.training.update import Measured, in_precision, read_later, tensor_float

EAGER = 3
"""Updates made one kernel after the other before anything is recorded."""


def can_pack(model: AnyModel, settings: TrainingSettings, device: torch.device) -> TypeGuard[Seq2Seq]:
    """Whether updates of this model can be recorded: no shape in them may depend on the lengths of a batch."""
    if device.type != "cuda" or settings.accumulate > 1 or settings.forcing != "teacher" or settings.optimizer == "sgd":
        return False
    return isinstance(model, Seq2Seq) and not getattr(model.encoder, "reverse_source", False)


class Frame(NamedTuple):
    """The shape that the batches of a corpus are filled up to."""

    source_tokens: int
    target_tokens: int
    max_source_length: int
    max_target_length: int
    row_step: int
    """Rows are filled up to a multiple of this."""
    bounds: Sequence[int]

    def key(self, batch: Batch) -> Key:
        """The graph that a batch belongs to."""
        source = bound(batch.source.layout.longest, self.max_source_length, self.bounds)
        target = bound(batch.target.layout.longest, self.max_target_length, self.bounds)
        needed = max(
            rows_needed(batch.source.lengths, self.source_tokens, source),
            rows_needed(batch.target.lengths, self.target_tokens, target),
        )
        return Key(math.ceil(needed / self.row_step) * self.row_step, source, target)


class Key(NamedTuple):
    """What differs from graph to graph."""

    rows: int
    max_source_length: int
    max_target_length: int


BOUNDS = {"transformer": (16, 32, 64, 128), "recurrent": (8, 16, 24, 32, 48, 64, 96, 128)}
"""Lengths that batches are bounded by: the tiles of the attention kernel, or few steps more than there are."""


def bound(longest: int, ever: int, bounds: Sequence[int]) -> int:
    """A bound on the lengths of a batch, one of a few, and never above the longest row of the corpus: so many positions
    a model has learned, but perhaps no more."""
    return min(next((size for size in bounds if longest <= size), ever), ever)


def rows_needed(lengths: Tensor, tokens: int, longest: int) -> int:
    """Rows of a batch once it is filled up to so many tokens with rows of at most ``longest``."""
    return len(lengths) + math.ceil((tokens - int(lengths.sum())) / longest)


def frame_of(corpus_size: CorpusSize, budget: int, *, recurrent: bool) -> Frame:
    """The shape for a corpus: a row longer than the budget is a batch of its own, and sets the shape."""
    longest = corpus_size.max_source_length, corpus_size.max_target_length
    tokens = [max(own, one) for own, one in zip(side_budgets(corpus_size, budget), longest, strict=True)]
    # A recurrence does its work for every row of the grid, attention for the rows there are.
    row_step, bounds = (64, BOUNDS["recurrent"]) if recurrent else (max(budget // 16, 16), BOUNDS["transformer"])
    return Frame(tokens[0], tokens[1], longest[0], longest[1], row_step, bounds)


class Side:
    """One side of a batch in memory that stays where it is; each new batch is copied into it."""

    def __init__(self, tokens: int, longest: int, rows: int, device: torch.device) -> None:
        self.tokens, self.longest, self.rows = tokens, longest, rows
        self.layout = FixedLayout(self._lengths(torch.zeros(0, dtype=torch.int64)), device, longest=longest)
        self.values = torch.zeros(tokens, dtype=torch.int64, device=device)

    def _lengths(self, lengths: Tensor) -> Tensor:
        """The lengths of a batch's rows, then of the rows that fill it up, then zeros."""
        missing = self.tokens - int(lengths.sum())
        whole, rest = divmod(missing, self.longest)
        fill = [self.longest] * whole + ([rest] if rest else [])
        zeros = self.rows - len(lengths) - len(fill)
        return torch.cat([lengths, torch.tensor(fill + [0] * zeros, dtype=torch.int64)])

    def take(self, batch: Ragged, filler: int) -> None:
        """Copy a batch here, filled up."""
        self.layout.assign(self._lengths(batch.lengths))
        self.values.copy_(filled(batch.values, self.tokens, filler).pin_memory(), non_blocking=True)

    def ragged(self) -> Ragged:
        return Ragged(self.values, self.layout)


def filled(values: Tensor, count: int, filler: int) -> Tensor:
    """Values and then fillers, ``count`` in all."""
    whole = torch.full((count,), filler, dtype=values.dtype)
    whole[: len(values)] = values
    return whole


class Recorded:
    """The memory of batches with one key and, once recorded, the graph that works on it."""

    def __init__(self, frame: Frame, key: Key, device: torch.device) -> None:
        self.source = Side(frame.source_tokens, key.max_source_length, key.rows, device)
        self.inputs = Side(frame.target_tokens, key.max_target_length, key.rows, device)
        self.targets = torch.zeros(frame.target_tokens, dtype=torch.int64, device=device)
        self.tokens = torch.ones((), device=device)
        self.graph: torch.cuda.CUDAGraph | None = None
        self.warm = False
        """Whether an update was made on it, so that everything it needs is compiled and chosen."""

    def take(self, batch: Batch, begin: int) -> None:
        self.source.take(batch.source, begin)
        self.inputs.take(batch.target.shifted(begin), begin)
        targets = filled(batch.target.values, len(self.targets), NOTHING)
        self.targets.copy_(targets.pin_memory(), non_blocking=True)
        self.tokens.fill_(batch.target.layout.total)


class CudaGraphUpdate:
    """Updates by CUDA graph; see the module."""

    def __init__(
        self,
        model: Seq2Seq,
        optimizer: torch.optim.Optimizer,
        settings: TrainingSettings,
        corpus_size: CorpusSize,
        *,
        begin: int,
        device: torch.device,
        precision: str,
        compiled: bool,
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.settings = settings
        self.begin = begin
        self.device = device
        self.precision = precision
        recurrent = any(isinstance(part, RecurrentStack) for part in model.modules())
        self.frame = frame_of(corpus_size, settings.batch_tokens, recurrent=recurrent)
        self.rate = torch.zeros((), device=device)
        self.measured = torch.zeros(2, device=device)
        self.recorded: dict[Key, Recorded] = {}
        self.places: list[int] = []
        self.made = 0
        self.stream = torch.cuda.Stream(device)
        self.pool = torch.cuda.graph_pool_handle()
        if compiled:
            for part in model.modules():
                if isinstance(part, TransformerLayer):
                    part.compile()

    def __call__(self, drawn: StepBatches, *, rate: float, own: float) -> Measured:
        [batch] = drawn.batches
        self._forget_if_moved()
        recorded = self._recorded(batch)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            recorded.take(batch, self.begin)
            self.rate.fill_(rate)
            if recorded.graph is not None:
                recorded.graph.replay()
            elif self.made < EAGER or not recorded.warm:
                self._update(recorded)
                recorded.warm = True
            else:
                self._record(recorded).replay()
            fetch = read_later(self.measured)
        torch.cuda.current_stream().wait_stream(self.stream)
        self.made += 1
        return Measured(fetch, later=True)

    def _forget_if_moved(self) -> None:
        """Drop all graphs if the weights lie elsewhere now: a graph works on the memory it was recorded with.

        PyTorch's recurrent modules move their weights whenever `Module.to` is called, even to where they are.
        """
        places = [parameter.data_ptr() for parameter in self.model.parameters()]
        if places != self.places:
            self.places = places
            self.recorded.clear()

    def _recorded(self, batch: Batch) -> Recorded:
        key = self.frame.key(batch)
        if key not in self.recorded:
            self.recorded[key] = found = Recorded(self.frame, key, self.device)
            for side in (found.source, found.inputs):
                torch._dynamo.maybe_mark_dynamic(side.layout.device_offsets, 0)
        return self.recorded[key]

    def _record(self, recorded: Recorded) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        self.optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize(self.device)
        with torch.cuda.graph(graph, pool=self.pool, stream=self.stream):
            self._update(recorded)
        recorded.graph = graph
        return graph

    def _update(self, recorded: Recorded) -> None:
        with tensor_float(self.precision == "tf32"):
            self._update_in_precision(recorded)

    def _update_in_precision(self, recorded: Recorded) -> None:
        """One update on what ``recorded`` holds; where it would spoil the weights, the optimizer leaves them alone."""
        self.optimizer.zero_grad(set_to_none=True)
        for group in self.optimizer.param_groups:  # not once for all: a restored optimizer has rates of its own
            group["lr"] = self.rate
        with in_precision(self.precision, self.device):
            states = self.model.hidden_states(recorded.source.ragged(), recorded.inputs.ragged()).states
            loss = output_cross_entropy(
                self.model.output, states.values, recorded.targets, smoothing=self.settings.label_smoothing
            )
        (loss.smoothed / recorded.tokens).backward()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip or math.inf, foreach=True)
        self.measured[0] = loss.negative_log_likelihood / recorded.tokens
        self.measured[1] = norm
        self.optimizer.found_inf = (~self.measured.isfinite().all()).float()  # type: ignore[attr-defined]
        self.optimizer.grad_scale = None  # type: ignore[attr-defined]
        self.optimizer.step()


def pays_to_compile(model: torch.nn.Module, settings: TrainingSettings) -> bool:
    """Whether a run is long enough for compilation: it takes half a minute and saves a quarter of the time."""
    parameters = sum(parameter.numel() for parameter in model.parameters())
    operations = 6.0 * parameters * settings.batch_tokens * settings.steps
    return operations / 150e12 > 240  # seconds at the rate of the layers as they are
