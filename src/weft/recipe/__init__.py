"""Recipes: every setting with its type, default and description, in a file for each part of a run.

These classes are the only place where a setting is declared. They validate recipes and ``--set``, and are the
source of the JSON Schema (`Recipe.model_json_schema()`), of ``weft recipes show`` and of docs/settings.md. A recipe
chooses by name from the tables in `choices`; it can never name Python code.

To add a recipe, write a TOML file in `shipped`: its name is the table. Its header says what it is, how to run it and
what it reached; ``summary`` is its line in ``weft recipes``.
"""

from weft.recipe.base import Settings
from weft.recipe.data import CorpusSettings, DataSettings, TokenizerSettings
from weft.recipe.files import SHIPPED, shipped
from weft.recipe.loading import load_recipe, make_recipe, parse_change
from weft.recipe.model import (
    AttentionSettings,
    ModelSettings,
    RecurrentDecoderSettings,
    RecurrentEncoderSettings,
    RecurrentSettings,
    SourceSettings,
    TransformerDecoderSettings,
    TransformerEncoderSettings,
    TransformerSettings,
)
from weft.recipe.recipe import EvaluationSettings, Recipe
from weft.recipe.search import SearchSettings
from weft.recipe.training import TrainingSettings

__all__ = [
    "SHIPPED",
    "AttentionSettings",
    "CorpusSettings",
    "DataSettings",
    "EvaluationSettings",
    "ModelSettings",
    "Recipe",
    "RecurrentDecoderSettings",
    "RecurrentEncoderSettings",
    "RecurrentSettings",
    "SearchSettings",
    "Settings",
    "SourceSettings",
    "TokenizerSettings",
    "TrainingSettings",
    "TransformerDecoderSettings",
    "TransformerEncoderSettings",
    "TransformerSettings",
    "load_recipe",
    "make_recipe",
    "parse_change",
    "shipped",
]
