"""Updates on a GPU: batches padded to one of a few shapes, the whole update replayed as a CUDA graph.

A ragged batch has no padding, but every batch has another size, so that every kernel is planned anew; and a recurrence
is a thousand small kernels, each launched from Python. Here batches are padded with tokens that have no loss to a fixed
number of tokens; forward, backward, clipping and optimizer step are captured once and then replayed as one launch. The
number of rows and their maximum length vary: there is one graph for each of a few combinations. If a run is long enough
to pay for it, layers of a Transformer that have no kernels in weft are compiled too, once for all layers of a side.
Pictures are filled up in the same way (`weft.fast.updating.static_pictures`).

The result equals that of `PlainUpdate`: tests/contracts/test_gpu.py.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from weft.data.batching.batches import StepBatches, side_budgets
from weft.data.store.token_store import Batch, CorpusSize
from weft.errors import is_out_of_memory, warn
from weft.fast import load_versions
from weft.fast.layers.layer_kernels import half_weights, is_trained_linear
from weft.fast.layers.transformer import has_kernels
from weft.fast.recording.compilation import Rehearsals, compiles_ahead, rehearse, wait_for_preparation
from weft.fast.recording.recorder import Recorder
from weft.fast.torch_private import maybe_mark_dynamic
from weft.fast.updating.static_pictures import PictureKey, PictureShape, captured_stem
from weft.fast.updating.static_sides import StaticSide, bucket_length, pad, padded_rows
from weft.models.architecture import architecture_of
from weft.models.interface import HasOutputLayer, HasTargetLogProbabilities, Model
from weft.models.recurrent import has_recurrence
from weft.models.transformer import TransformerLayer, transformer_stacks
from weft.recipe import TrainingSettings
from weft.runtime.switches import allow_tf32
from weft.training.consistency import consistency_loss
from weft.training.loss import IGNORE_INDEX, Loss, forced_pass
from weft.training.update import PlainUpdate, TrainingContext, UpdateResult, UpdateStatistics, autocast

WARMUP_UPDATES = 3
"""Updates of a run before any graph is captured."""
LENGTH_BUCKETS = {"transformer": (16, 32, 64, 128), "recurrent": (8, 16, 24, 32, 48, 64, 96, 128)}
"""Maximum lengths of padded batches: the tile sizes of the attention kernel, or a few steps more than needed."""
RECURRENT_ROW_MULTIPLE = 64
"""A recurrence computes every row of a batch, attention only the tokens: so its rows are rounded up less."""
TRANSFORMER_ROW_GROUPS, MIN_ROW_MULTIPLE = 16, 16
"""A Transformer's rows are rounded up to this fraction of the token budget, but at least to the multiple."""
REHEARSAL_SECONDS = 6.0
"""Time after which no further shape is rehearsed: what is missing is compiled when it is needed."""
EAGER_FLOPS, COMPILE_SECONDS = 150e12, 240
"""Compilation pays if training without it, at this many operations a second, would take longer than these seconds."""


def is_captured(
    model: Model, optimizer: torch.optim.Optimizer, context: TrainingContext, corpus_size: CorpusSize
) -> bool:
    """Whether the updates of a run are captured."""
    return context.workers.world_size == 1 and can_capture(model, context.settings, context.device)


def can_capture(model: Model, settings: TrainingSettings, device: torch.device) -> bool:
    """Whether updates can be captured: no shape in them may depend on the lengths of a batch."""
    if device.type != "cuda" or settings.accumulate > 1 or settings.forcing != "teacher" or settings.optimizer == "sgd":
        return False
    if settings.distillation:  # a teacher's forward pass has other shapes
        return False
    if not isinstance(model, HasOutputLayer | HasTargetLogProbabilities):
        return False
    return architecture_of(model).fixed_shapes or (captured_stem(model) is not None and not settings.coverage_loss)


def layers_to_compile(model: Model, settings: TrainingSettings) -> list[TransformerLayer]:
    """The layers that gain from compilation: those without weft's own kernels."""
    uses_kernels = settings.precision in ("auto", "bf16")
    stacks = [stack for stack in transformer_stacks(model) if not (uses_kernels and has_kernels(stack))]
    return [layer for stack in stacks for layer in stack.layers]


def linear_weights(model: Model) -> list[Tensor]:
    """Weights and biases of the linear maps in layers with kernels."""
    layers = [layer for stack in transformer_stacks(model) if has_kernels(stack) for layer in stack.layers]
    linears = [module for layer in layers for module in layer.modules() if is_trained_linear(module)]
    return [parameter for linear in linears for parameter in linear.parameters()]


def should_compile(model: Model, settings: TrainingSettings) -> bool:
    """Whether to compile; "auto" does so for long runs: it takes half a minute and saves a quarter of the time."""
    if settings.compile != "auto":
        return settings.compile == "on"
    if not layers_to_compile(model, settings):
        return False
    parameters = sum(parameter.numel() for parameter in model.parameters())
    operations = 6.0 * parameters * settings.batch_tokens * settings.steps
    return operations / EAGER_FLOPS > COMPILE_SECONDS


def is_undecided(settings: TrainingSettings, model: Model, device: torch.device, seconds: float) -> bool:
    """Whether ``compile`` is "auto", and could be decided otherwise once there are fewer steps."""
    return settings.compile == "auto" and can_capture(model, settings, device)


def decide_compilation(
    settings: TrainingSettings, model: Model, device: torch.device, seconds: float
) -> TrainingSettings:
    """The settings of a run of at most ``seconds`` with ``compile`` decided by the steps it has now."""
    pays = should_compile(model, settings) and seconds > COMPILE_SECONDS
    return settings.model_copy(update={"compile": "on" if pays else "off"})


class GraphKey(NamedTuple):
    """The sizes in which one graph differs from another."""

    rows: int
    max_source_length: int
    max_target_length: int


class StaticShape(NamedTuple):
    """The size to which the batches of a corpus are padded."""

    source_tokens: int
    target_tokens: int
    max_source_length: int
    max_target_length: int
    row_multiple: int
    """The number of rows is rounded up to a multiple of this."""
    length_buckets: Sequence[int]

    def key(self, batch: Batch) -> GraphKey:
        """The graph of a batch."""
        source_length = bucket_length(batch.source.layout.longest, self.max_source_length, self.length_buckets)
        target_length = bucket_length(batch.target.layout.longest, self.max_target_length, self.length_buckets)
        rows = max(
            padded_rows(batch.source.lengths, self.source_tokens, source_length),
            padded_rows(batch.target.lengths, self.target_tokens, target_length),
        )
        return self._rounded(rows, source_length, target_length)

    def _rounded(self, rows: int, source_length: int, target_length: int) -> GraphKey:
        return GraphKey(math.ceil(rows / self.row_multiple) * self.row_multiple, source_length, target_length)

    def source_side(self, key: GraphKey, device: torch.device) -> StaticSide:
        """Static memory for the sources of a key."""
        return StaticSide(self.source_tokens, key.max_source_length, key.rows, device)

    def likely_keys(self) -> list[GraphKey]:
        """Keys that need all kernels that the batches of a corpus are likely to need: of rows full of padding.

        The sides of a batch have similar lengths. Which kernels a recurrence needs depends on either length alone.
        """
        sources, targets = (
            self._likely_lengths(longest) for longest in (self.max_source_length, self.max_target_length)
        )
        few = min(len(sources), len(targets))
        apart = 0 if self.length_buckets is LENGTH_BUCKETS["recurrent"] else 1
        pairs = [(s, t) for s in range(len(sources)) for t in range(len(targets)) if abs(s - t) <= apart or few == 1]
        keys = []
        for source, target in pairs:
            lengths = sources[source], targets[target]
            rows = max(
                padded_rows(torch.zeros(0, dtype=torch.int64), tokens, length)
                for tokens, length in zip((self.source_tokens, self.target_tokens), lengths, strict=True)
            )
            keys.append(self._rounded(rows, *lengths))
        return keys

    def _likely_lengths(self, longest: int) -> list[int]:
        """The lengths of buckets that rows of at most ``longest`` tokens may need."""
        below = [bucket for bucket in self.length_buckets if bucket < longest]
        return [*below, bucket_length(longest, longest, self.length_buckets)]


def static_shape(corpus_size: CorpusSize, batch_tokens: int, *, recurrent: bool) -> StaticShape:
    """The padded size for a corpus; a row longer than the token budget is a separate batch, and determines it."""
    lengths = corpus_size.max_source_length, corpus_size.max_target_length
    source_tokens, target_tokens = map(max, side_budgets(corpus_size, batch_tokens), lengths)
    if corpus_size.pairs and not corpus_size.source_tokens:  # of a language model
        lengths, source_tokens = (0, corpus_size.max_target_length), 0
    if recurrent:
        row_multiple, buckets = RECURRENT_ROW_MULTIPLE, LENGTH_BUCKETS["recurrent"]
    else:
        row_multiple = max(batch_tokens // TRANSFORMER_ROW_GROUPS, MIN_ROW_MULTIPLE)
        buckets = LENGTH_BUCKETS["transformer"]
    return StaticShape(source_tokens, target_tokens, *lengths, row_multiple, buckets)


def static_shape_of(model: Model, corpus_size: CorpusSize, batch_tokens: int) -> Any:
    """The `StaticShape` of a corpus or, of pictures, the `PictureShape`."""
    stem = captured_stem(model)
    if stem is not None:
        return PictureShape(stem, corpus_size, batch_tokens)
    return static_shape(corpus_size, batch_tokens, recurrent=has_recurrence(model))


class CapturedUpdate:
    """Static memory for the batches of one key and, once captured, the graph that works on it."""

    def __init__(self, update: CudaGraphUpdate, key: GraphKey | PictureKey) -> None:
        shape, device = update.shape, update.device
        self.source = shape.source_side(key, device)
        self.inputs = StaticSide(shape.target_tokens, key.max_target_length, key.rows, device)
        self.targets = torch.zeros(shape.target_tokens, dtype=torch.int64, device=device)
        self.target_tokens = torch.ones((), device=device)
        self.graph: torch.cuda.CUDAGraph | None = None
        self.warmed_up = False
        """Whether an update was made on it, so that every kernel it needs is compiled and selected."""
        for side in (self.source, self.inputs) if update.compiles else ():  # imports PyTorch's compiler: seconds
            maybe_mark_dynamic(side.layout.device_offsets, 0)

    def copy_from(self, batch: Batch, begin: int) -> None:
        """Copy a batch into the buffers; ``begin``: the first input of the decoder."""
        self.source.copy_from(batch.source)
        self.inputs.copy_from(batch.target.shifted(begin))
        targets = pad(batch.target.values, len(self.targets), IGNORE_INDEX)
        self.targets.copy_(targets.pin_memory(), non_blocking=True)
        self.target_tokens.fill_(batch.target.layout.total)


class CudaGraphUpdate(PlainUpdate):
    """Updates by CUDA graphs; see the module."""

    def __init__(
        self, model: Model, optimizer: torch.optim.Optimizer, context: TrainingContext, corpus_size: CorpusSize
    ) -> None:
        super().__init__(model, optimizer, context)
        self.device = context.device
        self.shape = static_shape_of(model, corpus_size, self.settings.batch_tokens)
        self.learning_rate = torch.zeros((), device=self.device)
        self.statistics = torch.zeros(2, device=self.device)  # loss and gradient norm
        self.recorder: Recorder[CapturedUpdate] = Recorder(math.inf)  # keys are few
        self.parameter_addresses: list[int] = []
        self.captures = True
        """False: memory was not enough, and updates are plain."""
        self.updates = 0
        self.stream = torch.cuda.Stream(self.device)
        wait_for_preparation()
        self.compiles = should_compile(model, self.settings)
        if self.compiles:
            load_versions()  # what is compiled can import nothing
            for layer in layers_to_compile(model, self.settings):
                layer.compile()
        elif compiles_ahead():
            self.rehearse()

    def rehearse(self) -> None:
        """Compile the kernels that updates are likely to need, at the same time, if this machine has not done so."""
        weights = [(tuple(parameter.shape), parameter.dtype) for parameter in self.model.parameters()]
        settings = self.settings.model_dump(include={"precision", "label_smoothing", "consistency", "coverage_loss"})
        if (rehearsals := Rehearsals(str(self.model), weights, self.shape, settings)).are_done:
            return
        self.model.train()
        deadline = time.monotonic() + REHEARSAL_SECONDS
        for key in self.shape.likely_keys():
            if time.monotonic() > deadline:
                break
            rehearse(lambda: self._static_gradients(CapturedUpdate(self, key)))  # noqa: B023
        self.optimizer.zero_grad(set_to_none=True)
        rehearsals.note()

    def __call__(self, batches: StepBatches, *, learning_rate: float, sampling_probability: float) -> UpdateResult:
        """An update by a graph or, once memory was not enough for one, a plain one, which can divide its batch."""
        if self.captures:
            try:
                return self._captured_update(batches, learning_rate)
            except Exception as error:
                if not self.can_divide or not is_out_of_memory(error):
                    raise
            self._stop_capturing()
        return super().__call__(batches, learning_rate=learning_rate, sampling_probability=sampling_probability)

    def _stop_capturing(self) -> None:
        """Free all graphs and what they work on; from now on updates are plain."""
        self.captures = False
        torch.cuda.synchronize(self.device)
        self.recorder.clear()
        self.optimizer.found_inf = None  # type: ignore[attr-defined]
        self.release()
        warn("training: not enough memory for CUDA graphs; continuing without them, more slowly, with the same results")

    def _captured_update(self, batches: StepBatches, learning_rate: float) -> UpdateResult:
        [batch] = batches.batches
        self._discard_if_moved()
        key = self.shape.key(batch)
        captured = self.recorder.graph(key, lambda: CapturedUpdate(self, key))
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            captured.copy_from(batch, self.context.begin)
            self.learning_rate.fill_(learning_rate)
            if captured.graph is not None:
                captured.graph.replay()
            elif self.updates < WARMUP_UPDATES or not captured.warmed_up:
                self._update_static(captured)
                captured.warmed_up = True
            else:
                self._capture(captured).replay()
            statistics = copy_to_host(self.statistics)
        torch.cuda.current_stream().wait_stream(self.stream)
        self.updates += 1
        return UpdateResult(statistics, deferred=True)

    def _discard_if_moved(self) -> None:
        """Discard all graphs if the weights have moved: a graph works on the memory it was captured with.

        PyTorch's recurrent modules move their weights whenever `Module.to` is called, even to the same device.
        """
        addresses = [parameter.data_ptr() for parameter in self.model.parameters()]
        if addresses != self.parameter_addresses:
            self.parameter_addresses = addresses
            self.recorder.clear()

    def _capture(self, captured: CapturedUpdate) -> torch.cuda.CUDAGraph:
        self.optimizer.zero_grad(set_to_none=True)
        graph = self.recorder.capture(lambda: self._update_static(captured), training_stream=self.stream)
        captured.graph = graph
        return graph

    def _half_weights(self) -> AbstractContextManager[None]:
        """The weights of layers that have kernels in half precision, if they are used in that."""
        weights = linear_weights(self.model) if self.precision == "bf16" else []
        return half_weights(weights, torch.bfloat16)

    def _update_static(self, captured: CapturedUpdate) -> None:
        """One update on the batch in static memory; the optimizer skips its step if a statistic is not finite."""
        with allow_tf32(self.precision == "tf32"):
            self.set_learning_rate(self.learning_rate)  # every time: a restored optimizer has its own rates
            loss = self._static_gradients(captured)
            norm = self.clip_gradients()
            self.statistics[0] = loss.negative_log_likelihood / captured.target_tokens
            self.statistics[1] = norm
            self.optimizer.found_inf = (~self.statistics.isfinite().all()).float()  # type: ignore[attr-defined]
            self.optimizer.grad_scale = None  # type: ignore[attr-defined]
            self.optimizer.step()

    def _static_gradients(self, captured: CapturedUpdate) -> Loss:
        """The loss of the batch in static memory, and its gradients."""
        with allow_tf32(self.precision == "tf32"):
            self.optimizer.zero_grad(set_to_none=True)
            with autocast(self.precision, self.device), self._half_weights():
                loss = self._static_loss(captured)
            (loss.smoothed / captured.target_tokens).backward()
        return loss

    def _static_loss(self, captured: CapturedUpdate) -> Loss:
        """The loss of the batch in static memory."""
        assert isinstance(self.model, HasOutputLayer | HasTargetLogProbabilities)
        settings, source, inputs = self.settings, captured.source.ragged(), captured.inputs.ragged()
        if settings.consistency:
            return consistency_loss(self.model, source, inputs, captured.targets, settings)
        options = {"smoothing": settings.label_smoothing, "coverage": settings.coverage_loss}
        return forced_pass(self.model, source, inputs, captured.targets, **options).loss


def copy_to_host(statistics: Tensor) -> Callable[[], UpdateStatistics]:
    """Start copying the statistics from the GPU; the function returned waits for that copy, and only for that."""
    pinned = torch.empty(2, pin_memory=True)
    pinned.copy_(statistics, non_blocking=True)
    copied = torch.cuda.Event()
    copied.record()

    def wait() -> UpdateStatistics:
        copied.synchronize()
        return UpdateStatistics(*pinned.tolist())

    return wait
