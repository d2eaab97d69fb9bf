"""From files to batches, in four stages: reading, filtering, store, batching."""
