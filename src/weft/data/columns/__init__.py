"""Columns of sources and targets in a file, and the pairs of such a file."""
