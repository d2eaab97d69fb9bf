"""The part of ``weft data show`` for corpora whose sources are pictures, frames or sound: their files are read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from weft.data.arrays.tokenizer import ArrayTokenizer
from weft.files import save_text
from weft.pairs.profiling.arrays import ArrayProfile, ArraySample, profile_arrays
from weft.pictures.array_report import describe_arrays, sampled_thumbnails
from weft.pictures.html.thumbnails import thumbnails_page
from weft.pictures.thumbnails import Thumbnail, terminal_thumbnails

if TYPE_CHECKING:
    from weft.data.filtering.statistics import CorpusStatistics
    from weft.data.reading.corpora import Corpus
    from weft.recipe import Recipe

READ_FILES = 20_000
"""Files that are read of a corpus."""


def array_record(recipe: Recipe, corpus: Corpus) -> dict[str, Any]:
    """The profile of the arrays of a corpus, for JSON."""
    return {"arrays": _profile(recipe, corpus).record()}


def show_arrays(recipe: Recipe, corpus: Corpus, statistics: CorpusStatistics) -> list[Thumbnail]:
    """Print sizes and colors of the arrays of a corpus, files that cannot be read, and thumbnails of some; these."""
    from rich.console import Console

    typer.echo("\n" + describe_arrays(_profile(recipe, corpus), statistics.pairs))
    thumbnails = sampled_thumbnails(statistics.samples(), _reader(recipe).original)
    if thumbnails:
        console = Console(highlight=False)
        console.print("\nsamples", markup=False)
        console.print(terminal_thumbnails(thumbnails))
    return thumbnails


def write_thumbnails(page: Path, title: str, thumbnails: list[Thumbnail]) -> None:
    """Write a page of thumbnails."""
    save_text(page, thumbnails_page(title, thumbnails))
    typer.echo(str(page))


def _profile(recipe: Recipe, corpus: Corpus) -> ArrayProfile:
    """The profile of the arrays of a corpus: of all, or of evenly spaced ones."""
    from weft.data.pairs import RowError

    sample, reader = ArraySample(max_rows=READ_FILES), _reader(recipe)
    for block in corpus.blocks():
        for number, row in block.rows():
            if not isinstance(row, RowError):
                sample.add(block.name, number, row.source, row.target)
    return profile_arrays(sample.rows, lambda row: reader.original(row.name))


def _reader(recipe: Recipe) -> ArrayTokenizer:
    """Reads arrays by their names, within the limits of the recipe."""
    from weft.recipe.choices import ARRAY_SOURCES, resolve
    from weft.text.vocabulary import LearningOptions

    options = LearningOptions.from_settings(recipe.tokenizer)
    reader: ArrayTokenizer = resolve(ARRAY_SOURCES, recipe.tokenizer.kind).learn((), options)
    return reader
