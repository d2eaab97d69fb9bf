"""Where to look: scores, the attention made of a score, and multi-head attention over ragged batches."""

from weft.attention.attention import Attention, Keys, attend
from weft.attention.multihead import KeysValues, KVCache, MultiHead
from weft.attention.ragged_attention import (
    AttentionPattern,
    AttentionRecord,
    AttentionRecorder,
    PrefixAttention,
    RaggedAttention,
    StepKeysValues,
    recorder_for,
)
from weft.attention.relative_positions import AlibiBias, Bias, Rotation, T5Bias, rotation
from weft.attention.scores import Score, make_score

__all__ = [
    "AlibiBias",
    "Attention",
    "AttentionPattern",
    "AttentionRecord",
    "AttentionRecorder",
    "Bias",
    "KVCache",
    "Keys",
    "KeysValues",
    "MultiHead",
    "PrefixAttention",
    "RaggedAttention",
    "Rotation",
    "Score",
    "StepKeysValues",
    "T5Bias",
    "attend",
    "make_score",
    "recorder_for",
    "rotation",
]
