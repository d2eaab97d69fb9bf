"""A corpus prepared for copying has ids for tokens that are not in the vocabularies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fixtures.small_corpora import recipe_of, refusal, rows_of, write_tsv
from weft.data.pairs import Pair
from weft.data.preparation import PreparedCorpus, prepare
from weft.data.store.token_store import encode_pairs
from weft.recipe import Recipe
from weft.text.copying import SentenceIds
from weft.text.specials import UNKNOWN

ROWS = [
    ("a rare1 b rare2", "rare2 x rare1"),
    ("a b", "x y"),
    ("b other rare1 a other", "rare1 y missing other"),
    *([("a b", "x y")] * 9),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_tsv(tmp_path / "pairs.tsv", ROWS)
    return tmp_path


def recipe(folder: Path, *, copy: bool = True, **data: Any) -> Recipe:
    tokenizer = {"kind": "word", "minimum_count": 4, "joint": False}
    return recipe_of("pairs.tsv", folder, model={"copy": copy}, tokenizer=tokenizer, **data)


def ids_of(corpus: PreparedCorpus) -> set[tuple[tuple[int, ...], tuple[int, ...]]]:
    """All pairs of ids, from an epoch of batches."""
    [*lazy] = corpus.data.batches(10_000, seed=1).take(1, 1)
    batch = lazy[0].make()
    sides = ([tuple(row.tolist()) for row in side.split()] for side in batch)
    return set(zip(*sides, strict=True))


def test_memory_folder_and_stream_have_the_ids_of_scoring(folder: Path) -> None:
    corpus = prepare(recipe(folder))
    own = SentenceIds.of(corpus.tokenizers)
    pairs = [Pair(*row) for row in ROWS]
    store = encode_pairs(pairs, corpus.tokenizers, sentence_ids=own)
    expected = {
        (tuple(source), tuple(target))
        for source, target in zip(rows_of(store.source), rows_of(store.target), strict=True)
    }
    vs, vt = corpus.tokenizers.source.size, corpus.tokenizers.target.size
    assert any(vs + vt in source and vt + 3 in target for source, target in expected), "rare2 is at position 3"
    assert sum(UNKNOWN in target for _, target in expected) == 1, "`missing` alone"
    assert ids_of(corpus) == expected
    assert ids_of(prepare(recipe(folder, prepared="out"))) == expected
    assert ids_of(prepare(recipe(folder, prepared="out"))) == expected
    assert ids_of(prepare(recipe(folder, streaming=True))) == expected


def test_without_copying_they_are_unknown(folder: Path) -> None:
    corpus = prepare(recipe(folder, copy=False))
    sizes = corpus.tokenizers.source.size, corpus.tokenizers.target.size
    for sides in ids_of(corpus):
        assert all(max(ids) < size for ids, size in zip(sides, sizes, strict=True))


def test_a_folder_is_for_one_of_the_two(folder: Path) -> None:
    for copy in (True, False):
        prepare(recipe(folder, copy=copy, prepared=str(copy)))
        message = refusal(prepare, recipe(folder, copy=not copy, prepared=str(copy)))
        assert message.startswith(f"{folder / str(copy)}: prepared with another model.copy; remove")
