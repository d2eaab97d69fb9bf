"""From pairs that nobody has looked at to a model: their profile, a recipe for them, the time that is given."""
