"""Checkpoints of fairseq, OpenNMT-py and Joey NMT: files of `torch.save`, and vocabularies inside or beside them.

importing.py      `read_model`: the outline
files.py          which file of a folder is the checkpoint
safe_loading.py   a checkpoint as plain data; nothing in it is executed
tensors.py        its tensors, each taken once; those of Transformer stacks, by the names of each toolkit
recurrent.py      the weights of recurrent stacks, attention and bridge
fairseq.py        settings, weights and vocabularies of fairseq
opennmt.py        of OpenNMT-py
joeynmt.py        of Joey NMT
vocabularies.py   lists of tokens as tokenizers

Importing this package does not import torch.
"""

from weft.interop.checkpoints.files import is_checkpoint
from weft.interop.checkpoints.importing import read_model

__all__ = ["is_checkpoint", "read_model"]
