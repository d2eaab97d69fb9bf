"""CUDA graphs of searches, encoders and prompts."""
