"""From the settings of a recipe to pairs, tokenizers and a corpus to train on: [data] and [tokenizer] wired up.

    prepare(recipe)     what a run trains on: read, filtered, cut into ids, in memory, in mapped files or as a stream
    read_corpus(...)    the pairs of a split, one after the other, for evaluation

What a split goes through: rows are read; bad and blank ones are errors or counted; the steps of data.pipeline follow,
for training all of them, else those that hold everywhere; then the corpus's tag is put before the source.
"""

from weft.preparation.corpora import Transform, find_corpora, has_corpus, read_corpus, sources_of, steps_of
from weft.preparation.prepare import Prepared, check_corpus, prepare, reasons_of
from weft.preparation.tokenizers import NothingLeftError, learn_tokenizers

__all__ = [
    "NothingLeftError",
    "Prepared",
    "Transform",
    "check_corpus",
    "find_corpora",
    "has_corpus",
    "learn_tokenizers",
    "prepare",
    "read_corpus",
    "reasons_of",
    "sources_of",
    "steps_of",
]
