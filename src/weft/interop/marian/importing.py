"""From a model of Marian to a run."""

from __future__ import annotations

from pathlib import Path

from weft.errors import RecipeError, nearest, option
from weft.interop.huggingface.configuration import Configuration
from weft.interop.imported_run import ImportedModel, ImportOptions
from weft.interop.marian.files import find_files, search_settings


def read_model(source: str, options: ImportOptions) -> ImportedModel:
    """A model of Marian: its `.npz`, or a folder with one."""
    from weft.interop.marian.conversion import NUMERICS, convert
    from weft.interop.marian.vocabularies import read_tokenizers
    from weft.interop.marian.weights import MarianWeights

    if options.numerics not in NUMERICS:
        where = option("numerics", options.numerics)
        raise RecipeError(f"{where}: unknown; {nearest(options.numerics, NUMERICS)}")
    files = find_files(Path(source).expanduser(), options.vocabularies)
    weights = MarianWeights(files.model)
    conversion = convert(weights, numerics=options.numerics, guided_alignment=files.guided_alignment)
    languages = options.source_language, options.target_language
    tokenizers = read_tokenizers(files.model.parent, files.vocabularies, rows=conversion.rows, languages=languages)
    decoding = Configuration(files.settings, str(files.decoder))
    return ImportedModel(
        source=source,
        where=str(files.model),
        config=weights.options.where,
        family="Marian",
        kind=f"Marian, with the sinusoids and norms of {NAMES[options.numerics]}",
        conversion=conversion,
        tokenizers=tokenizers,
        search={} if options.default_search else search_settings(decoding),
    )


NAMES = {"marian": "Marian", "huggingface": "Hugging Face"}
