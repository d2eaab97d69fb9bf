"""Engines, which run the searches of a `Translator`: PyTorch and CTranslate2."""
