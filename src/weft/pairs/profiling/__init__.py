"""What a corpus of pairs looks like, from a bounded sample: the facts that a recipe is chosen by."""
