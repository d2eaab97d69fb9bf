"""Rules for normal outputs of a run: `weft.translation.flags.FlagRules`, learned from validation pairs.

A flag that compares texts is off if more than 2 % of the validation references would have it. The limits are quantiles
over the validation pairs: the output tokens per source token that 99.5 % of the references exceed, the source tokens
that 99.5 % of the sources do not, the attention of the least attended stretch of source tokens that 99 % of the outputs
exceed, and the share of new neighboring tokens that 99 % of the sources do not. Neighboring tokens are those of
`TRAINING_SOURCES` training sources, evenly from the first `TRAINING_PAIRS` pairs, if these can still be read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import islice

import numpy as np

from weft.data.preparation import has_corpus, read_corpus
from weft.errors import WeftError
from weft.evaluation.pairs import EvaluationItems
from weft.recipe import Recipe
from weft.translation.flags import (
    FLAGS,
    MAX_RATE,
    FlagRules,
    stretch_attention,
    text_flags,
)
from weft.translation.neighbors import Neighbors
from weft.translation.results import Translation
from weft.translation.translator import Translator

TRAINING_SOURCES = 20_000
TRAINING_PAIRS = 100_000
ATTENDED = 300
"""Validation sources whose attention is looked at."""
RARE = 0.005
"""The share of validation pairs that may be beyond a limit of lengths."""
UNUSUAL = 0.01
"""The share that may be beyond the limits of attention and of new neighbors."""
MAX_ATTENTION = 0.2
"""A stretch of the source with more attention than this share of an even distribution is not skipped."""
MARGIN = 1.1
"""Outputs may be shorter, and sources longer, than the quantiles by this factor."""


def learn_flag_rules(run: Translator, items: EvaluationItems, translations: Sequence[Translation]) -> FlagRules:
    """The rules of a run; ``translations``: those of the items."""
    references = [line[0] for line in items.references]
    counts = Counter(
        flag for source, text in zip(items.sources, references, strict=True) for flag in text_flags(source, text)
    )
    off = [name for name in FLAGS if counts[name] > MAX_RATE * len(references)]
    lengths = np.array([len(translation.source_tokens) for translation in translations])
    targets = [len(run.encode_target(text, source)) for source, text in zip(items.sources, references, strict=True)]
    ratios = (1 + np.array(targets)) / (1 + lengths)
    neighbors = Neighbors.of(_training_tokens(run))
    shares = [neighbors.novelty(translation.source_tokens) for translation in translations]
    return FlagRules(
        tuple(off),
        least_ratio=float(np.quantile(ratios, RARE)) / MARGIN,
        least_attention=_least_attention(run, items.sources),
        longest=int(np.quantile(lengths, 1 - RARE) * MARGIN),
        novelty=float(np.quantile(shares, 1 - UNUSUAL)) if neighbors.are_known else 1.0,
        neighbors=neighbors,
    )


def _training_tokens(run: Translator) -> list[list[str]]:
    """The source tokens of training pairs; none if the training data cannot be read, or sources are arrays."""
    recipe: Recipe = run.recipe
    try:
        if not has_corpus(recipe, "train") or recipe.tokenizer.reads_arrays:
            return []
        sources = [pair.source for pair in islice(read_corpus(recipe, "train"), TRAINING_PAIRS)]
        encoded = (run.encoded_source(source) for source in sources[:: max(1, len(sources) // TRAINING_SOURCES)])
        return [tokenizers.source.tokens(sentence.ids) for tokenizers, sentence in encoded]
    except (WeftError, OSError):
        return []


def _least_attention(run: Translator, sources: Sequence[str]) -> float:
    if not run.recipe.model.attends or run.source_role != "text":
        return 0.0
    outputs = run.translate(sources[:ATTENDED], return_attention=True)
    usual = float(np.quantile([stretch_attention(output) for output in outputs], UNUSUAL))
    return min(usual, MAX_ATTENTION)
