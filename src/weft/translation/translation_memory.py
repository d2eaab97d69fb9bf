"""Searches with a translation memory: a source that is in it is not translated again.

For any other, the pairs with the most similar sources are returned beside the output. A run that was trained with
`data.fuzzy` reads the target of the best of them in a further source column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from weft.data.reading.translation_memory import MemoryLike, MemoryMatch, TranslationMemory
from weft.translation.engines.interface import TranslationRequest
from weft.translation.results import Translation, empty_translation

if TYPE_CHECKING:
    from weft.translation.translator import Translator

FLAG = "from-memory"
"""The flag of an output that was not translated, but taken from the memory."""


def search_with_memory(run: Translator, request: TranslationRequest, memory: MemoryLike) -> list[Translation]:
    """The outputs of a request: those that the memory has, and for the others what is searched, with similar pairs."""
    known = TranslationMemory.of(memory)
    sources = request.shown or request.texts
    observer = request.observer
    matches = [
        () if observer is not None and observer.is_abandoned(row) else known.find(source)
        for row, source in enumerate(sources)
    ]
    others = [row for row, similar in enumerate(matches) if not (similar and similar[0].exact)]
    rest = request.select(others)
    if run.recipe.data.fuzzy.file is not None:
        rest = rest.reading(
            [_with_match(text, matches[row]) for text, row in zip(rest.texts, others, strict=True)],
        )
    searched = iter(run.search(rest) if others else ())
    outputs: list[Translation] = []
    for source, similar in zip(sources, matches, strict=True):
        if similar and similar[0].exact:
            output = replace(empty_translation(source), text=similar[0].target)
            vars(output)["flags"] = (FLAG,)
        else:
            output = next(searched)
        vars(output)["memory"] = similar
        outputs.append(output)
    return outputs


def _with_match(text: str, matches: Sequence[MemoryMatch]) -> str:
    """A source with the target of its most similar pair in a further column; a blank one, or one that has it, as is."""
    if not text.strip() or "\t" in text:
        return text
    return f"{text}\t{' '.join(matches[0].target.split()) if matches else ''}"
