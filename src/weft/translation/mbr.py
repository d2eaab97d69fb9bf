"""Minimum Bayes risk: of several outputs, the one that is most similar to all the others.

    ŷ = argmax_h E_{y ~ p(y|x)} u(h, y)  ≈  argmax_h Σ_i w_i u(h, y_i) / Σ_i w_i

Kumar & Byrne 2004, with an n-best list and its probabilities as weights; Eikema & Aziz 2020, with samples that have a
weight of one. The outputs are both candidates and pseudo-references, so each is also compared with itself: with the
utility "are they equal?" it is a majority vote. Utilities: `weft.translation.utilities`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from weft.errors import SearchError
from weft.recipe.choices import UTILITIES, resolve
from weft.recipe.search import SearchSettings
from weft.search.interface import Hypothesis, SearchRequest, StepModel
from weft.translation.engines.torch import sampling

Utility = Callable[[str, str], float]
"""u(hypothesis, reference): the larger the better."""


def mbr(model: StepModel, request: SearchRequest, settings: SearchSettings) -> list[list[Hypothesis]]:
    """Draw samples and rank them by expected utility, which is their score; equal texts count once."""
    if request.n_best > settings.samples:
        raise SearchError(
            f"--n-best {request.n_best}: above search.samples = {settings.samples}; raise search.samples, or request "
            "fewer outputs"
        )
    utility: Utility = resolve(UTILITIES, settings.utility)
    samples = replace(request, n_best=settings.samples, return_trace=False)
    outputs = []
    for sentence, hypotheses in enumerate(sampling(model, samples, settings)):
        texts = [request.decode(sentence, hypothesis.tokens) for hypothesis in hypotheses]
        utilities = expected_utilities(texts, utility)
        first: dict[str, int] = {}
        for index in sorted(range(len(texts)), key=lambda index: -utilities[index]):
            first.setdefault(texts[index], index)
        best = list(first.values())[: request.n_best]
        outputs.append([replace(hypotheses[index], score=utilities[index]) for index in best])
    return outputs


def expected_utilities(
    texts: Sequence[str], utility: Utility, *, weights: Sequence[float] | None = None
) -> list[float]:
    """The expected utility of every text. Equal texts are compared once.

    ``weights``: the weight of each text as a reference; None: 1 each.
    """
    if weights is None:
        weights = [1.0] * len(texts)
    if len(weights) != len(texts):
        raise SearchError(f"minimum risk: {len(texts)} texts but {len(weights)} weights; expected one for each text")
    weight_of: dict[str, float] = {}
    for text, weight in zip(texts, weights, strict=True):
        if not weight >= 0:
            raise SearchError(f"minimum risk: the weight of {text!r} is {weight}; expected 0 or more")
        weight_of[text] = weight_of.get(text, 0.0) + weight
    total = sum(weight_of.values())
    if texts and not total > 0:
        raise SearchError("minimum risk: every weight is 0; expected at least one that is not")
    references = [(text, weight / total) for text, weight in weight_of.items() if weight]
    expected = {
        hypothesis: sum(weight * utility(hypothesis, reference) for reference, weight in references)
        for hypothesis in weight_of
    }
    return [expected[text] for text in texts]
