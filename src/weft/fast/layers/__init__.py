"""Layers: attention without padding, fused layers of a Transformer, recurrent decoders."""
