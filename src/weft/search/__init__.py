"""From a model's step function to hypotheses. Search knows ids and rows, neither models nor text."""
