"""A time limit for training: the speed is measured, and the recipe is fitted to it."""
