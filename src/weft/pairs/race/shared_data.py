"""One tokenized corpus for all candidates and seeds of a race: read and tokenized once."""

from __future__ import annotations

import json
from typing import Any

from weft.data.preparation import PreparedCorpus, find_corpora, prepare
from weft.data.preparation.recorded_files import provenance
from weft.recipe import Recipe


class SharedPreparation:
    """`prepare` that remembers its results, by everything that they depend on.

    The seed is not part of that (`provenance`): a further model of another seed has the tokenizer of the first.
    """

    def __init__(self) -> None:
        self.corpora: dict[str, PreparedCorpus] = {}

    def __call__(self, recipe: Recipe, **options: Any) -> PreparedCorpus:
        if any(options.values()) or recipe.data.streaming or recipe.data.prepared is not None:
            return prepare(recipe, **options)
        key = json.dumps([provenance(recipe, find_corpora(recipe, "train")), recipe.data.model_dump(mode="json")])
        if key not in self.corpora:
            self.corpora[key] = prepare(recipe, **options)
        return self.corpora[key]
