"""The loop, and what it needs: loss, schedules, forcing, checkpoints."""
