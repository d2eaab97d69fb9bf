"""Models of Marian (marian-dev): a `.npz` file with its options inside, and vocabularies beside it.

importing.py      `read_model`: the outline
files.py          which files of a folder are the model, its settings and its vocabularies; decoder.yml as [search]
weights.py        the `.npz`: tensors, and the options of the model; nothing in it is executed
conversion.py     settings and weights
vocabularies.py   `.spm` and `.yml` vocabularies
exporting.py      `export_marian`: the inverse; exported_weights.py: its weights

Importing this package imports neither torch nor numpy.
"""

from weft.interop.marian.files import is_model
from weft.interop.marian.importing import read_model

__all__ = ["is_model", "read_model"]
