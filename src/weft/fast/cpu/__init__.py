"""Fast paths for CPUs."""
