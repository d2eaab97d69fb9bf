"""Training updates: recorded as CUDA graphs, shared between cores; losses in chunks."""
