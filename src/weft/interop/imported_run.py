"""From a model in weft's terms to a run folder, as if it had been trained here; and the options of an import.

The folder appears complete in one rename. Weights are stored in single precision; rows of vocabularies are put in the
order of weft's ids, with the special tokens first.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from weft.errors import CheckpointError, RecipeError
from weft.files import save_text
from weft.recipe import Recipe, make_recipe
from weft.recipe.toml import write_toml
from weft.runs.layout import RunFolder
from weft.runs.weights import WeightsOrigin
from weft.text.tokenizer import Tokenizers

if TYPE_CHECKING:
    from torch import Tensor


class ImportOptions(NamedTuple):
    """The options of an import."""

    source_language: str | None = None
    target_language: str | None = None
    default_search: bool = False
    """Weft's own search settings instead of those of the original."""
    vocabularies: tuple[Path, ...] = ()
    """Vocabulary files of Marian, fairseq and Joey NMT: one for both sides, or one each; empty: those of the model."""
    numerics: str = "marian"
    """Numerics of a Marian model: sinusoids and ε of norms as in Marian or as in Hugging Face."""


TRAINING = {"learning_rate": 5e-5, "label_smoothing": 0.1}
"""Settings for continued training: a rate at which pretrained weights are changed little."""
PAIRS = "pairs.tsv"
"""data.train of an imported run: the pairs that it is to be trained on further."""
MAX_LENGTH = 250
"""data.max_length, unless the model has fewer positions."""


class Conversion(NamedTuple):
    """A model in weft's terms."""

    model: dict[str, Any]
    """The settings of [model]."""
    tensors: dict[str, Tensor]
    """Tensors by their names in weft, with vocabularies in the order of the original."""
    rows: tuple[int, int]
    """The sizes of the vocabularies of source and target."""


class ImportedModel(NamedTuple):
    """The content of a run folder to be written."""

    source: str
    """The name given by the user: a folder, a file, a model on the Hub."""
    where: str
    """The folder or file with the weights, for messages."""
    config: str
    """The file with the configuration, for messages."""
    family: str
    """The model family, such as Marian (OPUS-MT)."""
    kind: str
    """The name of the model's class, if it has one."""
    conversion: Conversion
    tokenizers: Tokenizers
    search: dict[str, Any]
    """The settings of [search]."""
    texts: str = ""
    """The format of texts if not plain, such as: tokens separated by spaces."""


def write_run(out: Path, name: str, imported: ImportedModel) -> None:
    """Write the run folder; ``name``: the recipe's name."""
    recipe = _recipe(name, imported)
    tensors = _with_own_ids(imported.conversion.tensors, imported.tokenizers)
    _check(imported, recipe, tensors)

    def fill(run: RunFolder) -> None:
        save_text(run.recipe, write_toml(recipe, [f"imported from {imported.source}"]))
        imported.tokenizers.save(run.path)
        run.write_model(tensors, WeightsOrigin("imported", (0,)))
        save_text(run.card, card(recipe, imported, out))

    RunFolder.create(out, fill)


def _recipe(name: str, imported: ImportedModel) -> Recipe:
    """The recipe of the run."""
    model = imported.conversion.model
    limits = [stack["max_positions"] for stack in (model["encoder"], model["decoder"]) if "max_positions" in stack]
    longest = min([MAX_LENGTH, *(limit - 3 for limit in limits)])  # the end token, and a frame of two tokens
    tree = {
        "name": name,
        "summary": f"{imported.family}, imported from {name}",
        "data": {"train": PAIRS, "max_length": max(longest, 1)},
        "tokenizer": {"joint": imported.tokenizers.joint or model["tie"] in ("inputs", "all")},
        "model": model,
        "training": TRAINING,
        "search": imported.search,
    }
    try:
        return make_recipe(tree)
    except RecipeError as error:
        line = str(error).split("\n")[0]
        raise CheckpointError(f"{imported.config}: describes a model that weft does not have: {line}") from None


def external_ids(tokenizer: Any) -> tuple[int, ...]:
    """The original's id of every id of an imported tokenizer."""
    ids: tuple[int, ...] = tokenizer.external_ids
    return ids


def _with_own_ids(tensors: Mapping[str, Tensor], tokenizers: Tokenizers) -> dict[str, Tensor]:
    """The tensors, with the rows of vocabularies in the order of weft's ids."""
    import torch

    orders = {
        "source_embedding.weight_VE": tokenizers.source,
        "target_embedding.weight_VE": tokenizers.target,
        "output.weight_VD": tokenizers.target,
        "output.bias_V": tokenizers.target,
    }
    return {
        name: tensor[torch.tensor(external_ids(orders[name]))] if name in orders else tensor
        for name, tensor in tensors.items()
    }


def _check(imported: ImportedModel, recipe: Recipe, tensors: Mapping[str, Tensor]) -> None:
    """Fail unless the weights are those of the model that the recipe describes, and finite."""
    from weft.models.build import parameter_shapes
    from weft.runs.weights import check_finite, check_shapes, shapes_of

    tokenizers = imported.tokenizers
    sizes = {"source_size": tokenizers.source.size, "target_size": tokenizers.target.size}
    check_shapes(parameter_shapes(recipe.model, **sizes), shapes_of(tensors), where=imported.where)
    check_finite(dict(tensors), where=imported.where)


def card(recipe: Recipe, imported: ImportedModel, run: Path) -> str:
    """README.md of the run folder."""
    model, tokenizers = recipe.model, imported.tokenizers
    stacks = [f"{stack.layers} × {stack.hidden}" for stack in (model.encoder, model.decoder)]
    sizes = f"{tokenizers.source.size:,}"
    if tokenizers.source.size != tokenizers.target.size:
        sizes += f" source, {tokenizers.target.size:,} target"
    use = f"weft translate {shlex.quote(str(run))}"
    return "\n".join(
        [
            f"# {recipe.name}",
            "",
            f"Imported by weft from {imported.source} ({imported.kind}). Its license is that of the original.",
            "",
            f"- model: {model.encoder.kind} encoder {stacks[0]}, decoder {stacks[1]}",
            f"- vocabulary: {sizes}",
            *([f"- texts: {imported.texts}"] if imported.texts else []),
            "- weights: those of the original, in single precision",
            f"- search: {recipe.search.kind}" + (f" of {recipe.search.size}" if recipe.search.kind == "beam" else ""),
            "",
            f"All settings: `recipe.toml`. Use it: `{use}`, or `weft.load({str(run)!r})` in Python.",
            "",
        ]
    )
