"""From the profile of a corpus to a recipe: what an expert would choose, each choice with its reason."""

from weft.recommendation.recommend import Recommendation, recommend

__all__ = ["Recommendation", "recommend"]
