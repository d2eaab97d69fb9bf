"""Training: the loop, its loss, schedules, validation and checkpoints. `weft.training.train` is where to start."""
