"""The run folder: what a training run leaves behind, written so that a kill at any moment leaves it loadable.

    recipe.toml              every setting, defaults included
    tokenizer.json           or tokenizer.source.json and tokenizer.target.json
    model.safetensors        the weights to use: the best so far (or the mean of the best), the format's version,
                             the tokenizer's fingerprint
    training/step-N/         everything that resuming needs: weights, optimizer, random states, position in the data
    training/best/           the checkpoints that model.safetensors is the mean of
    log.jsonl                one line an event
    metrics.json, README.md  the result, for programs and for people

A file is written aside, brought to the disk and renamed; a step's folder likewise, as a whole. The run folder itself
appears with all it needs in one rename. Tensors are stored as safetensors, the rest as JSON: nothing that is loaded
can run code.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from weft.errors import CheckpointError
from weft.files import replacing, save_text
from weft.training.distributed import spread, whole

FORMAT = 1
"""Version of the run folder. A reader takes its own and older ones."""

Tensors = dict[str, Tensor]


class Weights(NamedTuple):
    """Tensors with what was written beside them."""

    tensors: Tensors
    about: dict[str, str]


class Checkpoint(NamedTuple):
    """All that a resumed run needs."""

    weights: Tensors
    optimizer: Tensors
    state: dict[str, Any]
    path: Path | None = None
    """Where it was read from."""


def write_tensors(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, str] | None = None) -> None:
    """A safetensors file, atomically."""
    ready = {name: tensor.detach().to("cpu").contiguous() for name, tensor in tensors.items()}
    content = save(ready, metadata={"weft_format": str(FORMAT), **(about or {})})
    with replacing(path) as file:
        file.write(_in_order(content))


def _in_order(content: bytes) -> bytes:
    """The same safetensors file with its header sorted: the library writes metadata in a random order."""
    size = int.from_bytes(content[:8], "little")
    header = json.dumps(json.loads(content[8 : 8 + size]), sort_keys=True, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + content[8 + size :]


def read_tensors(path: Path) -> Weights:
    """The tensors of a safetensors file; one clear error for each way it can be wrong."""
    try:
        with safe_open(path, framework="pt") as file:
            about = file.metadata() or {}
            version = about.get("weft_format", "")
            if not version.isdigit():
                raise CheckpointError(f"{path}: not written by weft (it names no format version)")
            if int(version) > FORMAT:
                raise CheckpointError(
                    f"{path}: written by a newer weft (format {version}; this one reads up to {FORMAT}); update weft"
                )
            return Weights({name: file.get_tensor(name) for name in file.keys()}, about)  # noqa: SIM118
    except FileNotFoundError:
        raise CheckpointError(f"{path}: missing; the run folder is incomplete") from None
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path}: damaged ({error}); restore it from a copy, or train again") from None


def fingerprint(paths: list[Path]) -> str:
    """What tells one tokenizer from another: a hash of their files."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


class RunFolder:
    """A run folder, to write or to read."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.recipe = self.path / "recipe.toml"
        self.model = self.path / "model.safetensors"
        self.log = self.path / "log.jsonl"
        self.metrics = self.path / "metrics.json"
        self.card = self.path / "README.md"
        self.training = self.path / "training"
        self.best = self.training / "best"

    @classmethod
    def create(cls, path: Path, fill: Callable[[RunFolder], None]) -> RunFolder:
        """A new run folder; ``fill`` writes its first contents aside, then it appears as a whole."""
        if path.exists():
            raise CheckpointError(f"{path}: exists already; go on with --resume, or choose another folder with --out")
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_name(f".{path.name}.{os.getpid()}.part")
        shutil.rmtree(aside, ignore_errors=True)
        try:
            aside.mkdir()
            (aside / "training" / "best").mkdir(parents=True)
            fill(cls(aside))
            _to_disk(aside)
            aside.rename(path)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        return cls(path)

    def check(self) -> RunFolder:
        """This folder, if it is a run."""
        if not self.path.is_dir():
            raise CheckpointError(
                f"{self.path}: no such run folder; train one with `weft train RECIPE --out {self.path}`"
            )
        if not self.recipe.is_file():
            raise CheckpointError(f"{self.path}: not a run folder (it has no recipe.toml)")
        return self

    def tokenizers(self) -> list[Path]:
        """The tokenizer files: one, or source and target."""
        joint = self.path / "tokenizer.json"
        both = [self.path / "tokenizer.source.json", self.path / "tokenizer.target.json"]
        if joint.is_file():
            return [joint]
        missing = [one for one in both if not one.is_file()]
        if missing:
            raise CheckpointError(
                f"{joint if len(missing) == 2 else missing[0]}: missing; the run folder is incomplete"
            )
        return both

    def write_model(self, tensors: Tensors, *, step: int) -> None:
        """Put the weights to use in place."""
        about = {"tokenizer": fingerprint(self.tokenizers()), "step": str(step)}
        write_tensors(self.model, tensors, about)

    def read_model(self) -> Weights:
        """The weights to use; checked to belong to the tokenizer beside them."""
        weights = read_tensors(self.model)
        if weights.about.get("tokenizer") != fingerprint(self.tokenizers()):
            raise CheckpointError(
                f"{self.path}: the tokenizer is not the one this model was trained with; restore the tokenizer file"
            )
        return weights

    def step(self, step: int) -> Path:
        """The folder of a checkpoint."""
        return self.training / f"step-{step}"

    def write_checkpoint(self, step: int, checkpoint: Checkpoint) -> Path:
        """A checkpoint to resume from; it appears as a whole. Each step is written once."""
        final = self.training / f"step-{step}"
        aside = self.training / f".step-{step}.part"
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir()
        write_tensors(aside / "weights.safetensors", checkpoint.weights)
        write_tensors(aside / "optimizer.safetensors", checkpoint.optimizer)
        save_text(aside / "state.json", json.dumps({"weft_format": FORMAT, **checkpoint.state}, indent=1))
        _to_disk(aside)
        aside.rename(final)
        _to_disk(self.training)
        return final

    def prune(self, step: int, best: Sequence[int]) -> None:
        """Remove what neither the checkpoint of this step nor its best ones need, and what a kill left half-written."""
        for folder in self.training.iterdir():
            if folder.is_dir() and folder not in (self.training / f"step-{step}", self.best):
                shutil.rmtree(folder, ignore_errors=True)
        wanted = {f"step-{one}.safetensors" for one in best}
        strays = [file for file in self.best.iterdir() if file.name not in wanted]
        for file in [*strays, *self.path.glob(".*.part")]:
            file.unlink(missing_ok=True)

    def read_checkpoint(self) -> Checkpoint:
        """The newest checkpoint."""
        steps = [int(folder.name[5:]) for folder in self.training.glob("step-*") if folder.name[5:].isdigit()]
        complete = [step for step in steps if (self.training / f"step-{step}" / "state.json").is_file()]
        if not complete:
            raise CheckpointError(f"{self.training}: no checkpoint to resume from; the folder is incomplete")
        folder = self.training / f"step-{max(complete)}"
        try:
            state = json.loads((folder / "state.json").read_text("utf-8"))
        except ValueError:
            raise CheckpointError(f"{folder / 'state.json'}: damaged; it is not valid JSON") from None
        version = state.get("weft_format") if isinstance(state, dict) else None
        if not isinstance(version, int):
            raise CheckpointError(f"{folder / 'state.json'}: damaged; it names no format version")
        if version > FORMAT:
            raise CheckpointError(
                f"{folder / 'state.json'}: written by a newer weft (format {version}; this one reads up to {FORMAT}); "
                "update weft"
            )
        weights = read_tensors(folder / "weights.safetensors").tensors
        return Checkpoint(weights, read_tensors(folder / "optimizer.safetensors").tensors, state, folder)

    def append_log(self, record: Mapping[str, Any]) -> None:
        with self.log.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")

    def cut_log(self, step: int) -> None:
        """Forget what was logged after a step: a resumed run will log it again."""
        if self.log.is_file():
            kept = [line for line in self.log.read_text("utf-8").splitlines() if _step_of(line) <= step]
            save_text(self.log, "".join(line + "\n" for line in kept))


def _step_of(line: str) -> float:
    """The step of a log line; a line cut short by a kill counts as after everything."""
    try:
        return int(json.loads(line).get("step", 0))
    except ValueError:
        return float("inf")


def _to_disk(folder: Path) -> None:
    """Bring a folder's list of names to the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> Tensors:
    """An optimizer's state as named tensors: ``parameter.what``. Where it is divided, all workers must ask for it."""
    return {
        f"{parameter}.{what}": whole(torch.as_tensor(value))
        for parameter, state in optimizer.state_dict()["state"].items()
        for what, value in state.items()
        if value is not None
    }


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Tensors, *, where: str) -> None:
    """The inverse of `optimizer_tensors`."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        number, _, what = name.partition(".")
        known = number.isdigit() and int(number) < len(parameters)
        if not known or (tensor.dim() and tensor.shape != parameters[int(number)].shape):
            raise CheckpointError(f"{where}: does not fit its recipe: optimizer tensor {name!r} {tuple(tensor.shape)}")
        ready = spread(tensor, like=parameters[int(number)]) if tensor.dim() else tensor
        state.setdefault(int(number), {})[what] = ready
    whole = optimizer.state_dict()
    optimizer.load_state_dict({"state": state, "param_groups": whole["param_groups"]})


def random_states() -> Tensors:
    """Where the random number generators stand."""
    states = {"random.cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        states["random.cuda"] = torch.cuda.get_rng_state()
    return states


def restore_random(tensors: Tensors, *, where: str) -> None:
    """The inverse of `random_states`."""
    if "random.cpu" not in tensors:
        raise CheckpointError(f"{where}: damaged; the state of the random numbers is missing")
    torch.set_rng_state(tensors["random.cpu"])
    if "random.cuda" in tensors and torch.cuda.is_available():
        torch.cuda.set_rng_state(tensors["random.cuda"])
