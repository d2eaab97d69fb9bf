"""Token ids to batches: order, mixing, packing, streaming and prefetching."""
