"""Attention: scores, the attention of recurrent models, and multi-head attention over ragged batches."""

from weft.attention.attention import Attention, ProjectedKeys, attend
from weft.attention.kv_cache import KVCache
from weft.attention.masks import additive_mask
from weft.attention.multihead import CrossAttention, MultiHeadAttention, SelfAttention
from weft.attention.ragged_attention import AttentionPattern, PrefixAttention, RaggedAttention
from weft.attention.records import AttentionRecord, AttentionRecorder, AttentionRecords, ReturnAttention
from weft.attention.relative_positions import AlibiBias, RelativeBias, Rotation, T5Bias, rotation
from weft.attention.scores import Score, make_score
from weft.attention.step_attention import KeysValues, StepKeysValues

__all__ = [
    "AlibiBias",
    "Attention",
    "AttentionPattern",
    "AttentionRecord",
    "AttentionRecorder",
    "AttentionRecords",
    "CrossAttention",
    "KVCache",
    "KeysValues",
    "MultiHeadAttention",
    "PrefixAttention",
    "ProjectedKeys",
    "RaggedAttention",
    "RelativeBias",
    "ReturnAttention",
    "Rotation",
    "Score",
    "SelfAttention",
    "StepKeysValues",
    "T5Bias",
    "additive_mask",
    "attend",
    "make_score",
    "rotation",
]
