"""Training on pairs without a recipe: their profile, a recommended recipe, a time limit, and `weft.train`."""
