"""Pairs to token ids, in memory or in memory-mapped files."""
