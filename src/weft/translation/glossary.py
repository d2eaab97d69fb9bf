"""Glossaries in a search: an output contains the terms of its source.

`weft.data.reading.glossary` finds the terms of a source. `require_terms` adds them to a request. The search places them
(`weft.search.constrained_beam`): of a source with more than `MAX_TERMS` terms, or more than `MAX_TOKENS` tokens of
them, the first are required. A run that was trained with `data.terms` reads them in the source instead
(`weft.data.filtering.terms`), and is free to inflect them; only matches of regular expressions are required then. An
output that lacks a term has the flag ``term-missing``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from weft.data.reading.glossary import Glossary, annotated
from weft.errors import SearchError
from weft.text import specials

if TYPE_CHECKING:
    from weft.translation.engines.interface import TranslationRequest
    from weft.translation.translator import Translator

MAX_TERMS, MAX_TOKENS, MAX_VARIANTS = 10, 40, 8
"""Terms of a source, tokens of all of them, and variants of a term that a search is required to produce."""
PROBE = "a"
"""A word before a variant: many tokenizers encode a word differently at the beginning of a text."""


def require_terms(
    run: Translator, request: TranslationRequest, glossary: Glossary | Mapping[str, str] | Path | str
) -> TranslationRequest:
    """The request whose outputs contain the terms of their sources."""
    if request.settings.kind not in ("beam", "greedy"):
        raise SearchError(f"glossary: cannot be used with search.kind = {request.settings.kind!r}; use beam or greedy")
    glossary = Glossary.of(glossary)
    terms = glossary.terms_of(request.texts)
    if not any(terms):
        return request
    must_occur = terms
    if run.recipe.data.terms.file is not None:
        texts = [annotate(glossary, source) for source in request.texts]
        request, must_occur = request.reading(texts), glossary.expression_terms(request.texts)
        if not any(must_occur):
            return replace(request, terms=terms)
    encoded: dict[str, list[list[int]]] = {}

    def phrases(variant: str, source: str) -> list[list[int]]:
        if run.text.sentence_ids is not None:  # of a copying model ids depend on the source
            return encode_variant(run, variant, source)
        if variant not in encoded:
            encoded[variant] = encode_variant(run, variant, source)
        return encoded[variant]

    required = [
        bounded([[ids for variant in variants[:MAX_VARIANTS] for ids in phrases(variant, source)] for variants in row])
        for source, row in zip(request.texts, must_occur, strict=True)
    ]
    return replace(request, required=required, terms=terms)


def annotate(glossary: Glossary, source: str) -> str:
    """The source with the first variant of each term written after it."""
    return annotated(source, [(term.end, term.variants[0]) for term in glossary.located_terms(source)])


def encode_variant(run: Translator, variant: str, source: str) -> list[list[int]]:
    """The ids of a variant at the beginning of an output and inside; none if it has unknown symbols."""
    alone = run.encode_target(variant, source)
    before, inside = run.encode_target(PROBE, source), run.encode_target(f"{PROBE} {variant}", source)
    following = inside[len(before) :] if inside[: len(before)] == before else alone
    forms = [alone] if following == alone else [alone, following]
    return [ids for ids in forms if ids and specials.UNKNOWN not in ids and specials.END not in ids]


def bounded(terms: Iterable[Sequence[list[int]]]) -> list[Sequence[list[int]]]:
    """The terms that have variants, as many as a search is required to produce."""
    kept: list[Sequence[list[int]]] = []
    tokens = 0
    for variants in terms:
        cost = min(map(len, variants), default=0)
        if cost and len(kept) < MAX_TERMS and tokens + cost <= MAX_TOKENS:
            kept.append([ids for ids in variants if len(ids) <= MAX_TOKENS])
            tokens += cost
    return kept
