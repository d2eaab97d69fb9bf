"""The tokenizers of a recipe: those of a run, of a file, or learned from a sample of its pairs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path

from weft.data.filtering.pipeline import Pipeline
from weft.data.pairs import Pair, is_blank
from weft.errors import DataError, RecipeError
from weft.preparation.corpora import NamedCorpusReader, Transform, readable, sources_of, steps_of
from weft.recipe import Recipe
from weft.text.options import LearningOptions
from weft.text.reservoir import sample
from weft.text.symbols import check_patterns
from weft.text.tokenizer import Tokenizer, learn
from weft.text.tokenizer_pair import Tokenizers, load_tokenizers


class NothingLeftError(DataError):
    """All pairs were left out."""


def learn_tokenizers(recipe: Recipe, pairs: Sequence[Pair]) -> Tokenizers:
    """Tokenizers learned from pairs."""
    settings = recipe.tokenizer

    def make(kind: str, texts: Iterable[str]) -> Tokenizer:
        return learn(kind, texts, LearningOptions.from_settings(settings))

    sources, targets = (pair.source for pair in pairs), (pair.target for pair in pairs)
    if sources_of(recipe) == "none":
        both = make(settings.target_unit, targets)
        return Tokenizers(both, both)
    if settings.joint:
        both = make(settings.kind, chain(sources, targets))
        return Tokenizers(both, both)
    if sources_of(recipe) == "prompt":
        raise RecipeError("tokenizer.joint: a language model reads prompts and answers alike; it needs joint = true")
    return Tokenizers(make(settings.kind, sources), make(settings.target_unit, targets))


def tokenizers_of(
    recipe: Recipe, named: Sequence[NamedCorpusReader], start: Sequence[Path], transforms: Sequence[Transform]
) -> Tokenizers:
    """The tokenizers of a new run."""
    settings = recipe.tokenizer
    if start:
        given = load_tokenizers(start)
        return _extended(recipe, given, _sampled(recipe, named, transforms)) if settings.extend else given
    if settings.file is not None:
        files = [settings.file, *([] if settings.target_file is None else [settings.target_file])]
        return load_tokenizers([Path(recipe.data.folder) / file for file in files])
    check_patterns(settings.protect)  # before all is read
    return learn_tokenizers(recipe, _sampled(recipe, named, transforms))


def _sampled(recipe: Recipe, named: Sequence[NamedCorpusReader], transforms: Sequence[Transform]) -> list[Pair]:
    """The pairs to learn a tokenizer from: all of a corpus that is not too large, else a random sample of them."""
    reads = sources_of(recipe) != "none"
    rows = (
        (place, pair)
        for place, one in enumerate(named)
        for block in one.corpus.blocks()
        for pair in readable(block.rows(), recipe)
        if not is_blank(pair, sources=reads)
    )
    found = sample(
        rows,
        size=lambda row: len(row[1].source) + len(row[1].target),
        characters=recipe.tokenizer.sample,
        seed=recipe.seed,
    )
    pairs: list[Pair] = []
    for place, one in enumerate(named):
        pipeline = Pipeline(steps_of(recipe, one.settings, transforms), seed=recipe.seed)
        pairs += pipeline.run([pair for at, pair in found if at == place]).pairs
    if not pairs:
        raise NothingLeftError("data.train: no pair is left to train on; `weft data check` says what became of them")
    return pairs


def _extended(recipe: Recipe, given: Tokenizers, pairs: Sequence[Pair]) -> Tokenizers:
    """The tokenizers of the run that training goes on from, with ids for what is new in the pairs."""
    least = recipe.tokenizer.minimum_count
    targets = [pair.target for pair in pairs]
    sources = [pair.source for pair in pairs] if sources_of(recipe) != "none" else []
    if given.joint:
        both = given.source.extended([*sources, *targets], minimum_count=least)
        return Tokenizers(both, both)
    return Tokenizers(
        given.source.extended(sources, minimum_count=least), given.target.extended(targets, minimum_count=least)
    )
