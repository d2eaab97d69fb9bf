"""Files to pairs: compression, lines, blocks, one file a format, corpora."""
