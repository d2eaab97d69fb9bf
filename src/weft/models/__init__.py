"""Tensors to tensors: encoders, decoders, and the models made of them."""

from weft.models.ensemble import Ensemble
from weft.models.interface import Model, ModelOutput, StepOutput
from weft.models.language_model import RecurrentLanguageModel
from weft.models.prefix_lm import PrefixLM
from weft.models.seq2seq import Seq2Seq

AnyModel = Seq2Seq | RecurrentLanguageModel | PrefixLM
"""The models that a recipe can describe."""

__all__ = [
    "AnyModel",
    "Ensemble",
    "Model",
    "ModelOutput",
    "PrefixLM",
    "RecurrentLanguageModel",
    "Seq2Seq",
    "StepOutput",
]
