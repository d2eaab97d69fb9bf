"""Reading a run folder: its recipe, its tokenizers and its model. `weft.load` makes a `Translator` of them.

Most of the time goes into imports, and into reading the weights; so they are read while modules are imported. A
model that copies (``model.copy``) is told which target ids the source ids of its tokenizers stand for.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, NamedTuple, Self, cast

from weft.errors import CheckpointError, RecipeError
from weft.runs.layout import RunFolder, fingerprint
from weft.runs.length_limits import SMALLEST, LengthLimits
from weft.runs.weights import (
    Shapes,
    TensorFile,
    TensorReading,
    WeightsOrigin,
    check_finite,
    check_shapes,
    load_weights,
    read_shapes,
    shapes_of,
)
from weft.runtime.activity import activity
from weft.text.tokenizer import Tokenizers

if TYPE_CHECKING:
    from weft.models.interface import Model
    from weft.recipe import ModelSettings, Recipe
    from weft.text.copying import SentenceIds
    from weft.text.tokenizer import Tokenizers


class LoadedRun(NamedTuple):
    """The content of a run folder, ready to use."""

    model: Model
    tokenizers: Tokenizers
    recipe: Recipe
    folder: Path | None = None
    length_limits: LengthLimits = SMALLEST


def load_run(
    path: Path | str,
    *,
    model: Model | None = None,
    adapter: str | None = None,
    meanwhile: Callable[[], object] | None = None,
) -> LoadedRun:
    """Read a run folder; the model is on the CPU, in the precision of its file.

    Weights that are not trained, or not finite, are refused; weights that were never validated or have learned
    nothing cause a `WeftWarning`. ``model``: given the weights of the run in place of a model that its recipe
    describes. ``adapter``: the name of an adapter of the run to add to the weights, or "none"; by default the one that
    the run has trained, if it has. ``meanwhile``: called while the weights are read, to import modules.
    """
    if not isinstance(path, str | Path):
        raise CheckpointError(f"load: a {type(path).__name__} was given; expected the path of a run folder")
    folder = RunFolder(path).check()
    with activity(f"loading {path}"), _BackgroundReading(folder, meanwhile) as reading:
        return _load_run(folder, model, adapter, reading)


class _BackgroundReading:
    """The weights of a run, read by a thread in the ``with`` block; it stops where the block ends without them."""

    def __init__(self, folder: RunFolder, meanwhile: Callable[[], object] | None) -> None:
        """``meanwhile``: called before waiting for the thread."""
        self._folder = folder
        self._meanwhile = meanwhile
        self._stop = Event()
        self._pool = ThreadPoolExecutor(1, "weft-reading")
        self._error: Exception | None = None

    def __enter__(self) -> Self:
        try:
            self._file = TensorReading(self._folder.model)
            self._tokenizer = self._pool.submit(fingerprint, self._folder.tokenizer_paths())
            self._read = self._pool.submit(self._file.read, self._stop)
        except Exception as error:  # what else is wrong with the run comes first
            self._error = error
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._pool.shutdown()

    def result(self) -> TensorFile:
        """The weights: finite numbers, which belong to the tokenizer of the run."""
        if self._error is not None:
            raise self._error
        if self._meanwhile is not None:
            self._meanwhile()
        self._read.result()
        weights = self._folder.check_tokenizer(self._file.result(), self._tokenizer.result())
        if not self._file.is_finite():
            check_finite(weights.tensors, where=str(self._folder.model))
        return weights


def _load_run(folder: RunFolder, model: Model | None, adapter: str | None, reading: _BackgroundReading) -> LoadedRun:
    from weft.recipe import load_recipe
    from weft.recipe.training import NO_ADAPTER
    from weft.runs.load import set_copy_table
    from weft.text.tokenizer import load_tokenizers

    recipe = load_recipe(folder.recipe)
    tokenizers = load_tokenizers(folder.tokenizer_paths(), check=False)  # their fingerprint is checked with the weights
    tokenizers = tokenizers.with_columns(
        recipe.model.sources.count, given=recipe.given_columns, features=recipe.feature_columns
    )
    own_model = model is not None
    if model is None:
        model = _build_model(recipe, tokenizers, read_shapes(folder.model), where=str(folder.model))
        set_copy_table(model, recipe.model, tokenizers)
    weights = reading.result()
    load_weights(model, weights.tensors, where=str(folder.model), assign=not own_model)
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


def _build_model(recipe: Recipe, tokenizers: Tokenizers, given: Shapes, *, where: str) -> Model:
    """The model of a recipe, its parameters on the meta device, with the shapes of those in the file."""
    from weft.models.build import build_on_meta, reset_buffers

    _check_layers(recipe, len(given), where=where)
    sizes = {"source_size": tokenizers.source.size, "target_size": tokenizers.target.size}
    model = build_on_meta(recipe.model, **sizes, loss=recipe.training.loss, ctc=recipe.training.ctc > 0)
    check_shapes(shapes_of(dict(model.named_parameters())), given, where=where)
    reset_buffers(model)
    return model


def _check_layers(recipe: Recipe, tensors: int, *, where: str) -> None:
    """Fail if a recipe has more layers than the file has tensors: computing their shapes would take forever."""
    sides = {"seq2seq": ("encoder", "decoder"), "ctc": ("encoder",)}.get(recipe.model.kind, ("decoder",))
    for side in sides:
        layers = getattr(recipe.model, side).layers
        if layers > tensors:
            raise CheckpointError(
                f"{where}: does not fit its recipe: it has {tensors} tensors, fewer than model.{side}.layers = {layers}"
            )


def set_copy_table(model: Model, settings: ModelSettings, tokenizers: Tokenizers) -> None:
    """Tell a model that copies which target ids the source ids of its run stand for."""
    if not settings.copies:
        return
    from weft.models.architecture import architecture_of

    if not architecture_of(model).copies:
        return
    from weft.models.copying import CopySource, CopyTable
    from weft.text.copying import SentenceIds, target_ids
    from weft.text.specials import END

    table = CopyTable(target_ids(tokenizers), own_ids=SentenceIds.of(tokenizers) is not None)
    if not table.own_ids and not any(id > END for id in table.target_ids):
        raise RecipeError(
            "model.copy: no source token is in the target vocabulary, so none can be copied; "
            "set tokenizer.joint = true, or the same kind of tokenizer for both sides"
        )
    cast(CopySource, model).set_table(table)


def sentence_ids(settings: ModelSettings, tokenizers: Tokenizers) -> SentenceIds | None:
    """Ids for tokens that are not in the vocabularies; None if the model, or a tokenizer, has none."""
    if not settings.copies:
        return None
    from weft.text.copying import SentenceIds

    return SentenceIds.of(tokenizers)
