"""Reading a run folder: its recipe, its tokenizers and its model. `weft.load` makes a `Translator` of them.

Most of the time goes into imports, and into reading the weights; so they are read while modules are imported.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, NamedTuple

from weft.activity import activity
from weft.errors import CheckpointError
from weft.garbage_collection import collection_paused
from weft.runs.layout import RunFolder
from weft.runs.length_limits import SMALLEST, LengthLimits
from weft.runs.origin import WeightsOrigin
from weft.runs.weights import TensorFile, check_finite, check_shapes, load_weights, read_shapes

if TYPE_CHECKING:
    from weft.models.interface import Model
    from weft.recipe import Recipe
    from weft.text.tokenizer import Tokenizers


class LoadedRun(NamedTuple):
    """What a run folder holds, ready to use."""

    model: Model
    tokenizers: Tokenizers
    recipe: Recipe
    folder: Path | None = None
    length_limits: LengthLimits = SMALLEST


def load_run(path: Path | str, *, model: Model | None = None, adapter: str | None = None) -> LoadedRun:
    """Read a run folder; the model is on the CPU, in the precision of its file.

    Weights that are not trained, or not finite, are refused; of weights that were never validated or have learned
    nothing, a `WeftWarning` tells. ``model``: given the weights of the run in place of a model that its recipe
    describes. ``adapter``: the name of an adapter of the run to add to the weights, or "none"; by default the one that
    the run has trained, if it has.
    """
    if not isinstance(path, str | Path):
        raise CheckpointError(f"load: a {type(path).__name__} was given; expected the path of a run folder")
    folder = RunFolder(path).check()
    with activity(f"loading {path}"), collection_paused(), _reading(folder) as reading:
        return _load_run(folder, model, adapter, reading)


@contextmanager
def _reading(folder: RunFolder) -> Iterator[Future[TensorFile]]:
    """The weights of a run, read by a thread during the block; it stops where the block ends without them."""
    stop = Event()
    with ThreadPoolExecutor(1, "weft-reading") as pool:
        try:
            yield pool.submit(folder.read_model, stop)
        finally:
            stop.set()


def _load_run(folder: RunFolder, model: Model | None, adapter: str | None, reading: Future[TensorFile]) -> LoadedRun:
    from weft.models.build import build_model, parameter_shapes
    from weft.recipe import load_recipe
    from weft.recipe.training import NO_ADAPTER
    from weft.runs.copying import set_copy_table
    from weft.text.tokenizer import load_tokenizers

    recipe = load_recipe(folder.recipe)
    tokenizers = load_tokenizers(folder.tokenizer_paths())
    tokenizers = tokenizers.with_columns(recipe.model.sources.count, features=recipe.feature_columns)
    sizes = {"source_size": tokenizers.source.size, "target_size": tokenizers.target.size}
    if model is None:  # before anything of the size that the recipe says is allocated
        given, where = read_shapes(folder.model), str(folder.model)
        _check_layers(recipe, len(given), where=where)
        check_shapes(parameter_shapes(recipe.model, **sizes), given, where=where)
    own_model = model is not None
    if model is None:
        model = build_model(recipe.model, **sizes, loss=recipe.training.loss, initialize=False)
        set_copy_table(model, recipe.model, tokenizers)
    weights = reading.result()
    load_weights(model, weights.tensors, where=str(folder.model), adopt=not own_model)
    check_finite(weights.tensors, where=str(folder.model))
    origin = WeightsOrigin.from_metadata(weights.metadata)
    trained = recipe.training.lora.name if recipe.training.lora.rank else NO_ADAPTER
    if (adapter := adapter or trained) != NO_ADAPTER:
        from weft.runs.adapters import merge_adapter

        origin = merge_adapter(model, folder, adapter)
    if origin is not None:
        origin.check(
            folder.path,
            steps=recipe.training.steps,
            target_vocabulary=tokenizers.target.size,
            initialized=recipe.training.start is not None or own_model,
        )
    return LoadedRun(model, tokenizers, recipe, folder.path, LengthLimits.read(folder.path))


def _check_layers(recipe: Recipe, tensors: int, *, where: str) -> None:
    """Fail if a recipe has more layers than the file has tensors: computing their shapes would take forever."""
    for side in ("encoder", "decoder") if recipe.model.kind == "seq2seq" else ("decoder",):
        layers = getattr(recipe.model, side).layers
        if layers > tensors:
            raise CheckpointError(
                f"{where}: does not fit its recipe: it has {tensors} tensors, fewer than model.{side}.layers = {layers}"
            )
