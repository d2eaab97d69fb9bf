"""Memory: whether it is enough is known before anything is allocated; if it runs out nevertheless, work is divided.

Sizes are computed and compared with the available memory beforehand.

    weights in training   n · (4 + 4 + 4 s) bytes     n parameters, their gradients, s values of the optimizer for each
    weights in use        4 n bytes, as are those in training that are frozen

A limit is the memory that is available now, on the device in question: what the system can hand out without
swapping, less where a control group (a container) or `ulimit -v` allows less. Where that is unknown, nothing is
refused. An error names the setting, what it needs and the limit.

Other processes take memory of the same device whenever they like. A computation that runs out of it (`DividedWork`) is
repeated in twice as many parts: a search or a validation continues with smaller batches, an update of the weights sums
the gradients of the parts of its batch. The results are the same.
"""

from __future__ import annotations

import gc
import math
import os
import resource
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from weft.errors import CheckpointError, RecipeError, is_out_of_memory, warn

if TYPE_CHECKING:
    import torch

    from weft.recipe import ModelSettings, Recipe

Result = TypeVar("Result")
Rows = np.ndarray

FLOAT_BYTES = 4
OPTIMIZER_VALUES = {"adamw": 2, "adam": 2, "sgd": 1}
"""Values that an optimizer keeps for each parameter."""


def available_memory() -> int | None:
    """Bytes that this process can still allocate in main memory; None where the system does not say."""
    amounts = [
        amount for amount in (_system_memory(), *_control_group_memory(), _address_space()) if amount is not None
    ]
    return min(amounts, default=None)


def device_memory(device: torch.device) -> int | None:
    """Bytes that can still be allocated on a device."""
    if device.type != "cuda":
        return available_memory()
    import torch

    return torch.cuda.mem_get_info(device)[0] + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)


def _system_memory() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text("ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return None


def _control_group_memory() -> Iterator[int]:
    """Memory left by the control groups of this process: their limits less their unreclaimable usage."""
    groups = {Path("/sys/fs/cgroup"), *_own_groups()}
    for group in groups:
        for limit, used in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
            try:
                left = int((group / limit).read_text("ascii")) - int((group / used).read_text("ascii"))
                statistics = (group / "memory.stat").read_text("ascii").split()
                left += int(dict(zip(statistics[::2], statistics[1::2], strict=False)).get("inactive_file", 0))
                yield max(left, 0)
            except (OSError, ValueError):  # no such group, or no limit ("max")
                continue


def _own_groups() -> Iterator[Path]:
    try:
        for line in Path("/proc/self/cgroup").read_text("utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers in ("", "memory"):
                yield Path("/sys/fs/cgroup", controllers, path.lstrip("/"))
    except (OSError, ValueError):
        return


def _address_space() -> int | None:
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return None
    try:
        used = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        used = 0
    return max(limit - used, 0)


def gigabytes(count: float) -> str:
    """A number of bytes for a message."""
    return f"{count / 1e9:,.1f} GB" if count >= 5e7 else f"{count / 1e6:,.1f} MB"


def parameter_count(settings: ModelSettings, *, source_size: int, target_size: int) -> int:
    """The parameters of a model without its bridge, from models of at most three layers.

    A layer is like the one before it or, with dense connections, wider by the same amount each time. So with
    d = p(3) − p(2) and g = d − (p(2) − p(1)), a stack of 3 + m layers has p(3) + m d + g m (m + 1)/2 parameters.
    """
    from weft.models.build import parameter_shapes

    def count(**layers: int) -> int:
        depths = {side: min(getattr(settings, side).layers, 3) for side in ("encoder", "decoder")} | layers
        stacks = {side: getattr(settings, side).model_copy(update={"layers": depth}) for side, depth in depths.items()}
        small = settings.model_copy(update={**stacks, "bridge": "zero"})
        shapes = parameter_shapes(small, source_size=source_size, target_size=target_size)
        return sum(map(math.prod, shapes.values()))

    total = three = count()
    for side in ("encoder", "decoder"):
        more = getattr(settings, side).layers - 3
        if more > 0:
            two = count(**{side: 2})
            difference = three - two
            growth = difference - (two - count(**{side: 1}))
            total += more * difference + growth * more * (more + 1) // 2
    return total


def check_training_memory(recipe: Recipe, *, source_size: int, target_size: int, device: torch.device) -> None:
    """Fail if the weights, the gradients and the optimizer's state of a model cannot fit in memory."""
    settings = recipe.model
    parameters = parameter_count(settings, source_size=source_size, target_size=target_size)
    each = FLOAT_BYTES * (2 + OPTIMIZER_VALUES[recipe.training.optimizer])
    if recipe.training.shard == "full" or recipe.training.lora.rank:  # over any number of workers; few are trained
        each = FLOAT_BYTES
    available = device_memory(device)
    if available is None or parameters * each <= available:
        return
    needed, costs = parameters * each, f"{each} bytes each"
    if recipe.training.freeze and parameters * FLOAT_BYTES <= available:
        trained = _trained_parameters(recipe, source_size=source_size, target_size=target_size)
        needed = parameters * FLOAT_BYTES + trained * (each - FLOAT_BYTES)
        costs = f"{each} bytes for each of the {trained:,} that are trained, {FLOAT_BYTES} for the others"
    if needed > available:
        raise RecipeError(
            f"{largest_setting(recipe)}: a model of {parameters:,} parameters needs {gigabytes(needed)} to "
            f"train ({costs}), and {gigabytes(available)} are available on {device}; make it smaller"
        )


def _trained_parameters(recipe: Recipe, *, source_size: int, target_size: int) -> int:
    """The parameters that training.freeze does not match."""
    from weft.models.build import parameter_shapes

    shapes = parameter_shapes(recipe.model, source_size=source_size, target_size=target_size)
    patterns = recipe.training.freeze
    trained = [name for name in shapes if not any(fnmatchcase(name, pattern) for pattern in patterns)]
    return sum(math.prod(shapes[name]) for name in trained)


def check_weights_memory(where: str, size: int) -> None:
    """Fail if the tensors of a file cannot fit in memory; ``size``: in bytes."""
    available = available_memory()
    if available is not None and size > available:
        raise CheckpointError(
            f"{where}: its tensors have {gigabytes(size)}, and {gigabytes(available)} of memory are available"
        )


def largest_setting(recipe: Recipe) -> str:
    """The setting that most of a model's size is due to: the one that is the largest multiple of its default."""
    from weft.recipe import RecurrentSettings

    model = recipe.model
    candidates: list[tuple[float, str]] = [
        (model.embedding / 256, f"model.embedding = {model.embedding}"),
        (recipe.tokenizer.size / 8_000, f"tokenizer.size = {recipe.tokenizer.size}"),
        (model.attention.size / 512, f"model.attention.size = {model.attention.size}"),
    ]
    for side, stack in (("encoder", model.encoder), ("decoder", model.decoder)):
        if side == "encoder" and model.kind != "seq2seq":
            continue
        names = ["layers", "hidden"]
        if not isinstance(stack, RecurrentSettings):
            names += ["feed_forward", *(["max_positions"] if stack.positions == "learned" else [])]
        for name in names:
            value, default = getattr(stack, name), type(stack).model_fields[name].default
            candidates.append((value / default, f"model.{side}.{name} = {value}"))
    return max(candidates)[1]


def release_memory() -> None:
    """Give back memory that PyTorch keeps for later."""
    import torch

    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()


class DividedWork:
    """Work that is done at once as long as memory is enough, then in 2, 4, 8, … parts. The number of parts is kept."""

    def __init__(self, name: str, release: Callable[[], None] = release_memory) -> None:
        """``name``: what is done, for the warning; ``release``: gives memory back before the next attempt."""
        self.name = name
        self.release = release
        self.parts = 1
        self.has_warned = False

    def run(self, compute: Callable[[int], Result], *, most: int) -> Result:
        """The result of ``compute``, which is given the number of parts; with ``most`` parts, the error is raised."""
        while True:
            parts = min(self.parts, max(most, 1))
            try:
                return compute(parts)
            except Exception as error:
                if parts >= most or not is_out_of_memory(error):
                    raise
            self.release()  # not above: until there, the error keeps what was computed
            self.parts = max(self.parts, 2 * parts)  # another thread may have been here
            self._warn()

    def over_rows(self, compute: Callable[[Rows], Sequence[Result]], rows: Rows) -> Sequence[Result]:
        """The results of all rows at once or, one after the other, of parts of them."""

        def in_parts(parts: int) -> Sequence[Result]:
            if parts == 1:
                return compute(rows)
            return [result for part in np.array_split(rows, parts) for result in compute(part)]

        return self.run(in_parts, most=len(rows))

    def _warn(self) -> None:
        if not self.has_warned:
            self.has_warned = True
            warn(f"{self.name}: not enough memory for a batch at once; continuing in parts, with the same results")
