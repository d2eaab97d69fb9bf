"""What to run: every setting with its type, default and help, one file a section of the recipe.

These classes are the only place where a setting is written down. They check recipes and ``--set``, and give the JSON
Schema (`Recipe.model_json_schema()`) and what ``weft recipes show`` prints. A recipe names things from tables; it can
never name Python code.
"""

from weft.recipe.base import Settings
from weft.recipe.corpus import CorpusSettings
from weft.recipe.data import DataSettings
from weft.recipe.evaluation import EvaluationSettings
from weft.recipe.loading import SHIPPED, load_recipe, make_recipe, parse_change, shipped
from weft.recipe.model import (
    AttentionSettings,
    ModelSettings,
    RecurrentDecoderSettings,
    RecurrentEncoderSettings,
    RecurrentSettings,
    TransformerDecoderSettings,
    TransformerEncoderSettings,
    TransformerSettings,
)
from weft.recipe.recipe import Recipe
from weft.recipe.search import SearchSettings
from weft.recipe.tokenizer import TokenizerSettings
from weft.recipe.toml import Setting, settings_of, toml_value, write_toml
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
    "Setting",
    "Settings",
    "TokenizerSettings",
    "TrainingSettings",
    "TransformerDecoderSettings",
    "TransformerEncoderSettings",
    "TransformerSettings",
    "load_recipe",
    "make_recipe",
    "parse_change",
    "settings_of",
    "shipped",
    "toml_value",
    "write_toml",
]
