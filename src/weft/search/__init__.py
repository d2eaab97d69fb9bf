"""From a model's step function to hypotheses. Search knows ids and rows, neither models nor text."""

from weft.search.beam import BeamOptions, beam_search
from weft.search.interface import Hypothesis, SearchRequest, StepModel
from weft.search.ranking import Ranking
from weft.search.sampling import Sampler, greedy_search, sample
from weft.search.sampling_filters import SamplingFilter

__all__ = [
    "BeamOptions",
    "Hypothesis",
    "Ranking",
    "Sampler",
    "SamplingFilter",
    "SearchRequest",
    "StepModel",
    "beam_search",
    "greedy_search",
    "sample",
]
