"""Adapters of PEFT: LoRA in ``adapter_config.json`` and ``adapter_model.safetensors``, in and out of run folders.

Modules of an imported model have the names of its original: ``model.decoder.layers.0.self_attn.q_proj`` of BART and its
relatives, ``decoder.block.0.layer.0.SelfAttention.q`` of T5 and its own. Other models have weft's names of projections.
Queries of T5 are multiplied by √d here (`t5`), and so is what an adapter adds to them.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any, NamedTuple

from weft.errors import CheckpointError, warn
from weft.files import save_text
from weft.interop.huggingface.folder import Weights
from weft.models.lora import LowRank, misfit, projections
from weft.recipe import Recipe, TransformerSettings
from weft.recipe.training import LoraSettings, check_adapter_name
from weft.runs.adapters import (
    CONFIG,
    WEIGHTS,
    AdapterConfig,
    AdapterFolder,
    adapter_config,
    adapter_names,
    adapter_tensors,
    read_matrices,
    unknown_adapter,
)
from weft.runs.layout import RunFolder
from weft.runs.load import LoadedRun, load_run
from weft.runs.locks import creating_folder, lock_folder
from weft.runs.weights import Tensors, WeightsOrigin, write_tensors
from weft.runtime.activity import activity

PROJECTION = re.compile(r"(encoder|decoder)\.stack\.layers\.(\d+)\.(\w+)\.(\w+)")
BART = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj", "linear1": "fc1", "linear2": "fc2"}
BART_BLOCKS = {"self_attention": "self_attn.", "cross_attention": "encoder_attn.", "feed_forward": ""}
T5 = {"query": "q", "key": "k", "value": "v", "output": "o"}
T5 |= {"linear1": "wi", "gate": "wi_0", "up": "wi_1", "linear2": "wo"}
T5_BLOCKS = {"self_attention": "SelfAttention", "cross_attention": "EncDecAttention", "feed_forward": "DenseReluDense"}


class OriginalProjection(NamedTuple):
    """A projection under the name that PEFT knows it by."""

    name: str
    factor: float = 1.0
    """The factor by which weft scales its matrix."""


def original_projections(run: LoadedRun) -> dict[str, OriginalProjection]:
    """Every projection of a model by weft's name: as the original names it, or as weft does if there is none."""
    names = [each.name for each in projections(run.model)]
    if not all(hasattr(tokenizer, "external_ids") for tokenizer in run.tokenizers):
        return {name: OriginalProjection(name) for name in names}
    convert = _t5 if is_t5(run.recipe) else _bart
    return {name: convert(match, run.recipe) for name in names if (match := PROJECTION.fullmatch(name))}


def is_t5(recipe: Recipe) -> bool:
    """Whether an imported model is T5 or a relative: the others have no RMSNorm."""
    return isinstance(recipe.model.encoder, TransformerSettings) and recipe.model.encoder.norm == "rms"


def _bart(match: re.Match[str], recipe: Recipe) -> OriginalProjection:
    side, layer, block, part = match.groups()
    return OriginalProjection(f"model.{side}.layers.{layer}.{BART_BLOCKS[block]}{BART[part]}")


def _t5(match: re.Match[str], recipe: Recipe) -> OriginalProjection:
    side, layer, block, part = match.groups()
    stack = recipe.model.encoder if side == "encoder" else recipe.model.decoder
    assert isinstance(stack, TransformerSettings)
    number = {"self_attention": 0, "cross_attention": 1, "feed_forward": 2 if side == "decoder" else 1}[block]
    factor = math.sqrt(stack.head_width) if part == "query" else 1.0
    return OriginalProjection(f"{side}.block.{layer}.layer.{number}.{T5_BLOCKS[block]}.{T5[part]}", factor)


def read_peft(folder: Path, run: LoadedRun) -> tuple[dict[str, LowRank], dict[str, Any]]:
    """The adapter of a folder of PEFT under weft's names, and its configuration, made to fit them."""
    config = AdapterConfig.read(folder)
    where = str(folder / WEIGHTS)
    adapter = read_matrices(_tensors(folder), config, where)
    known = {original.name: (own, original.factor) for own, original in original_projections(run).items()}
    ranks = [len(matrices.lora_A) for matrices in adapter.values()]
    settings = LoraSettings(rank=max(ranks), alpha=_alpha(config, max(ranks)))
    own_adapter = {}
    for name, matrices in adapter.items():
        if name not in known:
            raise CheckpointError(f"{where}: adapts {name!r}, which {run.folder} does not have; it is of another model")
        own, factor = known[name]
        scale = settings.scale * settings.rank / len(matrices.lora_A)
        factor *= matrices.scale / scale  # 1, unless a projection has its own alpha
        scaled = matrices.lora_B if factor == 1.0 else matrices.lora_B * factor
        own_adapter[own] = LowRank(matrices.lora_A, scaled, scale)
    return own_adapter, adapter_config(settings, list(own_adapter))


def _alpha(config: AdapterConfig, rank: int) -> float:
    """lora_alpha; a rate of 0, which would switch the adapter off, and rates that depend on √r, are put into B."""
    alpha = config.scale("", rank) * rank
    return alpha if alpha > 0 else 1.0


def _tensors(folder: Path) -> Tensors:
    path = folder / WEIGHTS
    if not path.exists():
        pickled = folder / "adapter_model.bin"
        reason = "a pickle can run code; save it as safetensors" if pickled.exists() else "an adapter has one"
        raise CheckpointError(f"{pickled if pickled.exists() else path}: not read: {reason}")
    with Weights(folder, [path]) as weights:
        return {name: weights.take(name, *weights.shape(name)) for name in weights.names}


def add_adapter(path: Path | str, source: Path | str, name: str | None = None) -> str:
    """Copy an adapter into a run folder; returns its name.

    ``source``: a folder that PEFT wrote, or a run that has trained an adapter on the same weights. ``name``: by default
    that of the folder, or of the adapter of the run.
    """
    run, source = RunFolder(path).check(), Path(source)
    if not source.is_dir():
        raise CheckpointError(f"{source}: no such folder")
    with activity(f"reading {source}"):
        loaded = load_run(path, adapter="none")
        origin: WeightsOrigin | None = None
        if (source / "recipe.toml").is_file():
            other = RunFolder(source).check()
            lora = load_run(source, adapter="none").recipe.training.lora
            folder = AdapterFolder(other, lora.name)
            adapter, origin = folder.read()
            config = AdapterConfig.read(folder.path).values
            _compare_weights(run, other)
            name = name or lora.name
        else:
            adapter, config = read_peft(source, loaded)
            name = name or source.resolve().name
    try:
        check_adapter_name(name, "--name")
    except ValueError as error:
        raise CheckpointError(str(error)) from None
    if reason := misfit(loaded.model, adapter):
        raise CheckpointError(f"{source}: the adapter of another model: {reason}")
    if name in adapter_names(run):
        raise CheckpointError(f"--name {name}: {run.path} has an adapter of this name; choose another, or remove it")
    with lock_folder(run.path, "adding an adapter"):
        target = AdapterFolder(run, name)
        target.path.parent.mkdir(exist_ok=True)
        with creating_folder(target.path) as temporary:
            target.path = temporary
            target.write(adapter, config, origin or WeightsOrigin("imported", (0,)))
    return name


def _compare_weights(run: RunFolder, other: RunFolder) -> None:
    """Warn if an adapter was trained on weights other than those of the run that it is added to."""
    own, others = run.read_model().tensors, other.read_model().tensors
    if own.keys() != others.keys() or any(not own[name].equal(others[name]) for name in own):
        warn(f"{other.path}: its adapter was trained on weights other than those of {run.path}; check its outputs")


def export_adapter(path: Path | str, name: str, out: Path | str) -> Path:
    """Write an adapter of a run as a folder that PEFT reads, for the original of an imported model."""
    run, out = RunFolder(path).check(), Path(out)
    if name not in adapter_names(run):
        raise unknown_adapter(run, name)
    RunFolder.check_new(out)
    loaded = load_run(path, adapter="none")
    adapter, _ = AdapterFolder(run, name).read()
    if reason := misfit(loaded.model, adapter):
        raise CheckpointError(f"{AdapterFolder(run, name).path}: the adapter of another model: {reason}")
    originals = original_projections(loaded)
    config = AdapterConfig.read(AdapterFolder(run, name).path).values
    converted: dict[str, LowRank] = {}
    for own, matrices in adapter.items():
        if own not in originals:
            raise CheckpointError(f"--adapter {name}: the original of {run.path} has no module like {own!r}")
        module, factor = originals[own]
        converted[module] = matrices if factor == 1.0 else matrices._replace(lora_B=matrices.lora_B / factor)
    rank = config.get("r")
    ranks = {module: len(pair.lora_A) for module, pair in converted.items() if len(pair.lora_A) != rank}
    values = {**config, "target_modules": list(converted), "rank_pattern": ranks, "alpha_pattern": {}}
    with lock_folder(out, "exporting"), creating_folder(out) as temporary:
        save_text(temporary / CONFIG, json.dumps(values, indent=2) + "\n")
        write_tensors(temporary / WEIGHTS, adapter_tensors(converted), {"format": "pt"})
    return out
