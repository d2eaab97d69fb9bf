"""``weft data terms``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.apps.cli.arguments import PairsOrSources, TargetsFile, check_output
from weft.apps.cli.commands.data_clean import read_all_pairs
from weft.errors import DataError, plural
from weft.files import save_text
from weft.runtime.activity import activity


def terms_command(
    pairs: PairsOrSources,
    targets: TargetsFile = None,
    min_count: Annotated[
        int,
        typer.Option("--min-count", min=1, help="How often a word is translated as a variant, at least."),
    ] = 3,
    out: Annotated[Path | None, typer.Option("--out", help="The file for the glossary; printed without it.")] = None,
) -> None:
    """Find the terms of pairs by word alignment: a glossary to edit, or to train with (data.terms).

    Each line is a source word, its translations (a|b, the most frequent first) and how often they were found. No file
    is overwritten. All pairs are in memory; at most 50,000 of them are aligned.
    """
    check_output(out)
    if out is not None and out.exists():
        raise DataError(f"{out}: already exists; remove it, or choose another file")
    corpus_pairs = read_all_pairs(pairs, targets)
    from weft.pairs.term_pairs import find_terms

    with activity("aligning words"):
        terms = find_terms(corpus_pairs, min_count=min_count)
    if not terms:
        raise DataError(f"{pairs}: no terms in {plural(len(corpus_pairs), 'pair')}; lower --min-count {min_count}")
    lines = "".join(f"{term.source}\t{'|'.join(term.variants)}\t{term.links}\n" for term in terms)
    if out is None:
        typer.echo(lines, nl=False)
    else:
        save_text(out, lines)
        typer.echo(f"{out}: {plural(len(terms), 'term')} of {plural(len(corpus_pairs), 'pair')}", err=True)
