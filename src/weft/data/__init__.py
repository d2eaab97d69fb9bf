"""FlatSequences to batches: readers, the token store, token-budget packing."""
