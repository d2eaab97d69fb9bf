"""Subword tokenizers: what BPE and unigram have in common.

The `tokenizers` library encodes; decoding is done here, from the bytes of each token.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import tokenizers
from tokenizers import Regex, pre_tokenizers

from weft.errors import VocabularyError, warn
from weft.files import save_text
from weft.text.id_rows import TokenArrays, WordCache, join_lines, to_arrays, to_lists
from weft.text.isolation import library_errors
from weft.text.preprocessing import ProtectedPatterns, describe_normalization, symbol_pattern
from weft.text.pretokenization import (
    BOUNDARY,
    SPECIAL_SPELLING,
    Pretokenization,
    byte_alphabet,
    untrained_tokenizer,
)
from weft.text.specials import END, SPECIALS, UNKNOWN_TEXT, visible
from weft.text.utf8 import decode_bytes, spans_of_bytes
from weft.text.vocabulary import check_ids, check_text

if TYPE_CHECKING:
    from weft.text.vocabulary import LearningOptions

MAX_LEARNED_WORD = 1_000
"""Characters of a word that subwords are learned from as a whole: the time to learn grows with its square."""


class SubwordTokenizer:
    """A pretokenization, the library's tokenizer, and the bytes of every token."""

    kind: str
    supports_dropout = False

    def __init__(self, scheme: Pretokenization, tokens: Sequence[str]) -> None:
        """``tokens``: the tokens as written in the vocabulary, by id."""
        self.scheme = scheme
        self._tokens = tokens
        self._symbol_ids = range(len(SPECIALS), len(SPECIALS) + len(scheme.symbols))

    @cached_property
    def _library(self) -> tokenizers.Tokenizer:
        """The library's tokenizer, built when first used."""
        return self._build_library()

    def _build_library(self) -> tokenizers.Tokenizer:
        raise NotImplementedError

    def check_library(self, name: str) -> None:
        """Fail if the file of this name, which it was read from, has tokens that cannot be used."""
        with damage_errors(name):
            _ = self._library, self._bytes

    @cached_property
    def _bytes(self) -> list[bytes]:
        """The bytes of every token in decoded text, where the boundary marker is a space."""
        scheme = self.scheme
        predefined = [UNKNOWN_TEXT.encode(), b"", b"", *(symbol.encode() for symbol in scheme.symbols)]
        if scheme.byte_fallback:
            predefined += [bytes([value]) for value in range(256)]
        others = self._tokens[len(predefined) :]
        if scheme.byte_level:
            byte_values = {character: bytes([value]) for value, character in enumerate(byte_alphabet())}
            return predefined + [b"".join(map(byte_values.__getitem__, token)) for token in others]
        return predefined + [token.replace(BOUNDARY, " ").encode() for token in others]

    @property
    def size(self) -> int:
        return len(self._tokens)

    @property
    def token_bytes(self) -> Sequence[bytes]:
        """The bytes of each id in decoded text, boundaries included."""
        return self._bytes

    @property
    def end_of_word(self) -> bool:
        return self.scheme.end_of_word

    @property
    def byte_level(self) -> bool:
        return self.scheme.byte_level

    @property
    def split_punctuation(self) -> bool:
        return self.scheme.split_punctuation

    def encode(self, text: str) -> list[int]:
        check_text(text)
        with library_errors(f"cannot encode {text[:40]!r}"):
            return list(self._library.encode(text, add_special_tokens=False).ids)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """`encode` of every text, on as many threads as the library takes (RAYON_NUM_THREADS)."""
        return to_lists(self.encode_arrays(texts))

    def encode_arrays(self, texts: Sequence[str]) -> TokenArrays:
        """The ids of all texts concatenated, and the number of ids of each."""
        if self.scheme.protect:  # a match may contain spaces
            for text in texts:
                check_text(text)
            with library_errors(f"protect {' '.join(self.scheme.protect)}: cannot be matched with these texts"):
                return to_arrays(self._encode_words(list(texts)))
        return self._cache.arrays(texts)

    def _encode_words(self, words: list[str]) -> list[list[int]]:
        return [encoding.ids for encoding in self._library.encode_batch_fast(words, add_special_tokens=False)]

    @cached_property
    def _cache(self) -> WordCache:
        two_boundaries = self.encode(" ")
        return WordCache(self._encode_words, two_boundaries[: len(two_boundaries) // 2], self._symbols)

    @cached_property
    def _symbols(self) -> re.Pattern[str] | None:
        return symbol_pattern(self.scheme.symbols)

    def decode(self, ids: Sequence[int]) -> str:
        check_ids(ids, self.size)
        return decode_bytes(self._parts(ids))

    def decode_arrays(self, arrays: TokenArrays) -> list[str]:
        """`decode` of many texts: the ids of all of them concatenated, and the number of ids of each."""
        text = join_lines(arrays, self._pieces)
        if text is None:
            return [self.decode(ids) for ids in to_lists(arrays)]
        text = text.replace(" \n", "\n") if self.scheme.end_of_word else f"\n{text}".replace("\n ", "\n")[1:]
        return text[:-1].split("\n")

    @cached_property
    def _pieces(self) -> list[str] | None:
        """The text of every token, a line end for the end token; None if tokens cannot simply be joined to lines."""
        if self.scheme.symbols or self.scheme.byte_level or self.scheme.byte_fallback:
            return None
        pieces = [token.decode() for token in self._bytes]
        if any("\n" in piece for piece in pieces):
            return None
        pieces[END] = "\n"
        return pieces

    def _parts(self, ids: Sequence[int]) -> list[bytes]:
        """The bytes of each token in the text, without the outer boundary of every segment between symbols."""
        parts = [self._bytes[id] for id in ids]
        backwards = self.scheme.end_of_word
        at_edge = True
        for index in range(len(parts) - 1, -1, -1) if backwards else range(len(parts)):
            if ids[index] in self._symbol_ids:
                at_edge = True
            elif at_edge and parts[index]:
                at_edge = False
                parts[index] = parts[index].removesuffix(b" ") if backwards else parts[index].removeprefix(b" ")
                if not self._symbol_ids:
                    break
        return parts

    def tokens(self, ids: Sequence[int]) -> list[str]:
        check_ids(ids, self.size)
        return [SPECIALS[id] if id <= END else self._display(self._bytes[id]) for id in ids]

    def _display(self, token: bytes) -> str:
        bare = token.removesuffix(b" ") if self.scheme.end_of_word else token.removeprefix(b" ")
        try:
            return visible((bare or token).decode())
        except UnicodeDecodeError:  # a part of a character
            return "".join(chr(value) if 32 < value < 127 else f"<0x{value:02X}>" for value in bare)

    def spans(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        """The span of every token without its boundary marker; a marker alone has an empty span."""
        check_ids(ids, self.size)
        parts = self._parts(ids)
        spans = []
        for id, part, (start, end) in zip(ids, parts, spans_of_bytes(parts), strict=True):
            has_boundary = len(part) == len(self._bytes[id])  # if the token has a boundary, it is in the text
            if has_boundary and self.scheme.end_of_word and part.endswith(b" "):
                end -= 1
            elif has_boundary and not self.scheme.end_of_word and part.startswith(b" "):
                start += 1
            spans.append((start, end))
        return spans

    def save(self, path: Path) -> None:
        """Write a `tokenizer.json` that `tokenizers.Tokenizer.from_file` opens."""
        save_text(path, self._library.to_str(pretty=True))

    def library_json(self) -> str:
        """The content of its `tokenizer.json`."""
        return str(self._library.to_str())

    def description(self) -> list[str]:
        """Facts to show to a user, one per line."""
        scheme = self.scheme
        lines = [f"normalization: {describe_normalization(scheme.normalize, scheme.lowercase)}"]
        lines += [f"symbols: {' '.join(scheme.symbols)}"] if scheme.symbols else []
        lines += [f"protected: {pattern}" for pattern in scheme.protect]
        lines += ["unknown characters become bytes"] if scheme.byte_fallback else []
        return lines

    def _new_characters(self, texts: Iterable[str], known: Iterable[str], minimum_count: int) -> list[str]:
        """Characters that have no id, the most frequent first."""
        if self.scheme.byte_level or self.scheme.byte_fallback:
            return []
        counts: Counter[str] = Counter()
        for segment in between_symbols(texts, self.scheme):
            counts.update(self._library.normalizer.normalize_str(segment).replace(" ", ""))
        excluded = set(known)
        new = [character for character, count in counts.items() if count >= minimum_count and character not in excluded]
        return sorted(new, key=lambda character: (-counts[character], character))


@contextmanager
def damage_errors(name: str) -> Iterator[None]:
    """Report any exception in the block as a damaged file of this name: the library raises plain `Exception`."""
    try:
        yield
    except Exception as error:
        reason = " ".join(str(error).split())
        raise VocabularyError(f"{name}: damaged: {reason}") from None


def between_symbols(texts: Iterable[str], scheme: Pretokenization) -> Iterator[str]:
    """The segments of the texts between symbols."""
    symbols = symbol_pattern(scheme.symbols)
    for text in texts:
        check_text(text)
        if symbols is None:
            yield text
        else:
            yield from filter(None, symbols.split(text)[::2])


def count_words(texts: Iterable[str], scheme: Pretokenization, *, split_specials: bool) -> Counter[str]:
    """Word counts, written as in the vocabulary; a very long word is cut into pieces."""
    library = untrained_tokenizer(scheme, split_specials=split_specials)
    if scheme.protect:
        raw = Counter(between_symbols(texts, scheme))
    else:
        raw = Counter(word for segment in between_symbols(texts, scheme) if segment for word in segment.split(" "))
    counts: Counter[str] = Counter()
    if empty_words := raw.pop("", 0):
        counts[scheme.to_vocabulary(" ")] = empty_words
    for text, count in raw.items():
        for word, _ in library.pre_tokenizer.pre_tokenize_str(library.normalizer.normalize_str(text)):
            counts[word] += count
    return _with_long_words_cut(counts)


def _with_long_words_cut(counts: Counter[str]) -> Counter[str]:
    """The words, those of more than `MAX_LEARNED_WORD` characters as pieces of that size."""
    long = [word for word in counts if len(word) > MAX_LEARNED_WORD]
    if not long:
        return counts
    for word in long:
        count = counts.pop(word)
        for start in range(0, len(word), MAX_LEARNED_WORD):
            counts[word[start : start + MAX_LEARNED_WORD]] += count
    noun, them = ("a word", "it is") if len(long) == 1 else (f"{len(long):,} words", "they are")
    warn(
        f"vocabulary: {noun} of more than {MAX_LEARNED_WORD:,} characters without a space; {them} cut into pieces to "
        "learn from"
    )
    return counts


def protected_tokens(texts: Iterable[str], scheme: Pretokenization, options: LearningOptions) -> list[str]:
    """Protected matches that get an id as a whole, as written in the vocabulary: at most a quarter of the ids."""
    if not scheme.protect:
        return []
    library = untrained_tokenizer(scheme, split_specials=True)
    normalized = (library.normalizer.normalize_str(segment) for segment in between_symbols(texts, scheme))
    matches = ProtectedPatterns(scheme.protect).most_frequent(
        normalized, limit=(options.size or 0) // 4, minimum_count=options.minimum_count
    )
    special = pre_tokenizers.Split(Regex(SPECIAL_SPELLING), "isolated")  # text that spells a special token is split
    tokens = [scheme.to_vocabulary(match) for match in matches if len(special.pre_tokenize_str(match)) == 1]
    return [token for token in tokens if token not in scheme.predefined]


def too_small(size: int, smallest: int, scheme: Pretokenization) -> VocabularyError:
    unit = "bytes" if scheme.byte_level else "characters"
    return VocabularyError(
        f"vocabulary: size {size} is too small: there are {smallest - len(scheme.predefined)} different {unit}; "
        f"the least size is {smallest}"
    )
