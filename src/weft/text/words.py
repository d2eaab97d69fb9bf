"""Words: how a line is split into them, and the tokenizer with one id for each word, reversibly.

A line is split at white space; within a chunk every punctuation mark or symbol is a separate word, except that

- an apostrophe stays with the letters before it if letters follow (French elision: ``l'ami`` → ``l'`` ``ami``);
- a hyphen or an underscore between letters stays inside its word (``vingt-deux``, ``arc-en-ciel``);
- a dot or a comma between digits stays inside its number (``3.14``).

Combining marks belong to the letter they follow, so the rule holds for scripts written with them. Text without
spaces between words (Chinese, Thai) comes out as whole runs: use characters, bytes or BPE there.

**Joiners.** Where a word is attached to its neighbor, one of the two carries the joiner ``￭`` (U+FFED) on that side:
punctuation carries it toward the word before it; otherwise the first of the two, which is then an opening mark or an
elided word, carries it toward the word after it::

    il m'a entarté.   →   il  m'￭  a  entarté  ￭.
    vu (hier)?        →   vu  (￭  hier  ￭)  ￭?

So the vocabulary has ``￭.`` and ``(￭``, ordinary words are the same with and without a neighbor, and `decode` restores
the line exactly if its words were separated by single spaces and it neither began nor ended with one. All white space
(as in `str.split`) counts as one space. A ``￭`` in the text itself is read as ``■`` (U+25A0), its Unicode equivalent.
An unknown word decodes as ``⁇`` between spaces.

Predefined symbols and protected matches (`weft.text.preprocessing`) carry no joiner. Where one is attached to its
neighbor, a separate joiner stands between them, as a token::

    a<2de> b   →   a  ￭  <2de>  b
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from weft.text.id_rows import TokenArrays, WordCache, join_lines, to_arrays, to_lists
from weft.text.preprocessing import Preprocessor
from weft.text.specials import END, UNKNOWN, UNKNOWN_TEXT
from weft.text.vocabulary import (
    FIRST_SYMBOL_ID,
    SymbolTokenizer,
    Vocabulary,
    check_ids,
    checked,
    read_flag,
    read_symbols,
    read_vocabulary,
    save_tokenizer,
)

if TYPE_CHECKING:
    from weft.text.vocabulary import LearningOptions

JOINER = "￭"
JOINER_REPLACEMENT = "■"
APOSTROPHES = "'’"


class Word(NamedTuple):
    """One word and its span: ``line[start:end] == text``."""

    text: str
    start: int
    end: int


def split(line: str) -> list[Word]:
    """The words of a line with their spans."""
    words: list[Word] = []
    for chunk in chunks(line):
        start = chunk.start
        for word in _split_chunk(chunk.text):
            words.append(Word(word, start, start + len(word)))
            start += len(word)
    return words


def chunks(line: str) -> list[Word]:
    """The parts of a line between white space, with their spans."""
    parts: list[Word] = []
    start = 0
    for chunk in line.split():
        start = line.index(chunk, start)
        parts.append(Word(chunk, start, start + len(chunk)))
        start += len(chunk)
    return parts


def words(line: str) -> list[str]:
    """The words of a line: ``il m'a entarté.`` → ``il`` ``m'`` ``a`` ``entarté`` ``.``"""
    return [word for chunk in line.split() for word in _split_chunk(chunk)]


@lru_cache(maxsize=1 << 16)
def _split_chunk(chunk: str) -> tuple[str, ...]:
    """The words of a chunk that has no white space."""
    if chunk.isalnum():
        return (chunk,)
    words: list[str] = []
    current = ""
    for index, character in enumerate(chunk):
        following = chunk[index + 1 : index + 2]
        if not _is_punctuation(character):
            current += character
        elif current and character in APOSTROPHES and following.isalpha():
            words.append(current + character)
            current = ""
        elif current and following and _joins(current[-1], character, following):
            current += character
        else:
            words += [current] if current else []
            words.append(character)
            current = ""
    return (*words, current) if current else tuple(words)


def _is_punctuation(character: str) -> bool:
    return unicodedata.category(character)[0] in "PS"


def _joins(before: str, punctuation: str, after: str) -> bool:
    if punctuation in "-_‐‑":
        return not _is_punctuation(after)
    return punctuation in ".," and before.isdigit() and after.isdigit()


class WordTokenizer(SymbolTokenizer):
    """One id for each word; punctuation and elided words carry joiners (see the module's docstring)."""

    kind = "word"
    supports_dropout = False

    def __init__(
        self, vocabulary: Vocabulary, *, split_punctuation: bool = True, preprocessor: Preprocessor | None = None
    ) -> None:
        self.vocabulary = vocabulary
        self.split_punctuation = split_punctuation
        self.preprocessor = preprocessor or Preprocessor()

    @classmethod
    def learn(cls, texts: Iterable[str], options: LearningOptions) -> Self:
        texts = list(_without_joiners(texts)) if options.protect else _without_joiners(texts)
        preprocessor = Preprocessor.learn(texts if isinstance(texts, list) else (), options, reserved=JOINER)
        empty = cls(Vocabulary([]), split_punctuation=options.split_punctuation, preprocessor=preprocessor)
        words = (word for text in texts for word in empty._split(text))
        joiner = (JOINER,) if preprocessor.splits else ()
        predefined = (*preprocessor.symbols, *joiner, *preprocessor.protected_tokens)
        vocabulary = Vocabulary.learn(words, options, predefined)
        return cls(vocabulary, split_punctuation=options.split_punctuation, preprocessor=preprocessor)

    def extended(self, texts: Iterable[str], *, minimum_count: int = 1) -> Self:
        words = (word for text in checked(texts) for word in self._split(text))
        vocabulary = self.vocabulary.extended(words, minimum_count=minimum_count)
        return type(self)(vocabulary, split_punctuation=self.split_punctuation, preprocessor=self.preprocessor)

    def with_symbols(self, symbols: Sequence[str]) -> Self:
        """The tokenizer with ids for these words after its own; for decoding only."""
        vocabulary = self.vocabulary.with_symbols(symbols)
        return type(self)(vocabulary, split_punctuation=self.split_punctuation, preprocessor=self.preprocessor)

    def _split(self, text: str) -> list[str]:
        if self.preprocessor.is_identity:
            return split_with_joiners(text, split_punctuation=self.split_punctuation)
        words: list[str] = []
        attached = False  # whether the previous segment ends without white space
        for segment in self.preprocessor.segments(text.replace(JOINER, JOINER_REPLACEMENT)):
            text = segment.text
            new = [text] if segment.is_token else split_with_joiners(text, split_punctuation=self.split_punctuation)
            if attached and new and not text[0].isspace():
                words.append(JOINER)
            words += new
            attached = not text[-1].isspace()
        return words

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]

    def encode_arrays(self, texts: Sequence[str]) -> TokenArrays:
        """The ids of all texts concatenated, and the number of ids of each."""
        return to_arrays(self.encode_batch(texts)) if self.preprocessor.splits else self._cache.arrays(texts)

    @cached_property
    def _cache(self) -> WordCache:
        return WordCache(self.encode_batch, [])

    def decode(self, ids: Sequence[int]) -> str:
        return self._detokenize(ids)[0]

    def decode_arrays(self, arrays: TokenArrays) -> list[str]:
        """`decode` of many texts: the ids of all of them concatenated, and the number of ids of each."""
        text = join_lines(arrays, self._pieces)
        if text is None:
            return [self.decode(ids) for ids in to_lists(arrays)]
        text = f"\n{text}".replace("\n ", "\n").replace(f"{JOINER} ", "").replace(JOINER, "")
        return text[1:-1].split("\n")

    @cached_property
    def _pieces(self) -> list[str] | None:
        """Every word with the space before it and the joiner after it, a line end for the end token.

        None if words cannot simply be joined to lines.
        """
        pieces: list[str] = []
        for id in range(FIRST_SYMBOL_ID, self.size):
            symbol = self.vocabulary.symbol(id)
            word = symbol.replace(JOINER, "")
            if word.startswith(" ") or "\n" in word:  # a protected match may
                return None
            before, after = "" if symbol.startswith(JOINER) else " ", JOINER if symbol.endswith(JOINER) else ""
            pieces.append(before + word + after)
        names = [""] * FIRST_SYMBOL_ID
        names[UNKNOWN], names[END] = f" {UNKNOWN_TEXT}", "\n"
        return [*names, *pieces]

    def tokens(self, ids: Sequence[int]) -> list[str]:
        check_ids(ids, self.size)
        symbols = map(self.vocabulary.symbol, ids)
        return [symbol.replace(JOINER, "") or JOINER for symbol in symbols]

    def spans(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        return self._detokenize(ids)[1]

    def _detokenize(self, ids: Sequence[int]) -> tuple[str, list[tuple[int, int]]]:
        """The text, and the span of every word in it."""
        check_ids(ids, self.size)
        parts: list[str] = []
        spans: list[tuple[int, int]] = []
        length, attached = 0, True
        for id in ids:
            if id == UNKNOWN:
                symbol = UNKNOWN_TEXT
            elif id < FIRST_SYMBOL_ID:
                spans.append((length, length))
                continue
            else:
                symbol = self.vocabulary.symbol(id)
            if not attached and not symbol.startswith(JOINER):
                parts.append(" ")
                length += 1
            word = symbol.replace(JOINER, "")
            parts.append(word)
            spans.append((length, length + len(word)))
            length += len(word)
            attached = symbol.endswith(JOINER)
        return "".join(parts), spans

    def save(self, path: Path) -> None:
        options = {"split_punctuation": self.split_punctuation, **self.preprocessor.to_json()}
        save_tokenizer(path, self.kind, **options, symbols=self.vocabulary.symbols)

    def description(self) -> list[str]:
        """Facts to show to a user, one per line."""
        return self.preprocessor.description()

    @classmethod
    def from_json(cls, content: dict[str, Any], *, name: str) -> Self:
        split_punctuation = read_flag(content, "split_punctuation", name)
        preprocessor = Preprocessor.from_json(content, name=name)
        joiner = (JOINER,) if preprocessor.splits else ()
        predefined = {*preprocessor.symbols, *preprocessor.protected_tokens, *joiner}
        vocabulary = read_vocabulary(read_symbols(content, name), name, predefined)
        return cls(vocabulary, split_punctuation=split_punctuation, preprocessor=preprocessor)


def split_with_joiners(text: str, *, split_punctuation: bool = True) -> list[str]:
    """The words of a text with their joiners."""
    text = text.replace(JOINER, JOINER_REPLACEMENT)
    if not split_punctuation:
        return text.split()
    words = split(text)
    symbols: list[str] = []
    joined = False  # whether the previous word carries the joiner between it and this one
    for index, word in enumerate(words):
        before = words[index - 1].end == word.start if index else False
        following = words[index + 1] if index + 1 < len(words) else None
        after = following is not None and word.end == following.start and not _is_mark(following.text)
        symbols.append((JOINER if before and not joined else "") + word.text + (JOINER if after else ""))
        joined = after
    return symbols


def _is_mark(word: str) -> bool:
    return len(word) == 1 and _is_punctuation(word)


def _without_joiners(texts: Iterable[str]) -> Iterator[str]:
    return (text.replace(JOINER, JOINER_REPLACEMENT) for text in checked(texts))
