"""Validation during training: the loss, and if the recipe names one, a metric of decoded text."""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Callable
from functools import cached_property
from itertools import compress
from random import Random
from typing import Any, NamedTuple, cast

import numpy as np
import torch

from weft.data.pairs import Pair
from weft.data.preparation import PreparedCorpus, has_corpus, read_corpus
from weft.data.store.token_store import PairStore, encode_pairs, length_sorted_batches
from weft.errors import DataError, plural, warn
from weft.evaluation.metrics import compute_metrics, perplexity
from weft.evaluation.pairs import GROUPINGS, EvaluationItems
from weft.models.architecture import architecture_of
from weft.models.interface import HasCTC, Model
from weft.recipe import Recipe
from weft.runs.load import sentence_ids
from weft.runs.weights import STRUCTURAL, Tensors, load_weights, model_tensors
from weft.runtime.activity import activity
from weft.runtime.devices import DividedWork, release_memory
from weft.training.ctc import ctc_log_probability
from weft.training.loss import batch_loss
from weft.translation.forced_decoding import BATCH_TOKENS, likelihood
from weft.translation.inputs import is_within, max_tokens
from weft.translation.results import Translation
from weft.translation.translator import Translator

STRUCTURAL_SENTENCES = 200
"""Pairs of the structural holdout that are searched for a metric, at most."""


class ValidationScores(NamedTuple):
    """The result of a validation."""

    loss: float
    perplexity: float | None
    """Perplexity; None with training.loss = "entmax15": a reference may have a probability of zero."""
    metrics: dict[str, float]
    score: float
    """The number by which checkpoints are ranked; higher is better, and minus infinity if the loss is not finite."""
    outputs: int = 0
    """The number of outputs that were searched for the metric."""
    ended_by_length: int = 0
    """The number of these outputs that reached the length limit."""
    sample: tuple[int, int] | None = None
    """The number of sentences that the metrics were computed on, and that of the validation set."""
    structural: dict[str, float] | None = None
    """Loss, perplexity and metrics of the pairs held out for their structure, if any; they rank no checkpoint."""

    @property
    def numbers(self) -> dict[str, float]:
        """Loss, perplexity and metrics by name; then those of the structural holdout, under separate names."""
        perplexity = {} if self.perplexity is None else {"perplexity": self.perplexity}
        structural = {f"{STRUCTURAL}{name}": value for name, value in (self.structural or {}).items()}
        return {"loss": self.loss, **perplexity, **self.metrics, **structural}


Validate = Callable[[Model], ValidationScores]


class Validator:
    """Validates the weights of a model in training, in the main process."""

    def __init__(self, validate: Validate, model: Model, device: torch.device) -> None:
        self.validate = validate
        self.model = model
        self.device = device
        self.model_copy: Model | None = None

    def copy_model(self) -> None:
        """Validate with a copy of the whole model from now on: its weights are about to be sharded."""
        self.model_copy = copy.deepcopy(self.model)

    def scores(self, weights: Tensors) -> ValidationScores:
        """Validate the model as it is; ``weights``: all of its weights, which a copy of it needs."""
        with activity("validating"):
            try:
                if self.model_copy is None:
                    return self.validate(self.model.eval())
                load_weights(self.model_copy, weights, where="validation")
                return self.validate(self.model_copy.to(self.device).eval())
            finally:
                if self.model_copy is not None:
                    self.model_copy.to("cpu")
                if self.device.type == "cuda":  # other processes may use it too
                    release_memory()

    def scores_of_other(self, weights: Tensors) -> ValidationScores:
        """Validate other weights than the model's, which keeps its own."""
        if self.model_copy is not None:
            return self.scores(weights)
        current = {name: tensor.clone() for name, tensor in model_tensors(self.model).items()}
        load_weights(self.model, weights, where="validation")
        try:
            return self.scores(weights)
        finally:
            load_weights(self.model, current, where="validation")


def read_validation_pairs(recipe: Recipe, row_errors: Counter[str]) -> list[Pair] | None:
    """The validation set; None if there is none or validation is off. Rows that are skipped are counted by kind."""
    if not (recipe.training.validate_every and has_corpus(recipe, "valid")):
        return None
    return list(read_corpus(recipe, "valid", row_errors))


class RecipeValidation:
    """Validates a model as a recipe says: the loss of all pairs and, if it names one, a metric of decoded text."""

    def __init__(self, recipe: Recipe, pairs: list[Pair], prepared: PreparedCorpus, device: torch.device) -> None:
        self.recipe = recipe
        self.pairs = pairs
        self.prepared = prepared
        self.device = device
        self.metric = recipe.training.metric
        tokenizers = prepared.tokenizers
        self.encoded = encode_pairs(
            pairs,
            tokenizers,
            sources=recipe.source_role,
            max_length=recipe.data.max_length,
            sentence_ids=sentence_ids(recipe.model, tokenizers) if recipe.model.copies else None,
        )
        if not len(self.encoded):
            setting = "data.holdout.valid" if recipe.data.holdout.valid else "data.valid"
            raise DataError(f"{setting}: no pair is left to validate on")
        self.sample = None if self.metric == "loss" else (len(self.items.sources), len(self.all_items.sources))
        self.structural = self._structural() if has_corpus(recipe, "structure") else None

    def _structural(self) -> RecipeValidation | None:
        """The validation of the pairs that are held out for their structure; if there are none, a warning."""
        recipe = self.recipe
        pairs = list(read_corpus(recipe, "structure"))
        if not pairs:
            warn("data.holdout.structure: no pairs are held out; their combinations and lengths do not recur")
            return None
        holdout = recipe.data.holdout.model_copy(update={"structure": 0.0})
        sentences = min(recipe.training.valid_sentences, STRUCTURAL_SENTENCES)
        changes = {
            "data": recipe.data.model_copy(update={"holdout": holdout}),
            "training": recipe.training.model_copy(update={"valid_sentences": sentences}),
        }
        return RecipeValidation(recipe.model_copy(update=changes), pairs, self.prepared, self.device)

    @property
    def searched(self) -> int:
        """The number of sentences that a validation translates."""
        if self.metric == "loss":
            return 0
        return len(self.items.sources) + (0 if self.structural is None else self.structural.searched)

    @cached_property
    def items(self) -> EvaluationItems:
        """A sample of the validation set, to translate."""
        return sample_items(self.all_items, self.recipe.training.valid_sentences, seed=self.recipe.seed)

    @cached_property
    def all_items(self) -> EvaluationItems:
        """The validation set without sources that are too long to be translated, which a warning counts."""
        items = GROUPINGS[self.recipe.evaluation.references](self.pairs)
        limit, tokenizers = max_tokens(self.recipe.longest_side), self.prepared.tokenizers
        kept = [self.metric == "loss" or is_within(limit, tokenizers, source=source) for source in items.sources]
        if all(kept):
            return items
        count = plural(kept.count(False), "source")
        warn(f"data.valid: {count} of more than {limit:,} tokens, too long to be translated: left out of {self.metric}")
        return EvaluationItems(list(compress(items.sources, kept)), list(compress(items.references, kept)))

    def __call__(self, model: Model) -> ValidationScores:
        scores = self._scores(model)
        return scores if self.structural is None else scores._replace(structural=self.structural._scores(model).numbers)

    def _scores(self, model: Model) -> ValidationScores:
        loss, per_token = self.loss(model)
        # not finite: the loss is infinite, NaN, or so large that its exponential overflows
        diverged = not math.isfinite(loss if per_token is None else per_token)
        if self.metric == "loss":
            return ValidationScores(loss, per_token, {}, -math.inf if diverged else -loss)
        sources, references = self.items
        translations = self.translate(model)
        outputs = [translation.text for translation in translations]
        [result] = compute_metrics([self.metric], outputs, references, sources=sources)
        score = -math.inf if diverged else result.value if result.better == "higher" else -result.value
        counts = len(translations), sum(translation.ended_by_length for translation in translations), self.sample
        return ValidationScores(loss, per_token, {self.metric: result.value}, score, *counts)

    def loss(self, model: Model, limit: int | None = None) -> tuple[float, float | None]:
        """The mean loss of a target token and the perplexity, if there is one; of all pairs or the first ``limit``."""
        pairs = self.encoded if limit is None else self.encoded.first(limit)
        sparse, begin = self.recipe.training.loss == "entmax15", self.prepared.tokenizers.frame.begin
        return validation_loss(model, pairs, self.device, sparse=sparse, begin=begin)

    def translate(self, model: Model, limit: int | None = None, **search: Any) -> list[Translation]:
        """The outputs for all sources or the first ``limit``; ``search`` overrides settings of [search]."""
        translator = Translator(model, self.prepared.tokenizers, self.recipe, device=self.device)
        translator.length_limits = self.prepared.length_limits
        return translator.translate(self.items.sources[:limit], return_attention=False, **search)


def validation_loss(
    model: Model, pairs: PairStore, device: torch.device, *, sparse: bool, begin: int
) -> tuple[float, float | None]:
    """The mean loss of a target token and the perplexity, which a model with sparse outputs does not have.

    That of CTC is computed for all labels of an output at once: the same number, without a step for each label.
    ``begin``: the first input of the decoder.
    """
    is_ctc = architecture_of(model).kind == "ctc"
    if not (sparse or is_ctc):
        scored = likelihood(model, pairs, begin=begin, device=device)
        return scored.loss, perplexity(scored.log_probability, scored.tokens).value
    divided = DividedWork("validation")

    def losses(rows: np.ndarray) -> list[tuple[float, int]]:
        batch = pairs.batch(rows).to(device)
        if is_ctc:
            loss = -ctc_log_probability(cast(HasCTC, model), batch)
        else:
            loss = batch_loss(model, batch, begin=begin).smoothed
        return [(float(loss), batch.target.layout.total)]

    with torch.no_grad():
        sums = [part for rows in length_sorted_batches(pairs, BATCH_TOKENS) for part in divided.over_rows(losses, rows)]
    total, tokens = (sum(column) for column in zip(*sums, strict=True)) if sums else (0.0, 0)
    return total / max(tokens, 1), perplexity(-total, int(tokens)).value if is_ctc else None


def sample_items(items: EvaluationItems, size: int, *, seed: int) -> EvaluationItems:
    """A random sample of ``size`` items of a validation set, in its order; all of them if there are fewer.

    The sample depends on the seed alone, so it is the same throughout a run.
    """
    count = len(items.sources)
    chosen = sorted(Random(seed).sample(range(count), min(size, count)))
    return EvaluationItems([items.sources[index] for index in chosen], [items.references[index] for index in chosen])
