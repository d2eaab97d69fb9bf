"""Validation during training: the loss, and if the recipe names one, a metric of decoded text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import torch

from weft.data.pairs import Pair
from weft.data.store.encode import encode_pairs
from weft.errors import DataError
from weft.evaluation.metrics import compute_metrics, perplexity
from weft.evaluation.references import GROUPINGS
from weft.models.interface import Model
from weft.preparation import PreparedCorpus, has_corpus, read_corpus
from weft.recipe import Recipe
from weft.text import specials
from weft.translation.forced_decoding import likelihood
from weft.translation.translator import Translator


class ValidationScores(NamedTuple):
    """The result of a validation."""

    loss: float
    perplexity: float
    metrics: dict[str, float]
    score: float
    """The number by which checkpoints are ranked; higher is better."""
    outputs: int = 0
    """Outputs that were searched for the metric …"""
    ended_by_length: int = 0
    """… and how many of them reached the length limit."""


Validate = Callable[[Model], ValidationScores]


def read_validation_pairs(recipe: Recipe, row_errors: Counter[str]) -> list[Pair] | None:
    """The validation set; None if there is none or validation is off. Rows that are skipped are counted by kind."""
    if not (recipe.training.validate_every and has_corpus(recipe, "valid")):
        return None
    return list(read_corpus(recipe, "valid", row_errors))


def make_validation(recipe: Recipe, pairs: list[Pair], prepared: PreparedCorpus, device: torch.device) -> Validate:
    """A function that validates a model."""
    tokenizers = prepared.tokenizers
    encoded = encode_pairs(pairs, tokenizers, sources=recipe.source_role, max_length=recipe.data.max_length)
    if not len(encoded):
        raise DataError("data.valid: no pair is left to validate on")
    items = GROUPINGS[recipe.evaluation.references](pairs)
    sources = items.sources[: recipe.training.valid_sentences]
    references = items.references[: recipe.training.valid_sentences]
    metric = recipe.training.metric

    def validate(model: Model) -> ValidationScores:
        scored = likelihood(model, encoded, begin=specials.BEGIN, device=device)
        per_token = perplexity(scored.log_probability, scored.tokens).value
        if metric == "loss":
            return ValidationScores(scored.loss, per_token, {}, -scored.loss)
        translator = Translator(model, tokenizers, recipe, device=device)
        translator.length_limits = prepared.length_limits
        translations = translator.translate(sources, return_attention=False)
        [result] = compute_metrics([metric], [translation.text for translation in translations], references)
        score = result.value if result.better == "higher" else -result.value
        cut_off = sum(translation.ended_by_length for translation in translations)
        return ValidationScores(scored.loss, per_token, {metric: result.value}, score, len(translations), cut_off)

    return validate
