"""Test pairs: given ones, a split of the run's recipe, or the sentences of an M2 file.

Pairs with a blank side, or with one that is too long, are left out and counted. Each pair is an item; or all pairs
with the same source are one, with several references.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from weft.data.columns.given_pairs import given_pairs
from weft.data.fingerprints import Fingerprints, Overlap
from weft.data.pairs import BLANK_KIND, LENGTH_KIND, Pair, blank_error, is_blank, is_oversized
from weft.data.reading.corpora import read
from weft.errors import DataError, plural
from weft.evaluation.m2 import M2Sentence, is_m2, read_m2
from weft.evaluation.max_match import Edit
from weft.recipe import Recipe
from weft.translation.inputs import as_pairs, is_within, max_tokens

if TYPE_CHECKING:
    from weft.translation.translator import Translator


class EvaluationItems(NamedTuple):
    """The sources to translate, and the references of each."""

    sources: list[str]
    references: list[list[str]]


def each_pair(pairs: Iterable[Pair]) -> EvaluationItems:
    """Every pair as an item with one reference."""
    pairs = list(pairs)
    return EvaluationItems([pair.source for pair in pairs], [[pair.target] for pair in pairs])


def grouped_by_source(pairs: Iterable[Pair]) -> EvaluationItems:
    """Each source once, in the order of first appearance, with the targets of all its pairs in their order.

    Sources are the same if every character is. A target that occurs twice is kept twice: no metric here depends on it.
    """
    references: dict[str, list[str]] = {}
    for pair in pairs:
        references.setdefault(pair.source, []).append(pair.target)
    return EvaluationItems(list(references), list(references.values()))


GROUPINGS: dict[str, Callable[[Iterable[Pair]], EvaluationItems]] = {"each": each_pair, "grouped": grouped_by_source}
"""The values of evaluation.references."""


SPLITS = ("test", "valid")


class EvaluationPairs(NamedTuple):
    """Pairs to evaluate on, and how many rows were left out, by the kind of error."""

    pairs: list[Pair]
    left_out: dict[str, int]


class EvaluationSet(NamedTuple):
    """The pairs to translate and score, also grouped into items."""

    pairs: list[Pair]
    left_out: dict[str, int]
    items: EvaluationItems
    gold: list[list[list[Edit]]] | None = None
    """The gold edits of every annotator for each item, if it is a sentence of an M2 file."""


GivenPairs = Iterable[Pair | tuple[str, str]] | Path | str
"""Pairs of a program, or the name of a file."""


def find_items(
    recipe: Recipe, pairs: GivenPairs | None, *, grouping: str, split: str = "test", limit: int | None = None
) -> EvaluationSet:
    """The pairs of `find_pairs` as items, or the first sentences of an M2 file, with the annotators as references."""
    if isinstance(pairs, Path | str) and is_m2(pairs):
        _check_limit(limit)
        return _corrections(read_m2(pairs)[:limit])
    usable, left_out = find_pairs(recipe, pairs, split=split, limit=limit)
    return EvaluationSet(usable, left_out, GROUPINGS[grouping](usable))


def find_scorable_items(
    run: Translator, pairs: GivenPairs | None, *, grouping: str, split: str = "test", limit: int | None = None
) -> EvaluationSet:
    """The items of `find_items`; pairs with a side of too many tokens for the run are left out and counted."""
    given = find_items(run.recipe, pairs, grouping=grouping, split=split, limit=limit)
    most = max_tokens(run.recipe.longest_side)
    kept = [pair for pair in given.pairs if is_within(most, run.tokenizers, source=pair.source, target=pair.target)]
    count = len(given.pairs) - len(kept)
    if not count or not kept or given.gold is not None:
        return given
    left_out = {**given.left_out, LENGTH_KIND: given.left_out.get(LENGTH_KIND, 0) + count}
    return EvaluationSet(kept, left_out, GROUPINGS[grouping](kept))


def _corrections(sentences: list[M2Sentence]) -> EvaluationSet:
    items = EvaluationItems([line.source for line in sentences], [line.references for line in sentences])
    pairs = [Pair(source, target) for source, line in zip(*items, strict=True) for target in line]
    gold = [list(line.annotators.values()) for line in sentences]
    return EvaluationSet([pair for pair in pairs if not is_blank(pair)], {}, items, gold)


def find_pairs(
    recipe: Recipe, pairs: GivenPairs | None, *, split: str = "test", limit: int | None = None
) -> EvaluationPairs:
    """The pairs to evaluate on: the given ones, or those of a split of the recipe; at least one, at most ``limit``."""
    _check_limit(limit)
    usable = _split_pairs(recipe, split) if pairs is None else _usable_pairs(recipe, pairs)
    if not usable.pairs:
        left_out = f" ({plural(sum(usable.left_out.values()), 'row')} left out)" if usable.left_out else ""
        raise DataError(f"there are no pairs to evaluate on{left_out}")
    return usable._replace(pairs=usable.pairs[:limit])


def _check_limit(limit: int | None) -> None:
    if limit is not None and limit < 1:
        raise DataError(f"limit: {limit} was given; expected at least 1")


def _given(pairs: GivenPairs, recipe: Recipe, row_errors: Counter[str]) -> Iterable[Pair]:
    """The pairs of a program, or those of a file that it named; rows that data.bad_rows skips are counted."""
    if isinstance(pairs, Path | str):
        return read(given_pairs(recipe, str(pairs)).corpus, recipe.data.bad_rows, row_errors)
    return as_pairs(pairs)


def _usable_pairs(recipe: Recipe, pairs: GivenPairs) -> EvaluationPairs:
    """Given pairs; those with a blank side are left out and counted, or an error, as data.blank_rows says.

    Those with a side that is too long to be tokenized are left out and counted.
    """
    reads_sources = recipe.source_role != "none"
    usable: list[Pair] = []
    left_out: Counter[str] = Counter()
    for number, pair in enumerate(_given(pairs, recipe, left_out), 1):
        if not is_blank(pair, sources=reads_sources):
            if is_oversized(pair):
                left_out[LENGTH_KIND] += 1
            else:
                usable.append(pair)
            continue
        if recipe.data.blank_rows == "error":
            error = blank_error(pair, f"pair {number}", sources=reads_sources)
            raise DataError(f"{error.message}; fix it, or set data.blank_rows = 'skip'")
        left_out[BLANK_KIND] += 1
    return EvaluationPairs(with_matches(recipe, usable), dict(left_out))


def with_matches(recipe: Recipe, pairs: list[Pair]) -> list[Pair]:
    """The pairs with the column of data.fuzzy, if the recipe has one and their sources do not."""
    from weft.data.preparation.corpora import check_glossary_or_memory, glossary_and_memory_steps

    if recipe.data.fuzzy.file is None:
        return pairs
    check_glossary_or_memory(recipe, "fuzzy")
    [add_match] = [step.for_evaluation() for step in glossary_and_memory_steps(recipe) if not step.training_only]
    columns = recipe.model.sources.count
    given = [pair for pair in pairs if len(pair.source.split("\t")) < columns]
    matched = iter(add_match.apply(given, b""))
    return [next(matched) or pair if len(pair.source.split("\t")) < columns else pair for pair in pairs]


def _split_pairs(recipe: Recipe, split: str) -> EvaluationPairs:
    """The pairs of the test or validation set that a recipe names."""
    from weft.data.preparation import read_corpus

    if split not in SPLITS:
        raise DataError(f"split: {split!r} was given; use {' or '.join(SPLITS)}")
    left_out: Counter[str] = Counter()
    return EvaluationPairs(list(read_corpus(recipe, split, left_out)), dict(left_out))


def training_overlap(folder: Path | None, pairs: list[Pair]) -> Overlap | None:
    """Number of pairs that were training data of the run in a folder; None if the run has no fingerprints."""
    fingerprints = None if folder is None else Fingerprints.load(folder)
    return None if fingerprints is None else fingerprints.overlap(pairs)
