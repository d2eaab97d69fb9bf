"""Tensors to tensors: encoders, decoders, and the models made of them."""

from weft.models.ensemble import Ensemble
from weft.models.language_model import RecurrentLanguageModel
from weft.models.prefix_lm import PrefixLM
from weft.models.seq2seq import Seq2Seq

AnyModel = Seq2Seq | RecurrentLanguageModel | PrefixLM
"""What can be trained."""
Searchable = AnyModel | Ensemble
"""What can be searched and scored."""

__all__ = ["AnyModel", "Ensemble", "PrefixLM", "RecurrentLanguageModel", "Searchable", "Seq2Seq"]
