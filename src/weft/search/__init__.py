"""A step function to hypotheses. Search knows ids and rows; it has never heard of models or text."""

from weft.search.beam import beam
from weft.search.interface import Hypothesis, SearchRequest, StepModel
from weft.search.ranking import Ranking
from weft.search.sampling import Sampler, follow, greedy
from weft.search.sampling_filters import SamplingFilter

__all__ = [
    "Hypothesis",
    "Ranking",
    "Sampler",
    "SamplingFilter",
    "SearchRequest",
    "StepModel",
    "beam",
    "follow",
    "greedy",
]
