"""What every tokenizer does, the table of kinds, and how one is learned and loaded.

========== ===================================== ============================ ==============================
kind       unit                                  unknown symbols              decode(encode(text)) == text
========== ===================================== ============================ ==============================
character  Unicode character (code point); with  characters never seen;       if every character and tag is
           ``tags`` also ``<...>`` (see units)   tags never seen              known
byte       byte of the UTF-8 form                none                         always
word       word of `weft.text.word_splitting`, or between words never seen             if every word is known, words
           white space                                                        are one space apart, and the
                                                                              text has no U+FFED (see units)
bpe        learned pieces of words: frequent     characters never seen; none  if every character is known
           neighbors merged                     with ``byte_level`` or       and the text has no U+2581
                                                 ``byte_fallback``            (always with ``byte_level``)
unigram    learned pieces of words: the          like bpe; a run of unknown   like bpe
           likeliest cut                         characters is one unknown
foreign    that of another's file: a             as the file has it           as the file has it
           tokenizer.json or SentencePiece model
========== ===================================== ============================ ==============================

What happens to difficult input, for every kind:

- an unknown symbol becomes the unknown's id, and in decoded text ``⁇`` (U+2047);
- the empty text has no ids, and no ids are the empty text; a text of white space alone has no words;
- text spelled like a mark (``</s>``, ``<unk>``) is text, never the mark;
- the length of a line is not limited, and a line of a megabyte without a space takes about a second at most;
- NUL, other control characters, emoji, combining marks and right-to-left text are characters like any other: no
  reordering and, unless asked for, no normalization (é as one code point and as two are different texts) and no case
  folding. With ``normalize`` or ``lowercase`` what comes back is the normalized text (`weft.text.normalization`);
- given symbols (``<2de>``) are one token wherever they stand, and protected patterns are units (`weft.text.symbols`);
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
from weft.text.external import ExternalTokenizer
from weft.text.pretokenization import recognize
from weft.text.unigram import Unigram
from weft.text.word_cache import Arrays
from weft.text.words import FORMAT, Byte, Character, Word


class Tokenizer(Protocol):
    """Text <-> ids."""

    kind: str
    can_drop: bool
    """Whether it has `encode_batch_with_dropout(texts, probability, random)`: BPE has."""

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

    def encode_arrays(self, texts: Sequence[str]) -> Arrays:
        """The same in the least time: the ids of all texts end to end (int32), and how many each has (int64)."""
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

    def description(self) -> list[str]:
        """What a person may want to know beside its kind and size, a line each."""
        ...


TOKENIZERS: dict[str, type[Character] | type[Byte] | type[Word] | type[BPE] | type[Unigram]] = {
    "character": Character,
    "byte": Byte,
    "word": Word,
    "bpe": BPE,
    "unigram": Unigram,
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
    normalize: str = "none",
    lowercase: bool = False,
    symbols: Sequence[str] = (),
    protect: Sequence[str] = (),
    byte_fallback: bool = False,
) -> Tokenizer:
    """Learn a tokenizer from texts, read once. A setting that a kind has no use for is ignored by it.

    size                the most ids there may be, marks included (bpe, unigram: required; byte: always 259)
    minimum_count       how often a character, a word, a pair to be merged, or a protected match must occur
    end_of_word         bpe, unigram: mark where a word ends (``</w>``) rather than where it begins (``▁``)
    byte_level          bpe, unigram: pieces of bytes rather than of characters, so that nothing is unknown
    split_punctuation   word, bpe, unigram: a punctuation mark is no part of the word beside it
    tags                character: a tag such as ``<ACC(PL)>`` is one symbol
    decompose           character: of decomposed text, a Korean syllable as its letters
    normalize           all but byte: ``none``, ``nfc`` or ``nfkc``
    lowercase           all but byte: small letters only
    symbols             all but byte: texts such as ``<2de>`` that are one token wherever they stand
    protect             all but byte: regular expressions; what matches is a unit, the frequent ones with an id each
    byte_fallback       bpe, unigram: a character without an id becomes its bytes, so that nothing is unknown
    """
    prepared = {"normalize": normalize, "lowercase": lowercase, "symbols": tuple(symbols), "protect": tuple(protect)}
    if kind == "byte":
        for name, value in prepared.items():
            if value and value != "none":
                raise VocabularyError(f"{name}: bytes are taken as they are; choose another kind, such as character")
        return Byte.learn(texts, size=size)
    counted: dict[str, Any] = {"size": size, "minimum_count": minimum_count, **prepared}
    if kind == "character":
        return Character.learn(texts, tags=tags, decompose=decompose, **counted)
    if kind == "word":
        return Word.learn(texts, split_punctuation=split_punctuation, **counted)
    kinds: dict[str, type[BPE] | type[Unigram]] = {"bpe": BPE, "unigram": Unigram}
    pieces = kinds.get(kind)
    if pieces is None:
        raise VocabularyError(f"unknown kind of tokenizer {kind!r}; {nearest(kind, TOKENIZERS)}")
    return pieces.learn(
        texts,
        end_of_word=end_of_word,
        byte_level=byte_level,
        split_punctuation=split_punctuation,
        byte_fallback=byte_fallback,
        **counted,
    )


def load(path: Path | str) -> Tokenizer:
    """Load what `Tokenizer.save` wrote, any `tokenizer.json`, or a SentencePiece model: by content, not by name."""
    path = Path(path)
    content = _read(path)
    found = _parse(content, path)
    if isinstance(found, ExternalTokenizer):
        return found
    name = str(path)
    if "weft_tokenizer" not in found:
        model = found.get("model")
        if not isinstance(model, dict):
            raise VocabularyError(f"{path}: not a tokenizer written by weft, nor a tokenizer.json")
        form = recognize(found)
        if form is None:
            return ExternalTokenizer.from_tokenizers(content.decode("utf-8"), name=name)
        pieces = Unigram if model.get("type") == "Unigram" else BPE
        return pieces.from_json(found, name=name, form=form)
    version, kind = found["weft_tokenizer"], found.get("kind")
    if not isinstance(version, int) or version < 1:
        raise VocabularyError(f"{path}: damaged: its format is {version!r}, expected a whole number")
    if version > FORMAT:
        raise VocabularyError(f"{path}: written by a newer weft (format {version}; this one reads up to {FORMAT})")
    for unit in (Character, Byte, Word, ExternalTokenizer):
        if kind == unit.kind:
            return unit.from_json(found, name=name)
    raise VocabularyError(f"{path}: unknown kind of tokenizer {kind!r}; {nearest(str(kind), TOKENIZERS)}")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        reason = {FileNotFoundError: "no such file", IsADirectoryError: "is a folder, expected a file"}
        message = reason.get(type(error), error.strerror or str(error))
        raise VocabularyError(f"{path}: cannot read the tokenizer: {message}") from None


def _parse(content: bytes, path: Path) -> dict[str, Any] | ExternalTokenizer:
    try:
        found = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError):
        if content[:1] == b"\n":  # how a SentencePiece model begins: its first piece
            try:
                return ExternalTokenizer.from_sentencepiece(content, name=str(path))
            except VocabularyError as error:
                if "pip install" in str(error):
                    raise
        raise VocabularyError(
            f"{path}: damaged, or not a tokenizer: it is neither a JSON file nor a SentencePiece model"
        ) from None
    if not isinstance(found, dict):
        raise VocabularyError(f"{path}: not a tokenizer written by weft, nor a tokenizer.json")
    return found
