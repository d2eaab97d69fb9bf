"""Updates of a Transformer on a GPU: batches filled up to one shape, the whole update replayed as a CUDA graph.

A ragged batch has no pads, but its size differs from the last one's, and with it the plans of every kernel. Here a
batch is filled up with tokens that have no loss, so that all have the same number of tokens; forward, backward,
clipping and optimiser are recorded once and then launched as one. Rows vary: a graph is kept for each of a few counts.
Where a run is long enough to pay for it, the layers are compiled too (one compilation for all layers of a side).
"""

from __future__ import annotations

import math
from typing import NamedTuple, TypeGuard

import torch
from torch import Tensor

from weft.data.batches import budgets
from weft.data.store import Batch, PairStore
from weft.models import AnyModel, Seq2Seq
from weft.models.decoders import TransformerDecoder
from weft.models.encoders import TransformerEncoder
from weft.models.transformer import TransformerLayer, TransformerStack
from weft.ragged import Layout, Ragged
from weft.recipe import TrainingSettings
from weft.training.loss import NOTHING, output_cross_entropy
from weft.training.update import Measured, in_precision, read_later

EAGER = 3
"""Updates made one kernel after the other before anything is recorded."""


def can_pack(model: AnyModel, settings: TrainingSettings, device: torch.device, precision: str) -> TypeGuard[Seq2Seq]:
    """Whether updates of this model can be recorded: everything in them must be of a fixed shape."""
    if device.type != "cuda" or precision != "bf16" or settings.accumulate > 1 or settings.forcing != "teacher":
        return False
    if settings.optimiser == "sgd" or not isinstance(model, Seq2Seq):
        return False
    if not isinstance(model.encoder, TransformerEncoder) or not isinstance(model.decoder, TransformerDecoder):
        return False
    return all(_fixed(stack) for stack in (model.encoder.stack, model.decoder.stack))


def _fixed(stack: TransformerStack) -> bool:
    """Whether a stack's attention is the kernel for rows of unequal length, with nothing added to scores or weights."""
    return stack.relative is None and stack.shape.attention_dropout == 0.0


class Frame(NamedTuple):
    """The shape that batches are filled up to."""

    source_tokens: int
    target_tokens: int
    source_longest: int
    target_longest: int
    row_step: int
    """Rows are filled up to a multiple of this."""


def frame_of(pairs: PairStore, budget: int) -> Frame:
    """The shape for a corpus: a row longer than the budget is a batch of its own, and sets the shape."""
    longest = [int(side.lengths.max(initial=1)) for side in (pairs.source, pairs.target)]
    tokens = [max(own, one) for own, one in zip(budgets(pairs, budget), longest, strict=True)]
    return Frame(tokens[0], tokens[1], longest[0], longest[1], max(budget // 64, 16))


class Side:
    """One side of a batch in memory that stays where it is; each new batch is copied into it."""

    def __init__(self, tokens: int, longest: int, rows: int, device: torch.device) -> None:
        self.tokens, self.longest, self.rows = tokens, longest, rows
        self.layout = Layout(self._lengths(torch.zeros(0, dtype=torch.int64)), device, longest=longest)
        self.values = torch.zeros(tokens, dtype=torch.int64, device=device)
        for tensor in (self.layout.starts, self.layout.time):
            assert tensor.device == self.values.device

    def _lengths(self, lengths: Tensor) -> Tensor:
        """The lengths of a batch's rows, then of the rows that fill it up, then zeros."""
        missing = self.tokens - int(lengths.sum())
        whole, rest = divmod(missing, self.longest)
        fill = [self.longest] * whole + ([rest] if rest else [])
        zeros = self.rows - len(lengths) - len(fill)
        return torch.cat([lengths, torch.tensor(fill + [0] * zeros, dtype=torch.int64)])

    @staticmethod
    def rows_needed(lengths: Tensor, tokens: int, longest: int) -> int:
        return len(lengths) + math.ceil((tokens - int(lengths.sum())) / longest)

    def take(self, batch: Ragged, filler: int) -> None:
        """Copy a batch here, filled up."""
        layout = Layout(self._lengths(batch.lengths), longest=self.longest)
        for name in ("starts", "time"):
            getattr(self.layout, name).copy_(getattr(layout, name).pin_memory(), non_blocking=True)
        self.values.copy_(filled(batch.values, self.tokens, filler).pin_memory(), non_blocking=True)

    def ragged(self) -> Ragged:
        return Ragged(self.values, self.layout)


def filled(values: Tensor, count: int, filler: int) -> Tensor:
    """Values and then fillers, ``count`` in all."""
    whole = torch.full((count,), filler, dtype=values.dtype)
    whole[: len(values)] = values
    return whole


class Recorded:
    """The memory of batches with one count of rows and, once recorded, the graph that works on it."""

    def __init__(self, frame: Frame, rows: int, device: torch.device) -> None:
        self.source = Side(frame.source_tokens, frame.source_longest, rows, device)
        self.inputs = Side(frame.target_tokens, frame.target_longest, rows, device)
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


class PackedUpdate:
    """Updates by CUDA graph; see the module."""

    def __init__(
        self,
        model: Seq2Seq,
        optimiser: torch.optim.Optimizer,
        settings: TrainingSettings,
        pairs: PairStore,
        *,
        begin: int,
        device: torch.device,
        compiled: bool,
    ) -> None:
        self.model = model
        self.optimiser = optimiser
        self.settings = settings
        self.begin = begin
        self.device = device
        self.frame = frame_of(pairs, settings.batch_tokens)
        self.rate = torch.zeros((), device=device)
        self.measured = torch.zeros(2, device=device)
        for group in optimiser.param_groups:
            group["lr"] = self.rate
        self.recorded: dict[int, Recorded] = {}
        self.made = 0
        self.stream = torch.cuda.Stream(device)
        self.pool = torch.cuda.graph_pool_handle()
        if compiled:
            for part in model.modules():
                if isinstance(part, TransformerLayer):
                    part.compile()

    def __call__(self, batches: list[Batch], *, rate: float, own: float) -> Measured:
        [batch] = batches
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

    def _recorded(self, batch: Batch) -> Recorded:
        frame = self.frame
        needed = max(
            Side.rows_needed(batch.source.lengths, frame.source_tokens, frame.source_longest),
            Side.rows_needed(batch.target.lengths, frame.target_tokens, frame.target_longest),
        )
        rows = math.ceil(needed / frame.row_step) * frame.row_step
        if rows not in self.recorded:
            self.recorded[rows] = found = Recorded(frame, rows, self.device)
            for side in (found.source, found.inputs):
                torch._dynamo.maybe_mark_dynamic(side.layout.starts, 0)
        return self.recorded[rows]

    def _record(self, recorded: Recorded) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        self.optimiser.zero_grad(set_to_none=True)
        torch.cuda.synchronize(self.device)
        with torch.cuda.graph(graph, pool=self.pool, stream=self.stream):
            self._update(recorded)
        recorded.graph = graph
        return graph

    def _update(self, recorded: Recorded) -> None:
        """One update on what ``recorded`` holds; where it would spoil the weights, the optimiser leaves them alone."""
        self.optimiser.zero_grad(set_to_none=True)
        with in_precision("bf16", self.device):
            states = self.model.states(recorded.source.ragged(), recorded.inputs.ragged()).states
            loss = output_cross_entropy(
                self.model.output, states.values, recorded.targets, smoothing=self.settings.label_smoothing
            )
        (loss.smoothed / recorded.tokens).backward()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip or math.inf, foreach=True)
        self.measured[0] = loss.negative_log_likelihood / recorded.tokens
        self.measured[1] = norm
        self.optimiser.found_inf = (~self.measured.isfinite().all()).float()  # type: ignore[attr-defined]
        self.optimiser.grad_scale = None  # type: ignore[attr-defined]
        self.optimiser.step()


def pays_to_compile(model: torch.nn.Module, settings: TrainingSettings) -> bool:
    """Whether a run is long enough for compilation: it takes half a minute and saves a quarter of the time."""
    parameters = sum(parameter.numel() for parameter in model.parameters())
    operations = 6.0 * parameters * settings.batch_tokens * settings.steps
    return operations / 150e12 > 240  # seconds at the rate of the layers as they are
