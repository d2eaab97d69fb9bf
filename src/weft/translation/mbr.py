"""Minimum Bayes risk: of several answers, the one that is most like all the others.

    ŷ = argmax_h E_{y ~ p(y|x)} u(h, y)  ≈  argmax_h Σ_i w_i u(h, y_i) / Σ_i w_i

Kumar & Byrne 2004, with an n-best list and its probabilities as weights; Eikema & Aziz 2020, with samples that weigh
one each. The answers are candidates and pseudo-references at once, so each also meets itself: with the utility "are
they equal?" it is a majority vote. The utility is the caller's: search knows no text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from weft.errors import SearchError

Utility = Callable[[str, str], float]
"""u(hypothesis, reference): the larger the better."""


def expected_utilities(
    texts: Sequence[str], utility: Utility, *, weights: Sequence[float] | None = None
) -> list[float]:
    """The expected utility of every text; the best is the largest. Texts that come again are worked out once.

    ``weights``: how much each text counts as a reference; one each if not given.
    """
    if weights is None:
        weights = [1.0] * len(texts)
    if len(weights) != len(texts):
        raise SearchError(f"minimum risk: {len(texts)} texts but {len(weights)} weights; expected one for each text")
    shares: dict[str, float] = {}
    for text, weight in zip(texts, weights, strict=True):
        if not weight >= 0:
            raise SearchError(f"minimum risk: the weight of {text!r} is {weight}; expected 0 or more")
        shares[text] = shares.get(text, 0.0) + weight
    total = sum(shares.values())
    if texts and not total > 0:
        raise SearchError("minimum risk: every weight is 0; expected at least one that is not")
    references = [(text, share / total) for text, share in shares.items() if share]
    expected = {one: sum(share * utility(one, other) for other, share in references) for one in shares}
    return [expected[text] for text in texts]
