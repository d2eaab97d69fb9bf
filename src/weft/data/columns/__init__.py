"""Which columns of a file hold the sources and the targets, and the pairs of such a file."""
