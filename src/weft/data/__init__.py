"""From files to batches, in four stages: reading, filtering, store, batching. Profiling summarizes a corpus."""
