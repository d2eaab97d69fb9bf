"""Where to look: scores, and the attention made of a score and what it is asked over."""

from weft.attention.attention import Attention, Keys, attend
from weft.attention.scores import SCORES, Score, make_score

__all__ = ["SCORES", "Attention", "Keys", "Score", "attend", "make_score"]
