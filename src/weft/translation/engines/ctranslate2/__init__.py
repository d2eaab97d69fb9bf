"""Transformers in CTranslate2: exporting a model, and searching it in C++.

support.py         which models and which search settings
specification.py   our weights as a CTranslate2 specification
export.py          a model as a folder that CTranslate2 loads
model.py           that folder, loaded
search.py          its searches as hypotheses of ours, and where they differ
engine.py          the engine of a `Translator`
"""
