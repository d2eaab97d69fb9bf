"""Work at the same time: searches in the background, stages that overlap, prefetched batches, threads."""
