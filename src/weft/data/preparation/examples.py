"""Examples of what a run translates: some short sources of its validation or test set (`weft.runs.examples`)."""

from __future__ import annotations

from collections import Counter
from itertools import islice

from weft.data.pairs import Pair
from weft.data.preparation.corpora import find_corpora, has_corpus, read_corpus
from weft.data.reading.corpora import Corpus, expand, regular_files
from weft.errors import WeftError
from weft.recipe import Recipe
from weft.runs.examples import MAX_CHARACTERS, MAX_EXAMPLES


def example_sources(recipe: Recipe) -> list[str]:
    """The first sources that are short; of a language model the first words. None if serve.examples says so."""
    for split in ("valid", "test") if recipe.serve.examples else ():
        try:
            if not has_corpus(recipe, split) or not all(map(_is_rereadable, _corpora(recipe, split))):
                continue
            pairs = list(islice(read_corpus(recipe, split, Counter()), 10 * MAX_EXAMPLES))
        except (WeftError, OSError):  # evaluating on it reports the reason
            continue
        sources = [_source(pair, recipe) for pair in pairs]
        short = set(sorted(sources, key=len)[: len(sources) // 2 + MAX_EXAMPLES])
        chosen = [text for text in dict.fromkeys(sources) if text in short and 0 < len(text) <= MAX_CHARACTERS]
        if chosen:
            return chosen[:MAX_EXAMPLES]
    return []


def _source(pair: Pair, recipe: Recipe) -> str:
    return pair.target.split(" ")[0] if recipe.source_role == "none" else pair.source


def _corpora(recipe: Recipe, split: str) -> list[Corpus]:
    return [entry.corpus for entry in find_corpora(recipe, split)]


def _is_rereadable(corpus: Corpus) -> bool:
    """Whether its files can be read more than once: neither standard input nor pipes."""
    files = expand(corpus.paths())
    return len(regular_files(files)) == len(files)
