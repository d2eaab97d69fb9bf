"""Models: encoders, decoders, and the architectures made of them. `weft.models.interface` is where to start."""
