"""Profiles of corpora of pairs, from a bounded sample: the facts that a recipe is chosen by."""
