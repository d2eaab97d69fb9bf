"""`weft.load`: trained runs as a translator; one, or several as an ensemble, in a given precision, for an engine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from weft.errors import CheckpointError, SearchError, option, warn
from weft.runs.length_limits import LengthLimits
from weft.runs.load import LoadedRun, load_run
from weft.runtime.devices import choose_device, start_device
from weft.runtime.replaceable import replaceable

if TYPE_CHECKING:
    from weft.models.interface import Model
    from weft.recipe import Recipe
    from weft.translation.engines.interface import Engine
    from weft.translation.engines.torch import TorchEngine
    from weft.translation.translator import Translator

ENGINES = ("auto", "torch", "ctranslate2")
PRECISIONS = ("auto", "fp32", "tf32", "bf16", "int8")


def load(
    path: Path | str,
    *more: Path | str,
    model: Model | None = None,
    device: str = "auto",
    precision: str = "auto",
    engine: str = "auto",
    adapter: str | None = None,
) -> Translator:
    """A trained run from its folder; with ``more`` runs, an ensemble of all of them.

        run = weft.load("runs/grammar")
        ensemble = weft.load("runs/a", "runs/b", device="cuda")

    ``model``: your own, of a run that was trained with `weft.train(..., model=...)`; it gets the weights of the run.
    ``precision``: fp32, tf32 (on a GPU), bf16 (a Transformer on a GPU) or int8 (on a CPU); auto: on a GPU bf16, or tf32
    for recurrent models, if it supports them; else fp32.
    ``engine``: torch, ctranslate2 (Transformers), or auto: CTranslate2 if it is installed and many lines are given.
    ``adapter``: an adapter of the first run, by name, or "none"; by default the one that the run has trained, if any.
    """
    if engine not in ENGINES:
        raise SearchError(f"{option('engine', engine)}: unknown; use {', '.join(ENGINES)}")
    torch_device = choose_device(device, given=option("device", device))
    start_device(torch_device)
    own_model = model is not None
    if own_model:
        engine = "torch"
    runs = [load_run(path, model=model, adapter=adapter, meanwhile=_import_translator), *map(load_run, more)]
    from weft.translation.engines.torch import TorchEngine
    from weft.translation.translator import Translator

    _check_vocabularies(runs)
    precision = choose_precision(precision, [run.recipe for run in runs], torch_device)
    model = runs[0].model
    if more:
        from weft.models.ensemble import Ensemble

        model = Ensemble([run.model for run in runs])
    if precision == "bf16":
        model = model.to(torch_device, torch.bfloat16)
    elif precision == "int8" and engine != "ctranslate2":  # CTranslate2 quantizes the weights itself
        model = to_int8(model)
    first = runs[0]
    torch_engine = TorchEngine(
        model, first.tokenizers.target, device=torch_device, precision=precision, seed=first.recipe.seed
    )
    translator = Translator(
        torch_engine.model,
        first.tokenizers,
        first.recipe,
        device=torch_device,
        engine=_choose_engine(engine, first, torch_engine),
        folder=first.folder,
    )
    translator.length_limits = LengthLimits.largest(run.length_limits for run in runs)
    if first.folder is not None and not more and adapter is None and not own_model:
        _read_calibration(translator, first.folder)
    return translator


def _read_calibration(translator: Translator, folder: Path) -> None:
    """Let a translator know how likely its outputs are right; a damaged file causes a warning."""
    from weft.translation.confidence import read_confidence

    translator.calibrated_folder = folder
    try:
        translator.text.confidence = read_confidence(folder)
    except CheckpointError as error:  # the run translates without it
        warn(str(error))


@replaceable
def to_int8(model: Model) -> Model:
    """The model with eight-bit products: in `weft.fast` alone."""
    raise SearchError(f"{option('precision', 'int8')}: needs weft.fast, which is switched off; use fp32")


def _import_translator() -> None:
    import weft.translation.engines.torch
    import weft.translation.translator  # noqa: F401


def _choose_engine(name: str, run: LoadedRun, torch_engine: TorchEngine) -> Engine:
    """The engine to search with; ``auto``: CTranslate2 if it can hold the model and is installed."""
    if name == "torch":
        return torch_engine
    worthwhile = torch_engine.device.type == "cpu" and torch_engine.precision != "int8" and not run.recipe.model.recurs
    if name == "auto" and not worthwhile:
        return torch_engine
    from weft.translation.engines.ctranslate2.support import is_installed, unsupported_model

    unsupported = unsupported_model(run.recipe.model, loss=run.recipe.training.loss)
    if name == "auto" and (unsupported is not None or not is_installed()):
        return torch_engine
    from weft.translation.engines.ctranslate2.engine import MIN_SENTENCES, CTranslate2Engine
    from weft.translation.engines.interface import AutoEngine

    engine = CTranslate2Engine(run, torch_engine, required=name == "ctranslate2")
    return engine if name == "ctranslate2" else AutoEngine(torch_engine, engine, min_sources=MIN_SENTENCES)


def _check_vocabularies(runs: Sequence[LoadedRun]) -> None:
    """The members of an ensemble must share their vocabularies."""
    first = runs[0]
    for run in runs[1:]:
        columns, expected_columns = (one.recipe.model.sources.count for one in (run, first))
        if columns != expected_columns:
            raise SearchError(
                f"{run.folder}: model.sources.count is {columns}, but {expected_columns} in {first.folder}; "
                "the runs of an ensemble read the same sources"
            )
        for side, expected, given in zip(("source", "target"), first.tokenizers, run.tokenizers, strict=True):
            if expected.tokens(range(expected.size)) != given.tokens(range(given.size)):
                raise SearchError(
                    f"{run.folder}: its {side} vocabulary differs from that of {first.folder}; the runs of an ensemble "
                    "share one (train the second run with the tokenizer of the first)"
                )


def choose_precision(name: str, recipes: Sequence[Recipe], device: torch.device) -> str:
    """The precision to compute in."""
    if name not in PRECISIONS:
        raise SearchError(f"{option('precision', name)}: unknown; use {', '.join(PRECISIONS)}")
    recurrent = any(recipe.model.recurs for recipe in recipes)
    if name == "auto":
        if device.type != "cuda" or not torch.cuda.is_bf16_supported(including_emulation=False):
            return "fp32"
        return "tf32" if recurrent else "bf16"  # GPUs that have one of them have both
    if name == "bf16" and (device.type != "cuda" or recurrent):
        raise SearchError(f"{option('precision', 'bf16')}: only for Transformers on a GPU; use fp32, or int8 on a CPU")
    if name == "tf32" and device.type != "cuda":
        raise SearchError(f"{option('precision', 'tf32')}: only on a GPU; use fp32 or int8")
    if name == "int8" and device.type != "cpu":
        device_option = option("device", "cpu")
        raise SearchError(f"{option('precision', 'int8')}: only on a CPU; add {device_option}, or use bf16 or fp32")
    return name
