"""Import from and export to other toolkits: Hugging Face, Marian, fairseq, OpenNMT-py, Joey NMT, ONNX and PEFT.

`weft.interop.importing` and `weft.interop.export` are where to start.
"""
