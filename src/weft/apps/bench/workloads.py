"""A recipe's model at given sizes, with random weights and tokens: an update, the encoder, or a search.

Nothing is read from the data of the recipe. Updates and searches take the paths that training and translation take on
the device: CUDA graphs where there are some. Learning rates are zero, so that the weights stay as they are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import nn

from weft.apps.bench.flops import attention_flops, forward_flops
from weft.apps.bench.limits import MinimumWork
from weft.apps.bench.memory import peak_memory, tensor_bytes
from weft.apps.bench.sizes import Sizes
from weft.apps.bench.sweep import MemoryExhaustedError
from weft.data.batching.batches import StepBatches
from weft.data.store.token_store import Batch, CorpusSize, PairStore, TokenStore
from weft.errors import InputTooLongError
from weft.models.build import OPTIMIZER_VALUES, build_model, parameter_count
from weft.models.interface import HasMaxTargetLength, Model
from weft.recipe import Recipe
from weft.runtime.devices import device_memory, gigabytes
from weft.runtime.switches import allow_tf32
from weft.search.interface import SearchRequest
from weft.text.specials import BEGIN, END
from weft.training.forcing import sampling_probability
from weft.training.optimizer import make_optimizer
from weft.training.update import PlainUpdate, TrainingContext, make_update, resolve_precision
from weft.translation.engines.batch_sizes import StepSize
from weft.translation.engines.torch import search
from weft.translation.load import choose_precision
from weft.tree import first, leaves

CPU_WARMUPS, GPU_WARMUPS = 2, 6
"""Calls that do not count; on a GPU, until CUDA graphs are captured and replayed."""
SPECIAL_IDS = 3
FLOAT_BYTES = 4
UPDATE_PASSES = 7
"""Times that an update moves each weight or its gradient, without the optimizer's state; see
`weft.apps.bench.limits`."""


class Phase(NamedTuple):
    """A phase to measure, and the sizes that its cost depends on."""

    name: str
    label: str
    axes: tuple[str, ...]


UPDATE = Phase("update", "training update", ("source_length", "target_length", "batch", "vocabulary"))
ENCODER = Phase("encoder", "encoder", ("source_length", "batch"))
STEP = Phase("step", "search step", ("source_length", "target_length", "batch", "beam", "vocabulary"))


class Workload(Protocol):
    """Makes the cases of a phase."""

    precision: str
    parameters: int

    def case(self, sizes: Sizes) -> TorchCase: ...


class TorchCase(ABC):
    """A phase at given sizes."""

    def __init__(self, device: torch.device, persistent_bytes: int) -> None:
        self.device = device
        self.units = 1
        self.persistent_bytes = persistent_bytes
        """Bytes that stay allocated between two calls."""
        self.transient_bytes: int | None = None
        """Additional peak bytes during a call."""
        self.warmups = GPU_WARMUPS if device.type == "cuda" else CPU_WARMUPS

    def run(self) -> None:
        with memory_errors():
            self._run()
            if self.device.type == "cuda":
                torch.cuda.synchronize(self.device)

    def memory(self) -> int | None:
        self._release()
        self.transient_bytes = peak_memory(self.run, self.device)
        return None if self.transient_bytes is None else self.persistent_bytes + self.transient_bytes

    @abstractmethod
    def work(self) -> MinimumWork:
        """The minimum work of one unit."""

    @abstractmethod
    def _run(self) -> None: ...

    def _release(self) -> None:  # noqa: B027 (most have nothing to release)
        """Release memory that a call leaves allocated and the next call replaces."""


@contextmanager
def memory_errors() -> Iterator[None]:
    """Exhausted memory, of a GPU or of the CPU, as `MemoryExhaustedError`."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise MemoryExhaustedError(str(error)) from None
    except RuntimeError as error:
        if "can't allocate memory" in str(error):
            raise MemoryExhaustedError(str(error)) from None
        raise


def random_batch(recipe: Recipe, sizes: Sizes) -> Batch:
    """Rows of random tokens of equal length, each closed by the end token; columns of a source by one each."""
    generator = np.random.default_rng(1)
    columns, has_source = recipe.model.sources.count, recipe.model.has_source

    def side(length: int, ends: int) -> TokenStore:
        ids_BT = generator.integers(SPECIAL_IDS, max(sizes.vocabulary, SPECIAL_IDS + 1), (sizes.batch, length))
        ids_BT[:, [length * (index + 1) // ends - 1 for index in range(ends) if length]] = END
        return TokenStore(ids_BT.astype(np.int32).reshape(-1), np.arange(sizes.batch + 1) * length)

    source = side(sizes.source_length if has_source else 0, columns)
    return PairStore(source, side(sizes.target_length, 1)).batch(np.arange(sizes.batch))


class _Models:
    """The models of a workload by their vocabulary, which may have several at a time."""

    def __init__(self, recipe: Recipe, device: torch.device, *, values: int) -> None:
        """``values``: the number of values kept per parameter: weight, gradient, optimizer state."""
        self.recipe = recipe
        self.device = device
        self.bytes_per_parameter = FLOAT_BYTES * values
        self.built: dict[int, Any] = {}

    def get(self, vocabulary: int) -> Any:
        """The model of a vocabulary, if there is memory for it."""
        if vocabulary not in self.built:
            settings = self.recipe.model
            parameters = parameter_count(settings, source_size=vocabulary, target_size=vocabulary)
            available = device_memory(self.device)
            if available is not None and parameters * self.bytes_per_parameter > available / 2:
                raise MemoryExhaustedError(f"{gigabytes(parameters * self.bytes_per_parameter)} for weights")
            with memory_errors():
                self.built[vocabulary] = build_model(
                    settings,
                    source_size=vocabulary,
                    target_size=vocabulary,
                    loss=self.recipe.training.loss,
                    seed=self.recipe.seed,
                ).to(self.device)
        return self.built[vocabulary]


def _check_target_length(model: Model, sizes: Sizes) -> None:
    longest = model.max_target_length(sizes.source_length) if isinstance(model, HasMaxTargetLength) else None
    if longest is not None and sizes.target_length > longest:
        raise InputTooLongError(f"a target of {sizes.target_length} tokens: this model has {longest} positions")


class UpdateWorkload:
    """Updates: forward, backward, clipping and the optimizer."""

    def __init__(self, recipe: Recipe, device: torch.device, vocabulary: int) -> None:
        compiles = "off" if recipe.training.compile == "auto" else recipe.training.compile
        self.settings = recipe.training.model_copy(update={"accumulate": 1, "compile": compiles})
        self.recipe, self.device = recipe, device
        self.models = _Models(recipe, device, values=2 + OPTIMIZER_VALUES[self.settings.optimizer])
        self.optimizers: dict[int, torch.optim.Optimizer] = {}
        model = self.models.get(vocabulary)
        self.precision = resolve_precision(model, self.settings, device)
        self.parameters = sum(parameter.numel() for parameter in model.parameters())

    def case(self, sizes: Sizes) -> UpdateCase:
        model = self.models.get(sizes.vocabulary).train()
        _check_target_length(model, sizes)
        if sizes.vocabulary not in self.optimizers:
            self.optimizers[sizes.vocabulary] = make_optimizer(model, self.settings)
        tokens = sizes.batch * max(sizes.source_length * self.recipe.model.has_source, sizes.target_length)
        settings = self.settings.model_copy(update={"batch_tokens": tokens})
        context = TrainingContext(settings, self.recipe.seed, self.device)
        return UpdateCase(self.recipe, context, sizes, model, self.optimizers[sizes.vocabulary])


class UpdateCase(TorchCase):
    """An update on one batch."""

    def __init__(
        self,
        recipe: Recipe,
        context: TrainingContext,
        sizes: Sizes,
        model: Any,
        optimizer: torch.optim.Optimizer,
    ) -> None:
        state_values = OPTIMIZER_VALUES[context.settings.optimizer]
        self.weight_bytes = tensor_bytes(list(model.parameters()))
        super().__init__(context.device, self.weight_bytes * (1 + state_values))
        self.recipe, self.sizes, self.model, self.optimizer = recipe, sizes, model, optimizer
        self.state_values = state_values
        self.batches = StepBatches.of([random_batch(recipe, sizes)])
        source = sizes.source_length if recipe.model.has_source else 0
        batch, target = sizes.batch, sizes.target_length
        corpus_size = CorpusSize(batch, batch * source, batch * target, source, target)
        self.update = make_update(model, optimizer, context, corpus_size)
        if isinstance(self.update, PlainUpdate):
            self.update.can_divide = False  # where memory ends is what is measured
        self.sampling_probability = sampling_probability(context.settings, context.settings.steps)

    def _run(self) -> None:
        result = self.update(self.batches, learning_rate=0.0, sampling_probability=self.sampling_probability)
        result.statistics()

    def _release(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)

    def work(self) -> MinimumWork:
        sizes, settings = self.sizes, self.recipe.model
        source = sizes.source_length if settings.has_source else 0
        flops = forward_flops(self.model, source=sizes.batch * source, target=sizes.batch * sizes.target_length)
        flops += sizes.batch * attention_flops(settings, source=source, target=sizes.target_length)
        activations = max((self.transient_bytes or 0) - self.weight_bytes, 0)
        passes = UPDATE_PASSES + 2 * self.state_values
        return MinimumWork(3 * flops, passes * self.weight_bytes + 2 * activations)


class SearchWorkload:
    """Common base of the encoder and search workloads: a model set up for translation."""

    def __init__(self, recipe: Recipe, device: torch.device, vocabulary: int) -> None:
        self.recipe, self.device = recipe, device
        self.models = _Models(recipe, device, values=1)
        self.precision = choose_precision("auto", [recipe], device)
        self.parameters = sum(parameter.numel() for parameter in self.model(vocabulary).parameters())

    def model(self, vocabulary: int) -> Any:
        model = self.models.get(vocabulary)
        return (model.to(self.device, torch.bfloat16) if self.precision == "bf16" else model).eval()

    @contextmanager
    def computing(self) -> Iterator[None]:
        """The context of what is measured."""
        with torch.no_grad(), allow_tf32(self.precision == "tf32"):
            yield


class EncoderWorkload(SearchWorkload):
    """Encoding a batch of sources."""

    def case(self, sizes: Sizes) -> EncoderCase:
        return EncoderCase(self, sizes)


class EncoderCase(TorchCase):
    """The encoder on one batch, with the keys and values that the decoder attends to."""

    def __init__(self, workload: EncoderWorkload, sizes: Sizes) -> None:
        model = workload.model(sizes.vocabulary)
        super().__init__(workload.device, tensor_bytes(list(model.parameters())))
        self.workload, self.settings, self.sizes, self.model = workload, workload.recipe.model, sizes, model
        self.source = random_batch(workload.recipe, sizes).source.to(self.device)
        self.output_bytes = 0

    def _run(self) -> None:
        with self.workload.computing():
            memory = self.model.encode(self.source)
        self.output_bytes = sum(leaf.nbytes for leaf in leaves(memory))

    def work(self) -> MinimumWork:
        sizes = self.sizes
        weights = forward_flops(self.model, source=1, target=0) / 2
        flops = forward_flops(self.model, source=sizes.batch * sizes.source_length, target=0)
        flops += sizes.batch * attention_flops(self.settings, source=sizes.source_length, target=0)
        return MinimumWork(flops, weights * _element_size(self.model) + self.output_bytes)


class StepWorkload(SearchWorkload):
    """Beam search in a batch whose sources are encoded."""

    def __init__(self, recipe: Recipe, device: torch.device, vocabulary: int) -> None:
        super().__init__(recipe, device, vocabulary)
        self.loop = None
        if device.type == "cuda":
            from weft.fast.recording.search import CudaGraphLoop

            self.loop = CudaGraphLoop(device)

    def case(self, sizes: Sizes) -> StepCase:
        _check_target_length(self.model(sizes.vocabulary), sizes)
        return StepCase(self, sizes)


class StepCase(TorchCase):
    """A beam search of as many steps as the target length; the unit is a step."""

    def __init__(self, workload: StepWorkload, sizes: Sizes) -> None:
        recipe, model = workload.recipe, workload.model(sizes.vocabulary)
        super().__init__(workload.device, tensor_bytes(list(model.parameters())))
        self.units = sizes.target_length
        self.workload, self.recipe, self.sizes, self.model = workload, recipe, sizes, model
        changes = {"kind": "beam", "size": sizes.beam, "stop": "steps", "groups": 1, "finish": 0}
        unlimited = {"required": [], "banned": [], "banned_ids": [], "coverage_penalty": 0.0}
        self.settings = recipe.search.model_copy(update={**changes, **unlimited})
        with workload.computing(), memory_errors():
            self.encoded = model.encode(random_batch(recipe, sizes).source.to(self.device))

    def _run(self) -> None:
        request = SearchRequest(
            memory=self.encoded,
            max_lengths=[self.sizes.target_length] * self.sizes.batch,
            begin=BEGIN,
            end=END,
            device=self.device,
            loop=self.workload.loop,
        )
        with self.workload.computing():
            search(self.model, request, self.settings)

    def work(self) -> MinimumWork:
        sizes, settings = self.sizes, self.recipe.model
        rows, source = sizes.batch * sizes.beam, sizes.source_length if settings.has_source else 0
        weights = forward_flops(self.model, source=0, target=1) / 2
        attention = attention_flops(settings, source=source, target=sizes.target_length)
        attention -= attention_flops(settings, source=source, target=0)
        flops = forward_flops(self.model, source=0, target=rows) + rows * attention / sizes.target_length
        with torch.no_grad():
            step = StepSize.measure(self.model, first(self.encoded, 1), BEGIN, self.device)
        state = step.state + step.growth * (sizes.target_length - 1) / 2
        source_bytes = sum(leaf.nbytes for leaf in leaves(self.encoded))
        scores = 2 * FLOAT_BYTES * sizes.vocabulary
        return MinimumWork(flops, weights * _element_size(self.model) + source_bytes + rows * (state + scores))


def _element_size(model: nn.Module) -> int:
    return next(model.parameters()).element_size()
