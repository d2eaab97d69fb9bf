"""Tensors to tensors: encoders, decoders, and the models made of them."""

from weft.models.language_model import RecurrentLanguageModel
from weft.models.prefix import PrefixModel
from weft.models.seq2seq import Seq2Seq

AnyModel = Seq2Seq | RecurrentLanguageModel | PrefixModel

__all__ = ["AnyModel", "PrefixModel", "RecurrentLanguageModel", "Seq2Seq"]
