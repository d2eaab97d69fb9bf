"""Runs as ONNX graphs, for ONNX Runtime, optimum and transformers.js.

exporting.py      `export_onnx`: the outline; support.py: which models are exported
graphs.py         a model as graphs over padded batches: an encoder, and a decoder, with the names of their tensors
encoding.py       encoders over padded batches, of one source or of several columns
padded.py         Transformer layers, positions and recurrence over padded batches
merging.py        one decoder graph for the first call and the later ones
description.py    configuration and tokenizers beside the graphs

Importing this package imports neither torch nor onnx.
"""
