"""The tokenizers of a recipe: those of another run, of a file, or learned from a sample of the training pairs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from weft.data.filtering.pipeline import Pipeline, located
from weft.data.filtering.steps import StepError
from weft.data.pairs import Pair, is_blank
from weft.data.preparation.corpora import CorpusEntry, Transform, pipeline_steps, readable_pairs
from weft.errors import DataError, RecipeError
from weft.recipe import Recipe
from weft.runtime.activity import activity
from weft.text.preprocessing import check_patterns
from weft.text.tokenizer import Tokenizer, Tokenizers, learn, load_tokenizers, sample
from weft.text.vocabulary import LearningOptions

MAX_SAMPLED_PAIRS = 5_000_000
"""Pairs in a sample: a pair counts for at least this part of tokenizer.sample, as every pair takes memory."""


class EmptyCorpusError(DataError):
    """All pairs were dropped."""


def learn_tokenizers(recipe: Recipe, pairs: Sequence[Pair]) -> Tokenizers:
    """Learn tokenizers from pairs."""
    settings = recipe.tokenizer

    def learn_kind(kind: str, texts: Iterable[str]) -> Tokenizer:
        with activity("learning the tokenizer"):
            return learn(kind, texts, LearningOptions.from_settings(settings))

    sources, targets = _source_texts(recipe, pairs), (pair.target for pair in pairs)
    if recipe.source_role == "none":
        joint = learn_kind(settings.target_unit, targets)
        return Tokenizers(joint, joint)
    if settings.joint:
        joint = learn_kind(settings.kind, chain(sources, targets))
        return Tokenizers(joint, joint)
    if recipe.source_role == "prompt":
        raise RecipeError("tokenizer.joint: a language model reads prompts and answers alike; it needs joint = true")
    return Tokenizers(learn_kind(settings.kind, sources), learn_kind(settings.target_unit, targets))


def _source_texts(recipe: Recipe, pairs: Sequence[Pair]) -> Iterable[str]:
    """The sources, or each column of them."""
    sources = (pair.source for pair in pairs)
    if recipe.model.sources.count == 1:
        return sources
    from weft.text.columns import columns_of_texts

    return columns_of_texts(sources)


def make_tokenizers(
    recipe: Recipe,
    entries: Sequence[CorpusEntry],
    start: Sequence[Path] = (),
    transforms: Sequence[Transform] = (),
) -> Tokenizers:
    """The tokenizers of a new run; ``start``: the tokenizer files of the run that it starts from."""
    settings = recipe.tokenizer
    languages = settings.source_language, settings.target_language
    if start:
        tokenizers = load_tokenizers(start).with_new_languages(settings.new_languages).with_languages(*languages)
        if not settings.extend:
            return tokenizers
        return _extend(recipe, tokenizers, _sample_pairs(recipe, entries, transforms))
    if settings.file is not None:
        files = [settings.file, *([] if settings.target_file is None else [settings.target_file])]
        return load_tokenizers([Path(recipe.data.folder) / file for file in files]).with_languages(*languages)
    check_patterns(settings.protect)  # before the corpus is read
    return learn_tokenizers(recipe, _sample_pairs(recipe, entries, transforms))


def _numbered_pairs(recipe: Recipe, entries: Sequence[CorpusEntry]) -> Iterator[tuple[int, Pair]]:
    """All pairs that are not blank, each with the index of its corpus."""
    reads_source = recipe.source_role != "none"
    for index, entry in enumerate(entries):
        with activity(f"reading {entry.name}", "pairs") as reading:
            for block in entry.corpus.blocks():
                for pair in readable_pairs(block.rows(), recipe):
                    if not is_blank(pair, sources=reads_source):
                        reading.done += 1
                        yield index, pair


def _sample_pairs(recipe: Recipe, entries: Sequence[CorpusEntry], transforms: Sequence[Transform]) -> list[Pair]:
    """The pairs to learn a tokenizer from: all of a corpus that is not too large, else a random sample of them."""
    least = recipe.tokenizer.sample // MAX_SAMPLED_PAIRS
    sampled = sample(
        _numbered_pairs(recipe, entries),
        size=lambda row: max(len(row[1].source) + len(row[1].target), least),
        characters=recipe.tokenizer.sample,
        seed=recipe.seed,
    )
    pairs: list[Pair] = []
    for index, entry in enumerate(entries):
        pipeline = Pipeline(pipeline_steps(recipe, entry.settings, transforms), seed=recipe.seed)
        try:
            pairs += pipeline.run([pair for corpus, pair in sampled if corpus == index]).pairs
        except StepError as error:
            raise located(error, entry.corpus.blocks()) from None
    if not pairs:
        raise EmptyCorpusError("data.train: no pair is left to train on; `weft data check` says why they were dropped")
    return pairs


def _extend(recipe: Recipe, tokenizers: Tokenizers, pairs: Sequence[Pair]) -> Tokenizers:
    """The tokenizers of another run, with new ids for symbols of the pairs that they do not know."""
    minimum = recipe.tokenizer.minimum_count
    targets = [pair.target for pair in pairs]
    sources = [*_source_texts(recipe, pairs)] if recipe.source_role != "none" else []
    if tokenizers.joint:
        joint = tokenizers.source.extended([*sources, *targets], minimum_count=minimum)
        return Tokenizers(joint, joint)
    return Tokenizers(
        tokenizers.source.extended(sources, minimum_count=minimum),
        tokenizers.target.extended(targets, minimum_count=minimum),
    )
