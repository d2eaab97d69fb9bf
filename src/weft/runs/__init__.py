"""The run folder: its layout, its weights, its model card, and loading it."""
