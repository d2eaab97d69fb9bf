"""Metrics with their signatures, and alignment error rate."""
