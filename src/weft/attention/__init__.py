"""Where to look: scores, the attention made of a score, and multi-head attention over ragged batches."""

from weft.attention.attention import Attention, Keys, attend
from weft.attention.multihead import KeysValues, MultiHead, Past
from weft.attention.ragged_attention import Looking, PrefixLooking, Seen, Sight, StepItems, Watch, noting
from weft.attention.relative_positions import Alibi, Bias, Buckets, Rotation, rotation
from weft.attention.scores import SCORES, Score, make_score

__all__ = [
    "SCORES",
    "Alibi",
    "Attention",
    "Bias",
    "Buckets",
    "Keys",
    "KeysValues",
    "Looking",
    "MultiHead",
    "Past",
    "PrefixLooking",
    "Rotation",
    "Score",
    "Seen",
    "Sight",
    "StepItems",
    "Watch",
    "attend",
    "make_score",
    "noting",
    "rotation",
]
