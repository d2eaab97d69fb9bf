"""From a model folder of Hugging Face to a run folder, as if it had been trained here.

The folder appears complete in one rename. Weights are stored in single precision; rows of vocabularies are put in the
order of weft's ids, with the special tokens first.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from weft.activity import activity
from weft.errors import CheckpointError, RecipeError
from weft.files import lock_folder, save_text
from weft.interop.huggingface.configuration import Configuration
from weft.interop.huggingface.families import FAMILIES, Conversion, check_family, convert
from weft.interop.huggingface.folder import ModelFolder
from weft.interop.huggingface.generation import search_settings
from weft.interop.huggingface.hub import find_folder
from weft.recipe import Recipe, make_recipe
from weft.recipe.toml import write_toml
from weft.runs.layout import RunFolder
from weft.runs.origin import WeightsOrigin
from weft.text.tokenizer import Tokenizers

if TYPE_CHECKING:
    from torch import Tensor

TRAINING = {"learning_rate": 5e-5, "label_smoothing": 0.1}
"""Settings for continued training: a rate at which pretrained weights are changed little."""
PAIRS = "pairs.tsv"
"""data.train of an imported run: the pairs that it is to be trained on further."""
MAX_LENGTH = 250
"""data.max_length, unless the model has fewer positions."""
GENERATION = (
    *("num_beams", "do_sample", "early_stopping", "length_penalty", "max_length", "min_length", "no_repeat_ngram_size"),
    *("repetition_penalty", "temperature", "top_k", "top_p", "bad_words_ids", "num_beam_groups", "diversity_penalty"),
)
"""Entries of config.json that older versions of transformers used for generation."""


class ImportOptions(NamedTuple):
    """What a user may choose."""

    source_language: str | None = None
    target_language: str | None = None
    default_search: bool = False
    """Weft's own search settings instead of those of generation_config.json."""


def import_model(source: str | Path, out: Path | str | None = None, options: ImportOptions = ImportOptions()) -> Path:
    """Write a run folder with a model of Hugging Face: a folder, or the name of a model on the Hub.

    ``out``: the run folder, by default runs/NAME.
    """
    name = run_name(str(source))
    out = Path("runs") / name if out is None else Path(out)
    RunFolder.check_new(out)
    folder = ModelFolder(find_folder(str(source)))
    family = check_family(folder.config)
    with lock_folder(out, "importing"):
        RunFolder.check_new(out)
        with activity(f"importing {source}"):
            conversion = _convert(folder, family)
            tokenizers = _tokenizers(folder, conversion, options)
            recipe = _recipe(folder, conversion, tokenizers, name=name, default_search=options.default_search)
            tensors = _with_own_ids(conversion.tensors, tokenizers)
            _check(folder, recipe, tokenizers, tensors)

            def fill(run: RunFolder) -> None:
                save_text(run.recipe, write_toml(recipe, [f"imported from {source}"]))
                tokenizers.save(run.path)
                run.write_model(tensors, WeightsOrigin("imported", (0,)))
                save_text(run.card, card(recipe, tokenizers, str(source), folder, out))

            RunFolder.create(out, fill)
    return out


def run_name(source: str) -> str:
    """The name of a run: the last part of that of the folder or model, as far as a name of a folder may have it."""
    last = Path(source).expanduser().resolve().name if Path(source).expanduser().is_dir() else source.split("/")[-1]
    return re.sub(r"^\W+|[^\w .+-]", "", last) or "imported"


def _convert(folder: ModelFolder, family: str) -> Conversion:
    with folder.open_weights() as weights:
        return convert(family, folder.config, weights)


def _tokenizers(folder: ModelFolder, conversion: Conversion, options: ImportOptions) -> Tokenizers:
    from weft.interop.huggingface.tokenizers import read_tokenizers

    ids = {name: value for name, value in folder.generation.items() if name.endswith("_token_id") and value is not None}
    return read_tokenizers(
        folder.path,
        {**folder.config.values, **ids},
        rows=conversion.rows,
        languages=(options.source_language, options.target_language),
    )


def _recipe(
    folder: ModelFolder, conversion: Conversion, tokenizers: Tokenizers, *, name: str, default_search: bool
) -> Recipe:
    """The recipe of the run."""
    model = conversion.model
    limits = [stack["max_positions"] for stack in (model["encoder"], model["decoder"]) if "max_positions" in stack]
    longest = min([MAX_LENGTH, *(limit - 3 for limit in limits)])  # the end token, and a frame of two tokens
    tree = {
        "name": name,
        "summary": f"{FAMILIES[str(folder.config.values['model_type'])]}, imported from {name}",
        "data": {"train": PAIRS, "max_length": max(longest, 1)},
        "tokenizer": {"joint": tokenizers.joint or model["tie"] in ("inputs", "all")},
        "model": model,
        "training": TRAINING,
        "search": {} if default_search else search_settings(_generation(folder), *_target_ids(tokenizers)),
    }
    try:
        return make_recipe(tree)
    except RecipeError as error:
        line = str(error).split("\n")[0]
        raise CheckpointError(f"{folder.config.where}: describes a model that weft does not have: {line}") from None


def _generation(folder: ModelFolder) -> Configuration:
    """generation_config.json, or what an older config.json says of generation."""
    if folder.generation:
        return Configuration(folder.generation, str(folder.path / "generation_config.json"))
    values = {name: folder.config.values[name] for name in GENERATION if name in folder.config.values}
    return Configuration(values, folder.config.where)


def _target_ids(tokenizers: Tokenizers) -> tuple[Mapping[int, int], int]:
    """Weft's id of every id of the original, and how many tokens a decoder starts with."""
    rules: Any = getattr(tokenizers.target, "rules", None)
    return {there: id for id, there in enumerate(external_ids(tokenizers.target))}, 1 + len(rules.target_before)


def external_ids(tokenizer: Any) -> tuple[int, ...]:
    """The original's id of every id of an imported tokenizer."""
    ids: tuple[int, ...] = tokenizer.external_ids
    return ids


def _with_own_ids(tensors: Mapping[str, Tensor], tokenizers: Tokenizers) -> dict[str, Tensor]:
    """The same tensors, with the rows of vocabularies in the order of weft's ids."""
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


def _check(folder: ModelFolder, recipe: Recipe, tokenizers: Tokenizers, tensors: Mapping[str, Tensor]) -> None:
    """Fail unless the weights are those of the model that the recipe describes, and finite."""
    from weft.models.build import parameter_shapes
    from weft.runs.weights import check_finite, check_shapes, shapes_of

    sizes = {"source_size": tokenizers.source.size, "target_size": tokenizers.target.size}
    check_shapes(parameter_shapes(recipe.model, **sizes), shapes_of(tensors), where=str(folder.path))
    check_finite(dict(tensors), where=str(folder.path))


def card(recipe: Recipe, tokenizers: Tokenizers, source: str, folder: ModelFolder, run: Path) -> str:
    """README.md of the run folder."""
    model, config = recipe.model, folder.config.values
    architectures = config.get("architectures")
    kind = str(architectures[0]) if isinstance(architectures, list) and architectures else str(config["model_type"])
    stacks = [f"{stack.layers} × {stack.hidden}" for stack in (model.encoder, model.decoder)]
    sizes = f"{tokenizers.source.size:,}"
    if tokenizers.source.size != tokenizers.target.size:
        sizes += f" source, {tokenizers.target.size:,} target"
    use = f"weft translate {shlex.quote(str(run))}"
    return "\n".join(
        [
            f"# {recipe.name}",
            "",
            f"Imported by weft from {source} ({kind}). Its license is that of the original.",
            "",
            f"- model: transformer encoder {stacks[0]}, decoder {stacks[1]}",
            f"- vocabulary: {sizes}",
            "- weights: those of the original, in single precision",
            f"- search: {recipe.search.kind}" + (f" of {recipe.search.size}" if recipe.search.kind == "beam" else ""),
            "",
            f"All settings: `recipe.toml`. Use it: `{use}`, or `weft.load({str(run)!r})` in Python.",
            "",
        ]
    )
