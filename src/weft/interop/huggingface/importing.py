"""From a model folder of Hugging Face to a run folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.interop.huggingface.configuration import Configuration
from weft.interop.huggingface.families import FAMILIES, check_family, convert
from weft.interop.huggingface.folder import ModelFolder
from weft.interop.huggingface.generation import alignment_heads, search_settings
from weft.interop.huggingface.hub import find_folder
from weft.interop.imported_run import Conversion, ImportedModel, ImportOptions, external_ids
from weft.text.tokenizer import Tokenizers

GENERATION = (
    *("num_beams", "do_sample", "early_stopping", "length_penalty", "max_length", "min_length", "no_repeat_ngram_size"),
    *("repetition_penalty", "temperature", "top_k", "top_p", "bad_words_ids", "num_beam_groups", "diversity_penalty"),
    "alignment_heads",
)
"""Entries of config.json that older versions of transformers used for generation."""


def read_model(source: str, options: ImportOptions) -> ImportedModel:
    """A model of Hugging Face: a folder, or the name of a model on the Hub."""
    folder = ModelFolder(find_folder(source))
    family = check_family(folder.config)
    with folder.open_weights() as weights:
        conversion = convert(family, folder.config, weights)
    if heads := alignment_heads(_generation(folder)):
        conversion.model["decoder"]["alignment_heads"] = heads
    tokenizers = _tokenizers(folder, conversion, options)
    search = {} if options.default_search else search_settings(_generation(folder), *_target_ids(tokenizers))
    return ImportedModel(
        source=source,
        where=str(folder.path),
        config=folder.config.where,
        family=FAMILIES[family],
        kind=_class_name(folder),
        conversion=conversion,
        tokenizers=tokenizers,
        search=search,
    )


def _class_name(folder: ModelFolder) -> str:
    """The class of the model in transformers, or else its type."""
    config = folder.config.values
    architectures = config.get("architectures")
    return str(architectures[0]) if isinstance(architectures, list) and architectures else str(config["model_type"])


def _tokenizers(folder: ModelFolder, conversion: Conversion, options: ImportOptions) -> Tokenizers:
    from weft.interop.huggingface.tokenizers import read_tokenizers

    ids = {name: value for name, value in folder.generation.items() if name.endswith("_token_id") and value is not None}
    return read_tokenizers(
        folder.path,
        {**folder.config.values, **ids},
        rows=conversion.rows,
        languages=(options.source_language, options.target_language),
    )


def _generation(folder: ModelFolder) -> Configuration:
    """generation_config.json, or the generation settings of an older config.json."""
    if folder.generation:
        return Configuration(folder.generation, str(folder.path / "generation_config.json"))
    values = {name: folder.config.values[name] for name in GENERATION if name in folder.config.values}
    return Configuration(values, folder.config.where)


def _target_ids(tokenizers: Tokenizers) -> tuple[Mapping[int, int], int]:
    """Weft's id of every id of the original, and how many tokens a decoder starts with."""
    rules: Any = getattr(tokenizers.target, "rules", None)
    return {there: id for id, there in enumerate(external_ids(tokenizers.target))}, 1 + len(rules.target_before)
