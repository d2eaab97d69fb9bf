"""A step function to hypotheses. Search knows ids and rows; it has never heard of models or text."""

from weft.search.beam import beam
from weft.search.follow import Choice, follow, greedy, sampler
from weft.search.hypothesis import Hypothesis, Steps

__all__ = ["Choice", "Hypothesis", "Steps", "beam", "follow", "greedy", "sampler"]
