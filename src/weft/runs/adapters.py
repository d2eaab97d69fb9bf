"""The adapters of a run folder, in the layout of PEFT.

    adapters/NAME/adapter_config.json          rank, alpha and targets
    adapters/NAME/adapter_model.safetensors    base_model.model.PROJECTION.lora_A.weight and lora_B.weight; in the
                                               metadata, of which training steps they are (origin.py)

Projections have weft's names (`weft.models.lora`); `weft.interop.huggingface.peft` translates those of Hugging Face.
The weights of the run, model.safetensors, are those that the adapters were trained on.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from weft.errors import CheckpointError, nearest, option
from weft.files import read_json, save_text
from weft.models.lora import LowRank, adapter_of, merge, misfit
from weft.recipe import load_recipe
from weft.recipe.training import MAX_ALPHA, NO_ADAPTER, LoraSettings
from weft.runs import adapted_run
from weft.runs.adapted_run import WEIGHTS
from weft.runs.layout import RunFolder
from weft.runs.weights import TensorFile, Tensors, WeightsOrigin, check_finite, read_tensors, write_tensors

if TYPE_CHECKING:
    from weft.models.interface import Model

CONFIG = "adapter_config.json"
KEY = re.compile(r"base_model\.model\.(.+)\.(lora_[AB])(?:\.default)?\.weight")
UNSUPPORTED = {
    "use_dora": "magnitudes of DoRA",
    "modules_to_save": "whole modules beside the adapters",
    "trainable_token_indices": "trained tokens",
    "layer_replication": "replicated layers",
    "fan_in_fan_out": "transposed matrices",
    "lora_bias": "biases of adapters",
}
"""Entries of adapter_config.json that, if set, make something else of an adapter, in words."""


class AdapterConfig(NamedTuple):
    """The content of adapter_config.json."""

    values: dict[str, Any]
    where: str

    @classmethod
    def read(cls, folder: Path) -> AdapterConfig:
        path = folder / CONFIG
        if not path.is_file():
            raise CheckpointError(f"{path}: missing; an adapter is a folder with {CONFIG} and {WEIGHTS}")
        values = read_json(path)
        if not isinstance(values, dict):
            raise CheckpointError(f"{path}: damaged; expected an object")
        config = cls(values, str(path))
        config._check()
        return config

    def _check(self) -> None:
        kind = self.values.get("peft_type")
        if kind != "LORA":
            raise CheckpointError(f"{self.where}: peft_type: {kind!r} is not known; weft reads 'LORA'")
        if self.values.get("bias", "none") != "none":
            raise CheckpointError(f"{self.where}: bias: {self.values['bias']!r}: biases that were trained are not read")
        for name, words in UNSUPPORTED.items():
            if self.values.get(name):
                raise CheckpointError(f"{self.where}: {name}: {words} are not read; weft reads plain LoRA")

    def check_ranks(self, ranks: set[int]) -> None:
        """Fail if ``r`` is not the rank of any matrix, unless matrices have their own ranks."""
        rank = self.values.get("r")
        if rank is None or (type(rank) is int and rank > 0 and (rank in ranks or self.values.get("rank_pattern"))):
            return
        given = ", ".join(map(str, sorted(ranks)))
        raise CheckpointError(f"{self.where}: r: {rank!r} was given; the matrices of the adapter have rank {given}")

    def scale(self, projection: str, rank: int) -> float:
        """α / r, or α / √r if use_rslora is set, of the projection that has this name in the file."""
        alpha = self.values.get("lora_alpha", 8)
        for pattern, value in (self.values.get("alpha_pattern") or {}).items():
            try:
                matches = re.match(rf"(.*\.)?({pattern})$", projection)
            except re.error:
                raise CheckpointError(f"{self.where}: alpha_pattern: {pattern!r} is not a regular expression") from None
            if matches:
                alpha = value
                break
        if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not 0 <= alpha <= MAX_ALPHA:
            raise CheckpointError(f"{self.where}: lora_alpha: {alpha!r}; expected a number from 0 to {MAX_ALPHA:,}")
        return alpha / (math.sqrt(rank) if self.values.get("use_rslora") else rank)


def read_matrices(file: TensorFile | Mapping[str, Any], config: AdapterConfig, where: str) -> dict[str, LowRank]:
    """The matrices of an adapter by projection, under the names of the file."""
    tensors = file.tensors if isinstance(file, TensorFile) else file
    parts: dict[str, dict[str, Any]] = {}
    for key, tensor in tensors.items():
        match = KEY.fullmatch(key)
        if match is None or tensor.dim() != 2 or not tensor.is_floating_point():
            raise CheckpointError(f"{where}: tensor {key!r}: not a matrix of a LoRA adapter of linear maps")
        parts.setdefault(match[1], {})[match[2]] = tensor
    if not parts:
        raise CheckpointError(f"{where}: has no tensors")
    adapter = {}
    for name, pair in parts.items():
        if len(pair) < 2:
            raise CheckpointError(f"{where}: {name!r} has {next(iter(pair))}, but not the other matrix")
        adapter[name] = LowRank(pair["lora_A"], pair["lora_B"], config.scale(name, max(len(pair["lora_A"]), 1)))
    config.check_ranks({len(matrices.lora_A) for matrices in adapter.values()})
    check_finite(adapter_tensors(adapter), where=where)
    return adapter


class AdapterFolder:
    """The folder of an adapter, in a run folder."""

    def __init__(self, run: RunFolder, name: str) -> None:
        self.run, self.name = run, name
        self.path = adapters_folder(run) / name

    def write(self, adapter: Mapping[str, LowRank], config: dict[str, Any], origin: WeightsOrigin) -> None:
        """Write the adapter, or replace its matrices."""
        self.path.mkdir(parents=True, exist_ok=True)
        if not (self.path / CONFIG).exists():
            save_text(self.path / CONFIG, json.dumps(config, indent=2) + "\n")
        write_tensors(self.path / WEIGHTS, adapter_tensors(adapter), {"format": "pt", **origin.metadata()})

    def read(self) -> tuple[dict[str, LowRank], WeightsOrigin | None]:
        """The adapter, and which weights it is."""
        if self.name not in adapter_names(self.run):
            raise unknown_adapter(self.run, self.name)
        file = read_tensors(self.path / WEIGHTS)
        adapter = read_matrices(file, AdapterConfig.read(self.path), str(self.path / WEIGHTS))
        return adapter, WeightsOrigin.from_metadata(file.metadata)


def remove_adapter(run: RunFolder, name: str) -> None:
    """Remove an adapter; not the one that the run has trained, without which it could not be loaded."""
    if name not in adapter_names(run):
        raise unknown_adapter(run, name)
    lora = load_recipe(run.recipe).training.lora
    if lora.rank and lora.name == name:
        raise CheckpointError(f"{run.path}: has trained the adapter {name!r} itself; remove the run folder instead")
    folder = AdapterFolder(run, name)
    (folder.path / WEIGHTS).unlink()  # without it there is no adapter
    if not folder.path.is_symlink():
        (folder.path / CONFIG).unlink(missing_ok=True)
        with suppress(OSError):  # files of a user stay
            folder.path.rmdir()


def adapters_folder(run: RunFolder) -> Path:
    return run.path / "adapters"


def adapter_names(run: RunFolder) -> list[str]:
    """The names of a run's adapters."""
    return adapted_run.adapter_names(run.path)


def unknown_adapter(run: RunFolder, name: str) -> CheckpointError:
    names = adapter_names(run)
    has = nearest(name, [*names, NO_ADAPTER]) if names else "it has none"
    return CheckpointError(f"{option('adapter', name)}: {run.path} has no adapter of this name; {has}")


def adapter_tensors(adapter: Mapping[str, LowRank]) -> Tensors:
    """The tensors of a file, under the names of PEFT."""
    return {
        f"base_model.model.{name}.{each}.weight": getattr(matrices, each)
        for name, matrices in adapter.items()
        for each in ("lora_A", "lora_B")
    }


def adapter_config(settings: LoraSettings, targets: list[str]) -> dict[str, Any]:
    """adapter_config.json, with the entries that PEFT reads."""
    return {
        "peft_type": "LORA",
        "task_type": "SEQ_2_SEQ_LM",
        "base_model_name_or_path": None,
        "inference_mode": True,
        "r": settings.rank,
        "lora_alpha": settings.scale * settings.rank,
        "lora_dropout": settings.dropout,
        "target_modules": targets,
        "bias": "none",
        "fan_in_fan_out": False,
        "use_rslora": False,
        "use_dora": False,
        "modules_to_save": None,
    }


def write_trained(
    run: RunFolder, model: Model, settings: LoraSettings, tensors: Tensors, origin: WeightsOrigin
) -> None:
    """Write the adapter that a run trains; ``tensors``: tensors by the names of the model's parameters."""
    adapter = adapter_of(model, tensors, settings.scale)
    AdapterFolder(run, settings.name).write(adapter, adapter_config(settings, list(adapter)), origin)


def merge_adapter(model: Model, run: RunFolder, name: str) -> WeightsOrigin | None:
    """Add an adapter of a run to the weights of its model; returns which weights it is."""
    folder = AdapterFolder(run, name)
    adapter, origin = folder.read()
    if reason := misfit(model, adapter):
        raise CheckpointError(f"{folder.path}: the adapter of another model: {reason}")
    merge(model, adapter)
    return origin
