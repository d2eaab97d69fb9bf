"""Tokenizers: text to ids and back. Imports no torch. `weft.text.tokenizer` is where to start."""
