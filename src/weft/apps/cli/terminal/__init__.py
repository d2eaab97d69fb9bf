"""The terminal: help, progress, signals, standard streams."""
