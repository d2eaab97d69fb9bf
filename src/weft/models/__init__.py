"""Tensors to tensors: encoders, decoders, and the models made of them."""
