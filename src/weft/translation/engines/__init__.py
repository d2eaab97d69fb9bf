"""Engines: what searches for a translator, in PyTorch or in CTranslate2."""
