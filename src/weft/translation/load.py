"""Loading trained runs: one, or several as an ensemble; in the precision and for the engine asked for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from weft.errors import SearchError
from weft.models import AnyModel, Ensemble, Searchable
from weft.models.build import build_model, choose_device
from weft.recipe import Recipe, load_recipe
from weft.runs.layout import RunFolder
from weft.runs.weights import load_weights
from weft.text.tokenizer_pair import Tokenizers, load_tokenizers
from weft.translation.translator import Translator

ENGINES = ("auto", "torch", "ctranslate2")
PRECISIONS = ("auto", "fp32", "bf16", "int8")


def load(
    path: Path | str, *more: Path | str, device: str = "auto", precision: str = "auto", engine: str = "auto"
) -> Translator:
    """A trained run, from its folder; with ``more`` runs, all of them as an ensemble.

    ``precision``: fp32, bf16 (a Transformer on a GPU), int8 (on a CPU); auto: bf16 where there is a GPU for it.
    ``engine``: torch, ctranslate2 (Transformers), or auto: the latter where it is installed and many lines are given.
    """
    if engine not in ENGINES:
        raise SearchError(f"--engine {engine}: not known; use {', '.join(ENGINES)}")
    place = choose_device(device)
    members = [_load_one(one) for one in (path, *more)]
    model: Searchable = members[0].model
    first = members[0]
    for other, name in zip(members[1:], more, strict=True):
        for side, ours, theirs in zip(("source", "target"), first.tokenizers, other.tokenizers, strict=True):
            if ours.pieces(range(ours.size)) != theirs.pieces(range(theirs.size)):
                raise SearchError(
                    f"{name}: its {side} vocabulary is not that of {path}; an ensemble shares one (train the second "
                    "run with the first one's tokenizer)"
                )
    if more:
        model = Ensemble([one.model for one in members])
    precision = _precision(precision, [one.recipe for one in members], place)
    if precision == "bf16":
        model = model.to(place, torch.bfloat16)
    elif precision == "int8" and engine != "ctranslate2":  # which makes its own eight bits of the weights as they are
        from weft.models.quantization import quantize

        model = quantize(model)
    return Translator(
        model,
        first.tokenizers,
        first.recipe,
        device=place,
        folder=Path(path),
        precision=precision,
        engine="torch"
        if engine == "auto" and (precision == "int8" or not _engine_holds(first.recipe, place))
        else engine,
    )


def _engine_holds(recipe: Recipe, device: torch.device) -> bool:
    """Whether CTranslate2 could search a run, here."""
    if device.type != "cpu":
        return False
    from weft.interop.ctranslate2_export import holds, installed

    return holds(recipe.model) is None and installed()


class _Loaded(NamedTuple):
    model: AnyModel
    tokenizers: Tokenizers
    recipe: Recipe


def _load_one(path: Path | str) -> _Loaded:
    folder = RunFolder(path).check()
    recipe = load_recipe(folder.recipe)
    tokenizers = load_tokenizers(folder.tokenizer_paths())
    weights = folder.read_model()
    model = build_model(recipe.model, source_size=tokenizers.source.size, target_size=tokenizers.target.size)
    load_weights(model, weights.tensors, where=str(folder.model))
    return _Loaded(model, tokenizers, recipe)


def _precision(asked: str, recipes: Sequence[Recipe], device: torch.device) -> str:
    """What to compute in."""
    if asked not in PRECISIONS:
        raise SearchError(f"--precision {asked}: not known; use {', '.join(PRECISIONS)}")
    recurs = any(recipe.model.recurs for recipe in recipes)
    if asked == "auto":
        return "bf16" if device.type == "cuda" and not recurs and torch.cuda.is_bf16_supported() else "fp32"
    if asked == "bf16" and (device.type != "cuda" or recurs):
        raise SearchError("--precision bf16: it is for Transformers on a GPU; use fp32, or int8 on a CPU")
    if asked == "int8" and device.type != "cpu":
        raise SearchError("--precision int8: it is for a CPU; add --device cpu, or use bf16 or fp32")
    return asked
