"""Files to pairs: compression, lines, blocks, one module per format, corpora."""
