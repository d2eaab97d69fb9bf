"""Transformers in CTranslate2: exporting a model, and searching it in C++.

support.py         which models and which search settings
specification.py   weft's weights as a CTranslate2 specification
export.py          a model as a folder that CTranslate2 loads
cache.py           exported models in the user's cache folder; exported.py: that of a run, made when it is first needed
model.py           that folder, loaded
search.py          its searches, their results as weft's hypotheses, and where the two differ
engine.py          the engine of a `Translator`
"""
