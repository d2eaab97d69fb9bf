"""Reading a run folder: its recipe, its tokenizers and its model. `weft.load` makes a `Translator` of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from weft.errors import CheckpointError
from weft.models.build import build_model
from weft.recipe import Recipe, load_recipe
from weft.runs.layout import RunFolder
from weft.runs.length_limits import SMALLEST, LengthLimits
from weft.runs.origin import WeightsOrigin
from weft.runs.weights import check_finite, load_weights
from weft.text.tokenizer import Tokenizers, load_tokenizers

if TYPE_CHECKING:
    from weft.models.interface import Model


class LoadedRun(NamedTuple):
    """What a run folder holds, ready to use."""

    model: Model
    tokenizers: Tokenizers
    recipe: Recipe
    folder: Path | None = None
    length_limits: LengthLimits = SMALLEST


def load_run(path: Path | str, *, model: Model | None = None) -> LoadedRun:
    """Read a run folder; the model is on the CPU, in the precision of its file.

    Weights that are not trained, or not finite, are refused; of weights that were never validated or have learned
    nothing, a `WeftWarning` tells. ``model``: given the weights of the run in place of a model that its recipe
    describes.
    """
    if not isinstance(path, str | Path):
        raise CheckpointError(f"load: a {type(path).__name__} was given; expected the path of a run folder")
    folder = RunFolder(path).check()
    recipe = load_recipe(folder.recipe)
    tokenizers = load_tokenizers(folder.tokenizer_paths())
    weights = folder.read_model()
    own_model = model is not None
    if model is None:
        model = build_model(recipe.model, source_size=tokenizers.source.size, target_size=tokenizers.target.size)
    load_weights(model, weights.tensors, where=str(folder.model))
    check_finite(weights.tensors, where=str(folder.model))
    if origin := WeightsOrigin.from_metadata(weights.metadata):
        origin.check(
            Path(path),
            steps=recipe.training.steps,
            target_vocabulary=tokenizers.target.size,
            initialized=recipe.training.start is not None or own_model,
        )
    return LoadedRun(model, tokenizers, recipe, Path(path), LengthLimits.read(folder.path))
