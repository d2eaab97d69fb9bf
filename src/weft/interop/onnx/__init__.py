"""Runs as ONNX graphs, for ONNX Runtime, optimum and transformers.js.

exporting.py   `export_onnx`: the outline
graphs.py      a model as graphs over padded batches: an encoder, and one step of the decoder
padded.py      attention, positions and recurrence over padded batches
tensor_names.py   the names of inputs and outputs

Importing this package imports neither torch nor onnx.
"""
