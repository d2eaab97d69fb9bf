"""From [data] and [tokenizer] of a recipe to pairs, tokenizers and a corpus to train on.

    prepare(recipe)     the training corpus: read, filtered, tokenized; in memory, in memory-mapped files or as a stream
    read_corpus(...)    the pairs of a split, one after the other, for evaluation

Rows are read; unreadable and blank ones are errors or counted; then come the steps of data.pipeline (outside of
training only those that are not filters or noise); then the corpus's tag is put before the source.
"""

from weft.data.preparation.checks import check_corpus, training_overlaps
from weft.data.preparation.corpora import (
    Transform,
    check_files,
    check_test_pairs,
    find_corpora,
    has_corpus,
    pipeline_steps,
    read_corpus,
)
from weft.data.preparation.prepare import (
    EmptyCorpusError,
    PreparedCorpus,
    drop_reasons,
    fingerprint_collector,
    learn_tokenizers,
    prepare,
)

__all__ = [
    "EmptyCorpusError",
    "PreparedCorpus",
    "Transform",
    "check_corpus",
    "check_files",
    "check_test_pairs",
    "drop_reasons",
    "find_corpora",
    "fingerprint_collector",
    "has_corpus",
    "learn_tokenizers",
    "pipeline_steps",
    "prepare",
    "read_corpus",
    "training_overlaps",
]
