"""Hugging Face's logits warpers cut what ours cut, alone and one after the other in its order of generation.

Where theirs differ: top-p cuts between equals (which of them stay is up to the sort), typical refuses a mass of 0 or 1
and top-k one of 0, and a temperature leaves the ratings' level as it was, which no probability depends on.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from weft.search.sampling_filters import SamplingFilter

process = pytest.importorskip("transformers.generation.logits_process")


def ratings_of(size: int, *, forbidden: bool, spread: float = 2.0) -> Tensor:
    generator = torch.Generator().manual_seed(size)
    ratings_RV = torch.randn(23, size, generator=generator) * spread
    if forbidden:
        ratings_RV[:, 1:][torch.rand(23, size - 1, generator=generator) < 0.3] = float("-inf")
        ratings_RV[5, 1:] = float("-inf")
    return ratings_RV


def theirs(cuts: SamplingFilter, ratings_RV: Tensor) -> Tensor:
    """In the order of `GenerationMixin._get_logits_processor`."""
    warpers = []
    if cuts.temperature != 1.0:
        warpers.append(process.TemperatureLogitsWarper(cuts.temperature))
    if cuts.top_k:
        warpers.append(process.TopKLogitsWarper(cuts.top_k))
    if cuts.top_p < 1.0:
        warpers.append(process.TopPLogitsWarper(cuts.top_p))
    if cuts.min_p:
        warpers.append(process.MinPLogitsWarper(cuts.min_p))
    if cuts.typical < 1.0:
        warpers.append(process.TypicalLogitsWarper(cuts.typical))
    for warper in warpers:
        ratings_RV = warper(torch.zeros(0), ratings_RV)
    return ratings_RV


@pytest.mark.parametrize("forbidden", [False, True], ids=["free", "forbidden"])
@pytest.mark.parametrize("size", [7, 53, 1009])
@pytest.mark.parametrize(
    "cuts",
    [
        *[SamplingFilter(temperature=temperature) for temperature in (0.1, 0.7, 3.0)],
        *[SamplingFilter(top_k=k) for k in (1, 3, 50, 2000)],
        *[SamplingFilter(top_p=p) for p in (0.0, 0.05, 0.5, 0.9, 0.99)],
        *[SamplingFilter(min_p=p) for p in (0.01, 0.1, 0.5, 1.0)],
        *[SamplingFilter(typical=p) for p in (0.05, 0.2, 0.5, 0.9, 0.95)],
        SamplingFilter(temperature=0.8, top_k=40, top_p=0.95),
        SamplingFilter(temperature=1.5, min_p=0.05),
        SamplingFilter(temperature=1.3, top_k=20, top_p=0.9, min_p=0.05, typical=0.8),
    ],
    ids=str,
)
def test_the_same_is_cut(cuts: SamplingFilter, size: int, forbidden: bool) -> None:
    ratings_RV = ratings_of(size, forbidden=forbidden)
    ours_RV, theirs_RV = cuts(ratings_RV), theirs(cuts, ratings_RV)
    assert torch.equal(ours_RV.isneginf(), theirs_RV.isneginf())
    torch.testing.assert_close(ours_RV.softmax(-1), theirs_RV.softmax(-1), rtol=1e-5, atol=1e-7)
    if cuts.temperature == 1.0:
        assert torch.equal(ours_RV, theirs_RV)


def test_equals_at_the_edge() -> None:
    """Of seven equals 0.5 holds four: theirs leave four of them in, ours all. The other cut-offs treat equals alike."""
    equal_RV = torch.zeros(1, 7)
    assert int(theirs(SamplingFilter(top_p=0.5), equal_RV).isfinite().sum()) == 4
    assert int(SamplingFilter(top_p=0.5)(equal_RV).isfinite().sum()) == 7
    for cuts in (SamplingFilter(top_k=3), SamplingFilter(min_p=1.0), SamplingFilter(typical=0.5)):
        assert int(theirs(cuts, equal_RV).isfinite().sum()) == int(cuts(equal_RV).isfinite().sum()) == 7
