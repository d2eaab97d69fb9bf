"""From the profile of a corpus to a recipe: what an expert would choose, each choice with its reason."""
