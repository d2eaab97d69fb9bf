"""What every tokenizer does, the table of kinds, and how one is learned and loaded.

========== ===================================== ============================ ==============================
kind       unit                                  unknown symbols              decode(encode(text)) == text
========== ===================================== ============================ ==============================
character  Unicode character (code point); with  characters never seen;       if every character and tag is
           ``tags`` also ``<...>`` (see units)   tags never seen              known
byte       byte of the UTF-8 form                none                         always
word       word of `weft.text.words`, or between words never seen             if every word is known, words
           white space                                                        are one space apart, and the
                                                                              text has no U+FFED (see units)
bpe        learned pieces of words               characters never seen; none  if every character is known
                                                 with ``byte_level``          and the text has no U+2581
                                                                              (always with ``byte_level``)
========== ===================================== ============================ ==============================

What happens to difficult input, for every kind:

- an unknown symbol becomes the unknown's id, and in decoded text ``⁇`` (U+2047);
- the empty text has no ids, and no ids are the empty text; a text of white space alone has no words;
- text spelt like a mark (``</s>``, ``<unk>``) is text, never the mark;
- the length of a line is not limited, and a line of a megabyte without a space takes about a second at most;
- NUL, other control characters, emoji, combining marks and right-to-left text are characters like any other: no
  normalisation (é as one code point and as two are different texts), no reordering, no case folding;
- line ends (LF, CR, CR LF, U+2028) inside a text are characters for characters, bytes and BPE, white space for words;
- a lone surrogate is not text: `VocabularyError`; so is an id outside the vocabulary.

A joint vocabulary is learned from the texts of both sides, one after the other; nothing else is needed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol, Self

from weft.errors import VocabularyError, nearest
from weft.text.bpe import BPE
from weft.text.units import FORMAT, Byte, Character, Word


class Tokenizer(Protocol):
    """Text <-> ids."""

    kind: str

    @property
    def size(self) -> int:
        """The number of ids, marks included."""
        ...

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without begin and end marks."""
        ...

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """`encode` of every text, in bulk."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids; begin and end marks are skipped, an unknown becomes ``⁇``."""
        ...

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """How a picture shows each id: its text without joining marks, ``␣`` for a space, ``</s>`` for the end."""
        ...

    def spans(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        """For each id the place of its text in ``decode(ids)``; begin and end marks have an empty span."""
        ...

    def extended(self, texts: Iterable[str], *, minimum_count: int = 1) -> Self:
        """The same with ids for what the texts hold and it does not know (bpe: characters); given ids stay."""
        ...

    def save(self, path: Path) -> None:
        """Write the tokenizer's file, atomically."""
        ...


TOKENIZERS: dict[str, type[Character] | type[Byte] | type[Word] | type[BPE]] = {
    "character": Character,
    "byte": Byte,
    "word": Word,
    "bpe": BPE,
}


def learn(
    kind: str,
    texts: Iterable[str],
    *,
    size: int | None = None,
    minimum_count: int = 1,
    end_of_word: bool = True,
    byte_level: bool = False,
    split_punctuation: bool = True,
    tags: bool = False,
    decompose: bool = False,
) -> Tokenizer:
    """Learn a tokenizer from texts, read once. A setting that a kind has no use for is ignored by it.

    size                the most ids there may be, marks included (bpe: required; byte: always 259)
    minimum_count       how often a character, a word, or a pair to be merged must occur
    end_of_word         bpe: mark where a word ends (``</w>``) rather than where it begins (``▁``)
    byte_level          bpe: merge bytes rather than characters, so that nothing is unknown
    split_punctuation   word, bpe: a punctuation mark is no part of the word beside it
    tags                character: a tag such as ``<ACC(PL)>`` is one symbol
    decompose           character: of decomposed text, a Korean syllable as its letters
    """
    if kind == "character":
        return Character.learn(texts, size=size, minimum_count=minimum_count, tags=tags, decompose=decompose)
    if kind == "byte":
        return Byte.learn(texts, size=size)
    if kind == "word":
        return Word.learn(texts, size=size, minimum_count=minimum_count, split_punctuation=split_punctuation)
    if kind == "bpe":
        return BPE.learn(
            texts,
            size=size,
            minimum_count=minimum_count,
            end_of_word=end_of_word,
            byte_level=byte_level,
            split_punctuation=split_punctuation,
        )
    raise VocabularyError(f"unknown kind of tokenizer {kind!r}; {nearest(kind, TOKENIZERS)}")


def load(path: Path | str) -> Tokenizer:
    """Load what `Tokenizer.save` wrote."""
    path = Path(path)
    found = _read(path)
    if "weft_tokenizer" not in found:
        if isinstance(found.get("model"), dict) and "added_tokens" in found:
            return BPE.from_json(found, name=str(path))
        raise VocabularyError(f"{path}: not a tokenizer written by weft")
    version, kind = found["weft_tokenizer"], found.get("kind")
    if not isinstance(version, int) or version < 1:
        raise VocabularyError(f"{path}: damaged: its format is {version!r}, expected a whole number")
    if version > FORMAT:
        raise VocabularyError(f"{path}: written by a newer weft (format {version}; this one reads up to {FORMAT})")
    for unit in (Character, Byte, Word):
        if kind == unit.kind:
            return unit.from_json(found, name=str(path))
    raise VocabularyError(f"{path}: unknown kind of tokenizer {kind!r}; {nearest(str(kind), TOKENIZERS)}")


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        reason = {FileNotFoundError: "no such file", IsADirectoryError: "is a folder, expected a file"}
        message = reason.get(type(error), error.strerror or str(error))
        raise VocabularyError(f"{path}: cannot read the tokenizer: {message}") from None
    except (ValueError, RecursionError):
        raise VocabularyError(f"{path}: damaged, or not a tokenizer: it is not a JSON file") from None
    if not isinstance(found, dict):
        raise VocabularyError(f"{path}: not a tokenizer written by weft")
    return found
