"""The formats that a model can be exported to, from its recipe alone, before it is trained. No torch is imported.

The rules are those of the exporters, which refuse a run with the same reasons:

    CTranslate2     weft.translation.engines.ctranslate2.support
    ONNX            weft.interop.onnx.support
    Hugging Face    weft.interop.huggingface.architectures

Marian is not among them: only models that were imported from it are exported to it. Nor are rules about weights, which
a recipe does not have: the biases of a T5 model must be zero.
"""

from __future__ import annotations

from typing import NamedTuple

from weft.interop.huggingface.architectures import CLASSES, find_architecture, unsupported_recipe
from weft.interop.onnx.support import unsupported as unsupported_in_onnx
from weft.recipe import Recipe
from weft.translation.engines.ctranslate2.support import unsupported_model

EXPORTS_TO, NO_EXPORT_TO = "exports to: ", "no export to "
"""Beginnings of the lines about exports in a recommendation."""


class Portability(NamedTuple):
    """Whether a model can be exported to a format."""

    format: str
    """Name of the format in ``weft export --format``."""
    name: str
    """Name of the format for readers."""
    refusal: str | None
    """The reason why it cannot be exported, in one line that names a setting; None if it can."""


def portability(recipe: Recipe) -> list[Portability]:
    """Whether a run of this recipe can be exported, for each format."""
    kind, _ = find_architecture(recipe)
    model_class = "" if kind is None else f" ({CLASSES[kind]})"
    return [
        Portability("ctranslate2", "CTranslate2", unsupported_model(recipe.model, loss=recipe.training.loss)),
        Portability("onnx", "ONNX", unsupported_in_onnx(recipe.model)),
        Portability("huggingface", f"Hugging Face{model_class}", unsupported_recipe(recipe)),
    ]


def export_lines(recipe: Recipe) -> list[str]:
    """A line with the formats to which a run of this recipe can be exported, and one for each other format."""
    formats = portability(recipe)
    exported = [format.name for format in formats if format.refusal is None]
    refused = [f"{NO_EXPORT_TO}{format.name}: {format.refusal}" for format in formats if format.refusal is not None]
    return [*([f"{EXPORTS_TO}{', '.join(exported)}"] if exported else []), *refused]
