"""Training that starts from another run: its weights, and which of them are trained."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from weft.models.interface import Model
from weft.recipe import Recipe
from weft.recipe.loading import load_recipe
from weft.runs.layout import RunFolder
from weft.runs.weights import (
    Tensors,
    check_finite,
    initialize_from,
    is_vocabulary_table,
    load_weights,
    model_tensors,
)
from weft.text.frames import DEFAULT_RULES
from weft.text.tokenizer import Tokenizers
from weft.training.optimizer import freeze


def initialize(model: Model, start: RunFolder) -> None:
    """Initialize a model with the weights of another run, and with the adapter that it trained, if it did."""
    weights = start.read_model().tensors
    check_finite(weights, where=f"--from {start.model}")
    initialize_from(model, weights, where=str(start.path))
    lora = load_recipe(start.recipe).training.lora
    if lora.rank:
        from weft.runs.adapters import merge_adapter

        merge_adapter(model, start, lora.name)


def initialize_languages(model: Model, tokenizers: Tokenizers, names: Mapping[str, str]) -> None:
    """Give the token of each new language the weights of a language that is like it."""
    if not names:
        return
    sides = {"source_embedding": tokenizers.source, "target_embedding": tokenizers.target, "output": tokenizers.target}
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if is_vocabulary_table(name) and (side := name.partition(".")[0]) in sides:
                ids = getattr(sides[side], "rules", DEFAULT_RULES).languages
                for new, like in names.items():
                    parameter[ids[new]] = parameter[ids[like]]


def prepare_weights(model: Model, recipe: Recipe, run: RunFolder | None) -> Tensors:
    """Freeze weights and add adapters as a recipe says; returns the weights that the adapters are trained on.

    ``run``: the run folder if the run is resumed; its model.safetensors then has these weights.
    """
    settings = recipe.training
    freeze(model, settings.freeze)
    if not settings.lora.rank:
        return {}
    from weft.models.lora import add_adapters

    if run is not None:
        load_weights(model, run.read_model().tensors, where=str(run.model))
    base = model_tensors(model)
    add_adapters(model, settings.lora, seed=recipe.seed)
    return base
