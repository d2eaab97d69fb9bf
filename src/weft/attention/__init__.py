"""Attention: scores, the attention of recurrent models, and multi-head attention over ragged batches."""
