"""Pairs to pairs: the steps of a pipeline."""
