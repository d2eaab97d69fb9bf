"""The tokenizer interface, and how tokenizers are learned and loaded.

========== ===================================== ============================ ==============================
kind       unit                                  unknown                      decode(encode(text)) == text
========== ===================================== ============================ ==============================
character  Unicode character (code point); with  characters and tags not      if every character and tag is
           ``tags`` also ``<...>``               seen in training             known
byte       byte of the UTF-8 encoding            nothing                      always
word       word of `weft.text.words`,   words not seen in training   if every word is known, words
           or between white space                                             are one space apart, and the
                                                                              text has no U+FFED
bpe        learned subwords: frequent neighbors  characters not seen in       if every character is known
           merged                                training; nothing with       and the text has no U+2581
                                                 ``byte_level`` or            (always with ``byte_level``)
                                                 ``byte_fallback``
unigram    learned subwords: the most likely     like bpe; a run of unknown   like bpe
           segmentation                          characters is one unknown
picture    pixel of a file's picture             nothing                      never: see below
frames     value of a file's frames or sound     nothing                      never: see below
external   that of a tokenizer.json or           as in the file               as in the file
           SentencePiece model
imported   that of a pretrained model            as in the original           as in the original
========== ===================================== ============================ ==============================

The texts of the kinds ``picture`` and ``frames`` are names of files (`weft.data.arrays.tokenizer`); what follows is of
the others.

Unusual input, for every kind:

- an unknown symbol becomes the id of the unknown token, and in decoded text ``⁇`` (U+2047);
- the empty text has no ids, and no ids are the empty text; a text of white space alone has no words;
- text that spells a special token (``</s>``, ``<unk>``) is text, never the special token;
- a text has at most 1,000,000 characters, with or without spaces (`InputTooLongError`); a tokenizer learns from the
  beginning of longer ones;
- NUL, other control characters, emoji, combining marks and right-to-left text are characters like any other: no
  reordering and, unless asked for, no normalization (é as one code point and as two are different texts) and no case
  folding. With ``normalize`` or ``lowercase`` the decoded text is the normalized text (`weft.text.preprocessing`);
- predefined symbols (``<2de>``) are one token wherever they occur, and matches of protected patterns are never joined
  with their neighbors (`weft.text.preprocessing`);
- line ends (LF, CR, CR LF, U+2028) inside a text are characters for characters, bytes and BPE, white space for words;
- a lone surrogate is not text: `VocabularyError`; so is an id outside the vocabulary.

A joint vocabulary is learned from the texts of both sides, one after the other.

`sample` is reservoir sampling: a uniform sample of a stream of any length, in bounded memory. Every item draws a
priority, a uniform number from a generator seeded once; the items with the lowest priorities are kept as long as their
sizes fit the bound together. So the sample depends on the order of the items only through the draws, and items of equal
size have equal probability. If all items fit, all are kept, in order.

The rule: sort the items by priority and take them from the lowest up until the next one would exceed the bound; it and
all after it are dropped. An item never comes back once it is above that threshold, because the threshold only falls as
items arrive, so what is kept at any time is all that has to be in memory: at most the bound and one item. A long item
is as likely to be drawn as a short one, but more likely to be the one that does not fit, so items as long as a good
part of the bound are underrepresented.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, TypeVar

from weft.errors import DataError, VocabularyError, nearest
from weft.files import read_bounded
from weft.recipe.choices import ARRAY_SOURCES, TOKENIZERS, TOKENIZERS_OF_SOURCES, resolve
from weft.text.frames import DEFAULT_FRAME, DEFAULT_RULES, Frame
from weft.text.id_rows import TokenArrays
from weft.text.vocabulary import FORMAT, MAX_TEXT_CHARACTERS

KINDS = TOKENIZERS_OF_SOURCES
"""Everything that ids can be made of."""
MAX_FILE_BYTES = 1 << 28
"""The largest tokenizer file."""
MERGES_START, MERGES_END = b'\n    "merges": [', b"\n    ]\n  }\n}"
"""Bytes before and after the merges of a `tokenizer.json`; no text in JSON has a line end."""
EXTERNAL = "external"
"""The kind of tokenizers that weft does not learn itself (`weft.text.external`)."""
IMPORTED = "imported"
"""The kind of tokenizers that belong to an imported model (`weft.text.imported`)."""


if TYPE_CHECKING:
    from weft.text.vocabulary import LearningOptions


class Tokenizer(Protocol):
    """Text <-> ids."""

    kind: str
    supports_dropout: bool
    """Whether it has `encode_batch_with_dropout(texts, probability, random)`, as BPE has."""

    @property
    def size(self) -> int:
        """The number of ids, special tokens included."""
        ...

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without begin and end tokens."""
        ...

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """`encode` of every text."""
        ...

    def encode_arrays(self, texts: Sequence[str]) -> TokenArrays:
        """Encode to arrays, fastest: the ids of all texts concatenated (int32), and the length of each (int64)."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids; begin and end tokens are skipped, an unknown token becomes ``⁇``."""
        ...

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """Each id for display: its text without boundary markers, ``␣`` for a space, ``</s>`` for the end."""
        ...

    def spans(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        """The span of each id's text in ``decode(ids)``; begin and end tokens have an empty span."""
        ...

    def extended(self, texts: Iterable[str], *, minimum_count: int = 1) -> Self:
        """The tokenizer with ids for unknown symbols of the texts; existing ids do not change."""
        ...

    def save(self, path: Path) -> None:
        """Write the tokenizer's file, atomically."""
        ...

    def description(self) -> list[str]:
        """Facts to show to a user beside kind and size, one per line."""
        ...


def learn(kind: str, texts: Iterable[str], options: LearningOptions | None = None) -> Tokenizer:
    """Learn a tokenizer from texts, which are read once."""
    if kind not in KINDS:
        raise VocabularyError(f"unknown kind of tokenizer {kind!r}; {nearest(kind, KINDS)}")
    from weft.text.vocabulary import LearningOptions

    texts = (text[:MAX_TEXT_CHARACTERS] for text in texts)
    tokenizer: Tokenizer = resolve(KINDS, kind).learn(texts, options or LearningOptions())
    return tokenizer


def load(path: Path | str, *, check: bool = True) -> Tokenizer:
    """Load what `Tokenizer.save` wrote, any `tokenizer.json`, or a SentencePiece model: by content, not by name.

    ``check``: False for a file that is known to be as it was written. What encodes is then built when it is first used.
    """
    path = Path(path)
    data = _read(path)
    if not check and (unchecked := _load_bpe(data, path)) is not None:
        return unchecked
    content = _parse(data, path)
    if not isinstance(content, dict):
        return content
    kind = _kind_of_file(content, path)
    if kind not in (EXTERNAL, IMPORTED):
        loaded: Tokenizer = resolve(KINDS, kind).from_json(content, name=str(path))
        if check and hasattr(loaded, "check_library"):
            loaded.check_library(str(path))
        return loaded
    if kind == IMPORTED:
        from weft.text.imported import ImportedTokenizer

        return ImportedTokenizer.from_json(content, name=str(path))
    from weft.text.external import ExternalTokenizer

    if "weft_tokenizer" not in content:
        return ExternalTokenizer.from_tokenizers(data.decode("utf-8"), name=str(path))
    return ExternalTokenizer.from_json(content, name=str(path))


def _load_bpe(data: bytes, path: Path) -> Tokenizer | None:
    """BPE that weft wrote, without parsing its merges, half of the file; None for any other file."""
    start, end = data.find(MERGES_START), data.find(MERGES_END)
    if start < 0 or end < start:
        return None
    start, end = start + len(MERGES_START) - 1, end + len(MERGES_END)
    try:
        content = json.loads((data[:start] + b"[]" + data[end:]).decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(content, dict) or "weft_tokenizer" in content or _kind_of_file(content, path) != "bpe":
        return None
    content["model"]["merges"] = data[start:end]
    loaded: Tokenizer = resolve(TOKENIZERS, "bpe").from_json(content, name=str(path))
    return loaded


class Tokenizers(NamedTuple):
    """The source's and the target's tokenizer: the same object twice if the vocabulary is joint."""

    source: Tokenizer
    target: Tokenizer

    @property
    def joint(self) -> bool:
        return getattr(self.source, "column_tokenizer", self.source) is self.target

    @property
    def reads_arrays(self) -> bool:
        """Whether sources are arrays, given by name, not texts."""
        return self.source.kind in ARRAY_SOURCES

    def with_columns(self, count: int, *, given: int | None = None, features: Collection[int] = ()) -> Tokenizers:
        """The tokenizers for sources of ``count`` columns (`weft.text.columns`), of which a text may lack those after
        the first ``given``; ``features``: feature columns."""
        if count == 1:
            return self
        from weft.text.columns import make_column_tokenizer

        return Tokenizers(make_column_tokenizer(self.source, count, given=given, features=features), self.target)

    @property
    def frame(self) -> Frame:
        """The special tokens around a source and a target, in the languages that are chosen."""
        frame: Frame = getattr(self.source, "frame", DEFAULT_FRAME)
        return frame

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages of a model that has tokens for them."""
        rules = getattr(self.source, "rules", DEFAULT_RULES)
        return tuple(rules.languages)

    def with_languages(self, source: str | None, target: str | None) -> Tokenizers:
        """The tokenizers for other languages; None: unchanged."""
        if source is None and target is None:
            return self
        if not self.languages:
            DEFAULT_RULES.with_languages(source, target)  # raises
        from weft.text.imported import ImportedTokenizer

        assert isinstance(self.source, ImportedTokenizer) and isinstance(self.target, ImportedTokenizer)
        changed = self.source.with_languages(source, target)
        return Tokenizers(changed, changed if self.joint else self.target.with_languages(source, target))

    def with_new_languages(self, names: Mapping[str, str]) -> Tokenizers:
        """The tokenizers with tokens for more languages; each names a similar language."""
        if not names:
            return self
        if not self.languages:
            DEFAULT_RULES.with_new_languages(names, 0)  # raises
        from weft.text.imported import ImportedTokenizer

        assert isinstance(self.source, ImportedTokenizer) and isinstance(self.target, ImportedTokenizer)
        changed = self.source.with_new_languages(names)
        return Tokenizers(changed, changed if self.joint else self.target.with_new_languages(names))

    def save(self, folder: Path) -> tuple[Path, ...]:
        """Write one file or two; returns their paths."""
        if self.joint:
            self.source.save(folder / "tokenizer.json")
            return (folder / "tokenizer.json",)
        self.source.save(folder / "tokenizer.source.json")
        self.target.save(folder / "tokenizer.target.json")
        return folder / "tokenizer.source.json", folder / "tokenizer.target.json"


def load_tokenizers(paths: Sequence[Path], *, check: bool = True) -> Tokenizers:
    """Load one file for both sides, or the source's and the target's; ``check``: as in `load`."""
    source = load(paths[0], check=check)
    return Tokenizers(source, source if len(paths) == 1 else load(paths[1], check=check))


def _kind_of_file(content: dict[str, Any], path: Path) -> str:
    """The kind of tokenizer in a JSON file: one that weft wrote, or a `tokenizer.json`."""
    if "weft_tokenizer" not in content:
        model = content.get("model")
        if not isinstance(model, dict):
            raise VocabularyError(f"{path}: not a tokenizer written by weft, nor a tokenizer.json")
        from weft.text.pretokenization import recognize

        if recognize(content) is None:
            return EXTERNAL
        return "unigram" if model.get("type") == "Unigram" else "bpe"
    version, kind = content["weft_tokenizer"], str(content.get("kind"))
    if not isinstance(version, int) or version < 1:
        raise VocabularyError(f"{path}: damaged: its format is {version!r}, expected a whole number")
    if version > FORMAT:
        raise VocabularyError(f"{path}: written by a newer weft (format {version}; this one reads format {FORMAT})")
    if version < FORMAT:
        raise VocabularyError(
            f"{path}: written by an older weft (format {version}; this one reads format {FORMAT}); learn it again"
        )
    if kind not in (*KINDS, EXTERNAL, IMPORTED):
        raise VocabularyError(f"{path}: unknown kind of tokenizer {kind!r}; {nearest(kind, KINDS)}")
    return kind


def _read(path: Path) -> bytes:
    try:
        return read_bounded(path, max_bytes=MAX_FILE_BYTES, error=VocabularyError)
    except OSError as error:
        reason = {FileNotFoundError: "no such file", IsADirectoryError: "is a folder, expected a file"}
        message = reason.get(type(error), error.strerror or str(error))
        raise VocabularyError(f"{path}: cannot read the tokenizer: {message}") from None


def _parse(content: bytes, path: Path) -> dict[str, Any] | Tokenizer:
    try:
        parsed = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError):
        if content[:1] == b"\n":  # a SentencePiece model begins with its first token
            from weft.text.external import ExternalTokenizer

            try:
                return ExternalTokenizer.from_sentencepiece(content, name=str(path))
            except VocabularyError as error:
                if "pip install" in str(error):
                    raise
        raise VocabularyError(
            f"{path}: damaged, or not a tokenizer: it is neither a JSON file nor a SentencePiece model"
        ) from None
    if not isinstance(parsed, dict):
        raise VocabularyError(f"{path}: not a tokenizer written by weft, nor a tokenizer.json")
    return parsed


Item = TypeVar("Item")


def sample(
    items: Iterable[Item],
    *,
    characters: int,
    seed: int,
    size: Callable[[Item], int] = len,  # type: ignore[assignment]
) -> list[Item]:
    """A uniform sample of at most ``characters`` characters, in stream order; ``size``: the characters of an item."""
    if characters < 1:
        raise DataError(f"a sample of {characters} characters; expected 1 or more")
    draw = Random(seed).random
    threshold = 2.0  # items with a priority from here on are dropped; priorities are below 1
    total = 0
    kept: list[tuple[float, int, int, Item]] = []  # a heap, highest priority first: (-priority, index, size, item)
    for index, item in enumerate(items):
        priority = draw()
        if priority >= threshold:
            continue
        length = size(item)
        heappush(kept, (-priority, index, length, item))
        total += length
        while total > characters:
            negative, _, length, _ = heappop(kept)
            total -= length
            threshold = -negative
    return [item for _, _, _, item in sorted(kept, key=_index)]


def _index(entry: tuple[float, int, int, object]) -> int:
    return entry[1]
