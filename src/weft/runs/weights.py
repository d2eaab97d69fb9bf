"""Weights on disk and in a model: safetensors files with the version of the run folder's format in their metadata.

Torch is imported only when tensors are read, written or copied, so that a command can check a run folder before that.

The metadata of a model file also say which weights it holds: of which steps, why these, and how they did on the
validation set (`WeightsOrigin`). They are read when a run is loaded, to warn of weights that cannot be any good and to
refuse those from which nothing can come.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import shlex
import zlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from safetensors import SafetensorError, safe_open

from weft.errors import CheckpointError, warn
from weft.files import CHECKSUM, encoded_header, replacing
from weft.runs.tensor_data import TensorData

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Parameter

    from weft.models.interface import Model

STRUCTURAL = "structural_"
"""Prefix of the names of numbers about the pairs that were held out for their structure (data.holdout.structure)."""
FORMAT = 2
"""Version of the run folder. Format 1 had other names for parameters and settings."""

HASH_THREADS = 4
"""Threads that hash tensors; each hashes about 0.7 GB a second."""

MAX_HEADER_BYTES = 16 << 20
"""The largest header of a safetensors file that is read; 100,000 tensors have one of 10 MB."""

Tensors = dict[str, "Tensor"]
Shapes = dict[str, tuple[int, ...]]


class TensorFile(NamedTuple):
    """The tensors of a file with its metadata."""

    tensors: Tensors
    metadata: dict[str, str]


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """Write a safetensors file atomically."""
    import safetensors.torch

    on_cpu = {name: tensor.detach().to("cpu").contiguous() for name, tensor in tensors.items()}
    content = safetensors.torch.save(on_cpu, metadata={"weft_format": str(FORMAT), **(metadata or {})})
    size = int.from_bytes(content[:8], "little")
    header, data = json.loads(content[8 : 8 + size]), memoryview(content)[8 + size :]
    header["__metadata__"][CHECKSUM] = f"{zlib.crc32(data, zlib.crc32(encoded_header(header))):08x}"
    encoded = encoded_header(header)
    with replacing(path) as file:
        file.write(len(encoded).to_bytes(8, "little") + encoded)
        file.write(data)


class TensorReading:
    """A safetensors file to be read: each kind of damage has its own error.

    `read` may be called by another thread than the rest.
    """

    def __init__(self, path: Path) -> None:
        """Read and check the header, and allocate memory for the tensors."""
        from weft.runtime.devices import check_weights_memory

        self._path = path
        with _opened(path, "np") as file:
            self._metadata = _checked(path, file.metadata())
            check_weights_memory(str(path), path.stat().st_size)
            self._names = list(file.keys())
        self._checksum = self._metadata.pop(CHECKSUM, "")  # older files have none
        self._data = TensorData(path)

    def read(self, stop: Event | None = None) -> None:
        """Read the tensors; ``stop``: ends it with a `CancelledError` once it is set."""
        self._data.read(stop)

    def is_finite(self) -> bool:
        """Whether all numbers that were read are known to be finite."""
        return self._data.is_finite()

    def result(self) -> TensorFile:
        """The tensors, checked."""
        if self._checksum and self._checksum != self._data.checksum:
            raise CheckpointError(
                f"{self._path}: damaged (its content does not match its checksum); restore it from a copy, or train "
                "again"
            )
        tensors = self._data.tensors()
        return TensorFile({name: tensors[name] for name in self._names}, self._metadata)


def read_tensors(path: Path) -> TensorFile:
    """Read a safetensors file."""
    reading = TensorReading(path)
    reading.read()
    return reading.result()


def read_shapes(path: Path) -> Shapes:
    """The name and the shape of each tensor of a safetensors file, from its header alone."""
    with _opened(path, "np") as file:
        _checked(path, file.metadata())
        return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118


def read_metadata(path: Path) -> dict[str, str]:
    """The metadata of a safetensors file."""
    with _opened(path, "np") as file:
        return _checked(path, file.metadata())


def check_tensor_format(path: Path) -> None:
    """Refuse a file of another format from its header alone; a missing or damaged file is left to `read_tensors`."""
    try:
        with _opened(path, "np") as file:
            metadata = file.metadata()
    except CheckpointError:
        return
    _checked(path, metadata)


def check_header_size(path: Path) -> None:
    """Refuse what is not a file, or a header that would fill the memory."""
    if not path.is_file():
        raise CheckpointError(f"{path}: not a regular file")
    with path.open("rb") as file:
        header = int.from_bytes(file.read(8), "little")
    if header > MAX_HEADER_BYTES:
        raise SafetensorError(f"its header has {header:,} bytes, the limit is {MAX_HEADER_BYTES:,}")


@contextmanager
def _opened(path: Path, framework: str) -> Iterator[Any]:
    """A safetensors file, open; one that is not what it should be, or has too large a header, is a CheckpointError."""
    try:
        if not path.exists():
            raise CheckpointError(f"{path}: missing; the run folder is incomplete")
        check_header_size(path)
        with safe_open(path, framework=framework) as tensors:
            yield tensors
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path}: damaged ({error}); restore it from a copy, or train again") from None


def _checked(path: Path, metadata: dict[str, str] | None) -> dict[str, str]:
    version = (metadata or {}).get("weft_format", "")
    if not re.fullmatch("[0-9]{1,9}", version):
        raise CheckpointError(f"{path}: not written by weft (it names no format version)")
    check_format(path, int(version))
    return metadata or {}


def check_format(path: Path, version: int) -> None:
    """Refuse a file of the run folder that another version of weft wrote."""
    if version > FORMAT:
        raise CheckpointError(
            f"{path}: written by a newer weft (format {version}; this one reads {FORMAT}); update weft"
        )
    if version < FORMAT:
        raise CheckpointError(
            f"{path}: written by an older weft (format {version}; this one reads {FORMAT}, which renamed parameters "
            "and settings); train again, or use the weft that wrote it"
        )


def model_tensors(model: Model) -> Tensors:
    """A model's weights by name; a tied tensor is listed once, under its first name. With adapters: only theirs."""
    return {name: parameter.detach() for name, parameter in saved_parameters(model).items()}


def saved_parameters(model: Model) -> dict[str, Parameter]:
    """The parameters that a checkpoint holds: those of adapters (`weft.models.lora`) if there are any, else all."""
    modules: list[Any] = [module for module in model.modules() if hasattr(type(module), "adapter_parameters")]
    adapters = {id(parameter) for module in modules for parameter in module.adapter_parameters()}
    return {
        name: parameter for name, parameter in model.named_parameters() if not adapters or id(parameter) in adapters
    }


def hash_tensors(tensors: Mapping[str, Tensor]) -> str:
    """A hash of names, types, shapes and values (SHA-256); the tensors are hashed in parallel."""
    import torch

    def digest(item: tuple[str, Tensor]) -> bytes:
        name, tensor = item
        content = tensor.detach().to("cpu").contiguous()
        value = hashlib.sha256(f"{name}\0{content.dtype}\0{tuple(content.shape)}\0".encode())
        value.update(content.flatten().view(torch.uint8).numpy().data)
        return value.digest()

    with ThreadPoolExecutor(HASH_THREADS) as pool:  # hashing releases the interpreter's lock
        return hashlib.sha256(b"".join(pool.map(digest, sorted(tensors.items())))).hexdigest()


def check_shapes(expected: Shapes, given: Shapes, *, where: str) -> None:
    """Fail unless names and shapes are exactly those of a model's parameters."""
    for name in [*expected, *given]:
        if name not in given or name not in expected:
            kind = "lacks" if name not in given else "has an unknown"
            raise CheckpointError(f"{where}: does not fit its recipe: it {kind} tensor {name!r}")
        if expected[name] != given[name]:
            raise CheckpointError(
                f"{where}: does not fit its recipe: tensor {name!r} is {given[name]}, expected {expected[name]}"
            )


def load_weights(model: Model, tensors: Tensors, *, where: str, assign: bool = False) -> None:
    """Copy weights into a model; names and shapes must be exactly those of its parameters, or of its adapters.

    ``assign``: make the tensors themselves its parameters, where they have the same type; nothing else may use them.
    Its own parameters may be on the meta device then.
    """
    parameters = saved_parameters(model)
    check_shapes(shapes_of(parameters), shapes_of(tensors), where=where)
    for name, tensor in tensors.items():
        if not tensor.is_floating_point():
            raise CheckpointError(
                f"{where}: tensor {name!r} is of type {tensor.dtype}, expected floating-point numbers"
            )
    import torch

    if assign:
        _assign(model, {parameter: tensors[name] for name, parameter in parameters.items()})
        return
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(tensors[name])


def _assign(model: Model, tensors: Mapping[Parameter, Tensor]) -> None:
    """Replace parameters by tensors of the same shapes; those that modules share stay shared."""
    from torch.nn import Parameter

    new = {old: Parameter(tensor.to(old.dtype), old.requires_grad) for old, tensor in tensors.items()}
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            if parameter in new:
                setattr(module, name, new[parameter])


def check_finite(tensors: Tensors, *, where: str) -> None:
    """Refuse weights that are infinite or not a number: nothing can be computed with them."""
    for name, tensor in tensors.items():
        if tensor.numel() and not all(extreme.isfinite() for extreme in tensor.aminmax()):  # NaN is both
            raise CheckpointError(
                f"{where}: tensor {name!r} has values that are not finite, from training that diverged or a damaged "
                "file; train again with a lower training.learning_rate, or restore the file from a copy"
            )


def shapes_of(tensors: Mapping[str, Tensor]) -> Shapes:
    """The shape of every tensor, by name."""
    return {name: tuple(tensor.shape) for name, tensor in tensors.items()}


def initialize_from(model: Model, tensors: Tensors, *, where: str) -> None:
    """Initialize a model with the weights of another run; new rows of a larger vocabulary stay as they are."""
    parameters = dict(model.named_parameters())
    for name in [*parameters, *tensors]:
        if name not in tensors or name not in parameters:
            kind = "lacks" if name not in tensors else "has"
            raise CheckpointError(
                f"--from {where}: another model: it {kind} tensor {name!r}; use the [model] of its recipe.toml"
            )
        shape, saved = parameters[name].shape, tensors[name].shape
        extended = is_vocabulary_table(name) and shape[0] >= saved[0] and shape[1:] == saved[1:]
        if shape != saved and not extended:
            raise CheckpointError(
                f"--from {where}: another model: tensor {name!r} is {tuple(saved)} there and {tuple(shape)} here; "
                "use the [model] and the tokenizer of its run"
            )
    import torch

    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter[: len(tensors[name])].copy_(tensors[name])


def is_vocabulary_table(name: str) -> bool:
    """Whether a tensor has one row per token id."""
    return name.rpartition(".")[2] in ("weight_VE", "weight_VD", "bias_V")


def average(checkpoints: list[Tensors]) -> Tensors:
    """The mean of several checkpoints, tensor by tensor."""
    import torch

    return {name: torch.stack([tensors[name] for tensors in checkpoints]).mean(0) for name in checkpoints[0]}


Kind = Literal["initial", "last", "best", "mean", "imported", "base"]


class WeightsOrigin(NamedTuple):
    """The origin of the weights of a model file."""

    kind: Kind
    """initial: those training starts from; last: of the last checkpoint, as long as no validation has chosen one
    or if training.choose = "last";
    best: of the best checkpoint; mean: the mean of the best checkpoints, if it is better than the best of them;
    imported: of a model of another toolkit; base: of the run that adapters are trained on."""
    steps: tuple[int, ...]
    """The step, or the steps of a mean."""
    validation: dict[str, float] | None = None
    """Loss, perplexity and metric of these weights on the validation set and, if there is one, on the structural
    holdout (`STRUCTURAL`); of weights that a validation should have chosen and did not: of the last one, whose loss
    was not finite."""

    def metadata(self) -> dict[str, str]:
        """The entries of the metadata of a safetensors file."""
        entries = {"weights": self.kind, "step": ",".join(map(str, self.steps))}
        return entries if self.validation is None else {**entries, "validation": json.dumps(self.validation)}

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, str]) -> WeightsOrigin | None:
        """The inverse of `metadata`; None if it says nothing, as in the first files of this format, or is damaged."""
        try:
            kind = metadata["weights"]
            steps = tuple(map(int, metadata["step"].split(",")))
            validation = json.loads(metadata["validation"]) if "validation" in metadata else None
            if kind not in get_args(Kind):
                return None
            numbers = None if validation is None else {str(name): float(value) for name, value in validation.items()}
            return cls(kind, steps, numbers)  # type: ignore[arg-type]
        except (KeyError, ValueError, TypeError, AttributeError, RecursionError):
            return None

    def describe(self) -> str:
        """A short description: "step 300", "the mean of steps 300, 400 and 500"."""
        if self.kind in ("initial", "imported", "base"):
            return f"the {self.kind} weights"
        if len(self.steps) == 1:
            return f"step {self.steps[0]}"
        return f"the mean of steps {', '.join(map(str, self.steps[:-1]))} and {self.steps[-1]}"

    @property
    def diverged(self) -> bool:
        """Whether the validation loss is infinite or not a number."""
        return self.validation is not None and not math.isfinite(self.validation.get("loss", 0.0))

    def check(self, run: Path, *, steps: int, target_vocabulary: int, initialized: bool) -> None:
        """Refuse untrained and diverged weights; warn of weights that cannot be any good yet.

        ``steps``: of all training. ``initialized``: whether training started from weights that are not random.
        """
        go_on = f"continue with: {resume_command(run)}"
        lower = "train again with a lower training.learning_rate"
        perplexity = (self.validation or {}).get("perplexity", 0.0)
        if self.kind == "initial" and not initialized:
            raise CheckpointError(f"{run}: not trained yet: it holds the initial weights (step 0 of {steps}); {go_on}")
        if self.diverged:
            raise CheckpointError(
                f"{run}: training diverged: the validation loss was not finite ({self.describe()}); {lower}"
            )
        if perplexity > target_vocabulary:
            warn(
                f"{run}: has learned nothing: its validation perplexity, {perplexity:.4g}, is worse than a uniform "
                f"guess from the vocabulary of {target_vocabulary}; train longer, or {lower}"
            )
        elif self.kind in ("initial", "last") and self.steps[-1] < steps and self.validation is None:
            warn(
                f"{run}: training is at step {self.steps[-1]} of {steps}, and these weights were never validated; "
                f"{go_on}"
            )


def resume_command(run: Path | str) -> str:
    """The command that resumes a run, as it can be pasted into a shell."""
    return f"weft train {shlex.quote(str(run))} --resume"
