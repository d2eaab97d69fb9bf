"""Translators between other languages than those of the run, for a model that has several."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from weft.translation.postprocessing import Postprocessor

if TYPE_CHECKING:
    from weft.translation.translator import Translator

SETTINGS = ("source_language", "target_language")


def translator_between(translator: Translator, source: str | None, target: str | None) -> Translator:
    """A translator of the same model; None: the language of the run."""
    tokenizers = translator.tokenizers.with_languages(source, target)
    if tokenizers is translator.tokenizers:
        return translator
    other = copy.copy(translator)
    other.tokenizers = tokenizers
    other.postprocessor = Postprocessor(tokenizers, has_source=translator.recipe.model.has_source)
    return other


def in_languages(translator: Translator, search: Mapping[str, Any]) -> tuple[Translator, dict[str, Any]]:
    """The translator between the languages among changes of search settings, and the other changes."""
    if not any(search.get(name) for name in SETTINGS):
        return translator, dict(search)
    settings = translator.search_settings({name: search[name] for name in SETTINGS if name in search})
    others = {name: value for name, value in search.items() if name not in SETTINGS}
    return translator_between(translator, settings.source_language, settings.target_language), others
