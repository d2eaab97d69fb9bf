"""`weft.calibrate`: fit how likely the outputs of a run are right, on validation pairs; the result is confidence.json.

An output counts as right if it equals a reference: where the recipe is judged by whole outputs (exact match, error
rates), and where at least half of the validation outputs do (words, codes, formal outputs). Sentences have many good
translations: elsewhere an output is right from a chrF of 50 on, computed for each sentence alone.

The test set is never used: `weft report` and benchmarks/confidence.py measure on it what is fitted here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np

from weft.data.preparation import has_corpus
from weft.errors import DataError, SearchError
from weft.evaluation.comparison import matches_of
from weft.evaluation.confidence_fitting import MIN_OUTPUTS, FittedConfidence, auroc, fit_confidence
from weft.evaluation.evaluate import loaded_run, run_signature
from weft.evaluation.flag_rules import learn_flag_rules
from weft.evaluation.pairs import EvaluationItems, GivenPairs, find_scorable_items
from weft.evaluation.sacrebleu_metrics import sacrebleu_metric
from weft.evaluation.summary import judged_by
from weft.recipe import Recipe
from weft.translation.confidence import FEATURES, ConfidenceModel, FeatureModel, feature_matrix, weights_checksum
from weft.translation.precision_target import accepted_counts, design_effect
from weft.translation.results import Translation
from weft.translation.translator import Translator

LIMIT = 2_000
"""Validation pairs that are translated, at most: of more, a random sample."""
MIN_GROUPS = 20
"""Different first columns, at least, that make groups of sources."""
CHRF = 50.0
GRADED = ("bleu", "bleu_lowercase", "bleu_tokenized", "chrf", "ter", "rouge_l", "rouge_1", "rouge_2", "rouge_l_f1")
"""Metrics of outputs that are better or worse rather than right or wrong."""
EXACT_SHARE = 0.5
"""The share of outputs that equal a reference from which on equality is what counts."""
QUANTILES = 20
SEED = 1


class Criterion(NamedTuple):
    """When an output is right."""

    metrics: tuple[str, ...]
    """Those of the recipe: the first that decides it does; if none does, an output must equal a reference."""
    chrf: float | None = None
    """The chrF from which on an output is right; None: as the metrics say."""

    @property
    def name(self) -> str:
        return "exact match" if self.chrf is None else f"chrF >= {self.chrf:g}"

    def right(self, outputs: Sequence[str], items: EvaluationItems) -> np.ndarray:
        """Whether each output is right."""
        if self.chrf is not None:
            return np.array(sentence_chrf(outputs, items)) >= self.chrf
        matches = matches_of(self.metrics)
        return np.array([matches(text, line) for text, line in zip(outputs, items.references, strict=True)])


def sentence_chrf(outputs: Sequence[str], items: EvaluationItems) -> list[float]:
    """The chrF of each output alone, from 0 to 100."""
    chrf = sacrebleu_metric("chrf")
    return [float(chrf.sentence_score(text, line).score) for text, line in zip(outputs, items.references, strict=True)]


def parse_criterion(recipe: Recipe, given: str | None) -> Criterion | None:
    """The criterion that was asked for: "exact", "chrf" or "chrf>=60"; None if the outputs are to decide."""
    metrics = tuple(judged_by(recipe.evaluation.metrics, recipe.training.metric))
    if given is None:
        return Criterion(metrics) if metrics and metrics[0] not in GRADED else None
    name, _, level = given.partition(">=")
    try:
        chrf = float(level) if level else CHRF
    except ValueError:
        chrf = math.nan
    if name == "exact" and not level:
        return Criterion(metrics)
    if name != "chrf" or not 0 < chrf <= 100:
        raise DataError(f"right: {given!r} was given; use exact, chrf, or chrf>=60 with a number up to 100")
    return Criterion(metrics, chrf)


def criterion_named(recipe: Recipe, name: str) -> Criterion:
    """The criterion of a `ConfidenceModel.right`, by its `Criterion.name`; exact match if the name is unknown."""
    prefix, _, level = name.partition(" >= ")
    exact = Criterion(tuple(judged_by(recipe.evaluation.metrics, recipe.training.metric)))
    try:
        return exact._replace(chrf=float(level)) if prefix == "chrF" else exact
    except ValueError:
        return exact


def choose_criterion(recipe: Recipe, given: str | None, outputs: Sequence[str], items: EvaluationItems) -> Criterion:
    """The criterion that was asked for, or the one that fits the outputs."""
    criterion = parse_criterion(recipe, given)
    if criterion is not None:
        return criterion
    exact = Criterion(tuple(judged_by(recipe.evaluation.metrics, recipe.training.metric)))
    return exact if exact.right(outputs, items).mean() >= EXACT_SHARE else exact._replace(chrf=CHRF)


def calibrate(
    run: Translator | Path | str,
    pairs: GivenPairs | None = None,
    *,
    right: str | None = None,
    limit: int | None = None,
    **search: Any,
) -> ConfidenceModel:
    """Fit the confidence of a run and write it to confidence.json in its folder (that of an ensemble is not written).

        weft.calibrate("runs/grammar")
        weft.load("runs/grammar").translate("he left").confidence

    ``run``: a run of `weft.load`, or its folder. ``pairs``: as in `evaluate`, pairs that the run was not trained on; by
    default the validation set of its recipe, of which ``limit`` pairs are used, 2,000 unless given.
    ``right``: when an output is right: "exact", "chrf" or "chrf>=60"; by default as the recipe and the outputs suggest.
    ``search`` changes search settings; confidence is that of outputs of this search.
    """
    run = loaded_run(run)
    if run.source_role == "none":
        raise SearchError(f"{run.recipe.name}: a language model without sources has no outputs that are right or wrong")
    parse_criterion(run.recipe, right)
    if pairs is None and not has_corpus(run.recipe, "valid"):
        raise DataError(f"{run.folder or run.recipe.name}: its recipe has no validation set; give a file of pairs")
    given = find_scorable_items(run, pairs, grouping=run.recipe.evaluation.references, split="valid")
    items = _shuffled(given.items, LIMIT if limit is None else limit)
    if len(items.sources) < MIN_OUTPUTS:
        raise DataError(f"confidence: {len(items.sources)} pairs were given; it is fitted to at least {MIN_OUTPUTS}")
    translations = translate_with_token_scores(run, items.sources, search)
    outputs = [translation.text for translation in translations]
    criterion = choose_criterion(run.recipe, right, outputs, items)
    signature = run_signature(run, run.search_settings(search))
    groups_N = source_groups(items.sources)
    model = fit(translations, criterion.right(outputs, items), groups_N, name=criterion.name, search=signature)
    model = replace(model, flag_rules=learn_flag_rules(run, items, translations))
    if run.calibrated_folder is not None:
        model = replace(model, weights=weights_checksum(run.calibrated_folder))
        model.write(run.calibrated_folder)
    run.text.confidence = model
    return model


def source_groups(sources: Sequence[str]) -> np.ndarray:
    """The number of the group of each source, in the order in which groups occur: those with the same first column,
    such as the forms of a lemma. Their outputs are right or wrong together.

    A first column with fewer than `MIN_GROUPS` values is a kind of source, all of which new data have, too.
    """
    numbers: dict[str, int] = {}
    groups_N = np.array([numbers.setdefault(source.partition("\t")[0], len(numbers)) for source in sources])
    return groups_N if len(numbers) >= MIN_GROUPS else np.arange(len(sources))


def _shuffled(items: EvaluationItems, limit: int) -> EvaluationItems:
    """Items in random order, at most ``limit``: files of pairs may be sorted."""
    order = Random(SEED).sample(range(len(items.sources)), min(max(limit, 1), len(items.sources)))
    return EvaluationItems([items.sources[item] for item in order], [items.references[item] for item in order])


def translate_with_token_scores(run: Translator, sources: Sequence[str], search: dict[str, Any]) -> list[Translation]:
    """Translations that have the features of both models; CTranslate2 returns token scores with attention only."""
    translations = run.translate(sources, return_attention=False, **search)
    if any(not translation.token_scores for translation in translations):
        translations = run.translate(sources, return_attention=True, **search)
    return translations


def fit(
    translations: Sequence[Translation],
    right: np.ndarray,
    groups_N: np.ndarray | None = None,
    *,
    name: str,
    search: str = "",
) -> ConfidenceModel:
    """The confidence of outputs that are known to be right or wrong; ``name``: what right means.

    ``groups_N``: see `source_groups`; None: no two outputs are of the same group.
    """
    features_NF = np.nan_to_num(feature_matrix(translations))
    fitted = {model: fit_confidence(features_NF[:, : len(names)], right, groups_N) for model, names in FEATURES.items()}
    lengths = [len(translation.source_tokens) for translation in translations]
    return ConfidenceModel(
        right=name,
        outputs=len(right),
        accuracy=float(right.mean()),
        auroc=auroc(fitted["tokens"].confidences_N, right),
        search=search,
        weights="",
        models={model: _feature_model(one, right) for model, one in fitted.items()},
        design_effect=1.0 if groups_N is None else design_effect(right, groups_N),
        source_lengths=tuple(np.quantile(lengths, np.linspace(0, 1, QUANTILES + 1)).tolist()),
    )


def _feature_model(fitted: FittedConfidence, right: np.ndarray) -> FeatureModel:
    logistic = fitted.logistic
    return FeatureModel(
        means=tuple(logistic.means_F.tolist()),
        deviations=tuple(logistic.deviations_F.tolist()),
        weights=tuple(logistic.weights_F.tolist()),
        bias=logistic.bias,
        curve=tuple(fitted.curve),
        accepted=tuple(accepted_counts(fitted.confidences_N.tolist(), right.tolist())),
    )
