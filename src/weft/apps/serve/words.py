"""The word of each source and output token, so that a page can merge attention to words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.translation.word_alignment import Sentence, split_words

if TYPE_CHECKING:
    from weft.translation.translator import Translator


def add_words(record: dict[str, Any], translator: Translator) -> None:
    """Add the words to the record of a translation and to those of its alternatives.

    ``source_words`` and, for each of the tokens, ``source_word_of_token``, −1 for one that is part of no word; the same
    for the target. A record without attention over words is left as it is.
    """
    if record["word_attention"] is None:
        return
    tokenizers, source = translator.encoded_source(record["source"])
    source_words, source_groups = split_words(tokenizers.source, source)
    for translation in (record, *record["alternatives"]):
        words, groups = split_words(tokenizers.target, Sentence(translation["text"], translation["ids"]))
        translation |= {"source_words": source_words, "source_word_of_token": source_groups}
        translation |= {"target_words": words, "target_word_of_token": groups}
