"""Checks of the training corpora of a recipe, without training: ``weft data check``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from weft.data.fingerprints import FingerprintCollector, Fingerprints, Overlap
from weft.data.preparation.corpora import find_corpora, has_corpus, read_corpus
from weft.data.preparation.prepare import (
    EmptyCorpusError,
    counted,
    fingerprint_collector,
    make_tokenizers,
    tokenize,
    tokenizer_spec,
)
from weft.data.store.block_tokenizer import RowCounts, count_rows
from weft.recipe import Recipe


def check_corpus(
    recipe: Recipe, *, examples: int = 0, fingerprints: FingerprintCollector | None = None
) -> Iterator[tuple[str, RowCounts]]:
    """Count the rows that a recipe would drop from each training corpus; only the fingerprints are kept."""
    entries = find_corpora(recipe, "train")
    fingerprints = fingerprints or fingerprint_collector(recipe, entries)
    try:
        tokenizers = make_tokenizers(recipe, entries)
    except EmptyCorpusError:
        tokenizers = None
    for entry in entries:
        spec = tokenizer_spec(recipe, entry, tokenizers)
        spec = replace(spec, examples=examples, length_divisor=fingerprints.length_divisor)
        blocks = counted(tokenize(recipe, entry, spec), f"checking {entry.name}")
        yield entry.name, count_rows(blocks, lambda block: fingerprints.add(block.fingerprints), examples=examples)[0]


def training_overlaps(recipe: Recipe, fingerprints: Fingerprints) -> dict[str, Overlap]:
    """Number of validation and test pairs of a recipe that are in its training data, by split."""
    return {
        split: fingerprints.overlap(list(read_corpus(recipe, split)))
        for split in ("valid", "test")
        if has_corpus(recipe, split)
    }
