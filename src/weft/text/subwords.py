"""Pieces of words, however they were learned: what BPE and unigram have in common.

The library encodes; ids become text here, from the bytes that each stands for.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

import tokenizers
from tokenizers import Regex, pre_tokenizers

from weft.errors import VocabularyError
from weft.files import save_text
from weft.text import normalization as normalizing
from weft.text.pretokenization import MARK, SPELLED_MARK, Pretokenization, byte_alphabet, skeleton
from weft.text.specials import END, SPECIALS, UNKNOWN_TEXT, visible
from weft.text.symbols import Protected, symbol_pattern
from weft.text.utf8 import decode_bytes, spans_of_bytes
from weft.text.vocabulary import check_ids, check_text
from weft.text.word_cache import Arrays, WordCache, end_to_end, rows


class Subwords:
    """A form, the library's tokenizer, and the spelling of every id."""

    kind: str
    can_drop = False

    def __init__(self, form: Pretokenization, library: tokenizers.Tokenizer, spellings: Sequence[str]) -> None:
        self.form = form
        self._library = library
        self._fixed = range(len(SPECIALS), len(SPECIALS) + len(form.symbols))
        stand_ins = {character: bytes([value]) for value, character in enumerate(byte_alphabet())}
        # The bytes of every id in decoded text, where the mark is a space.
        self._bytes = [UNKNOWN_TEXT.encode(), b"", b"", *(symbol.encode() for symbol in form.symbols)]
        if form.byte_fallback:
            self._bytes += [bytes([value]) for value in range(256)]
        for spelling in spellings[len(self._bytes) :]:
            if form.byte_level:
                self._bytes.append(b"".join(map(stand_ins.__getitem__, spelling)))
            else:
                self._bytes.append(spelling.replace(MARK, " ").encode())

    @property
    def size(self) -> int:
        return len(self._bytes)

    @property
    def end_of_word(self) -> bool:
        return self.form.end_of_word

    @property
    def byte_level(self) -> bool:
        return self.form.byte_level

    @property
    def split_punctuation(self) -> bool:
        return self.form.split_punctuation

    def encode(self, text: str) -> list[int]:
        check_text(text)
        return list(self._library.encode(text, add_special_tokens=False).ids)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """`encode` of every text, on as many threads as the library takes (RAYON_NUM_THREADS)."""
        return rows(self.encode_arrays(texts))

    def encode_arrays(self, texts: Sequence[str]) -> Arrays:
        """The ids of all texts end to end, and how many each has."""
        if self.form.protect:  # what matches may hold spaces
            for text in texts:
                check_text(text)
            return end_to_end(self._encode_words(list(texts)))
        return self._bulk.arrays(texts)

    def _encode_words(self, words: list[str]) -> list[list[int]]:
        return [found.ids for found in self._library.encode_batch_fast(words, add_special_tokens=False)]

    @cached_property
    def _bulk(self) -> WordCache:
        two_marks = self.encode(" ")
        return WordCache(self._encode_words, two_marks[: len(two_marks) // 2], self._symbols)

    @cached_property
    def _symbols(self) -> re.Pattern[str] | None:
        return symbol_pattern(self.form.symbols)

    def decode(self, ids: Sequence[int]) -> str:
        check_ids(ids, self.size)
        return decode_bytes(self._parts(ids))

    def _parts(self, ids: Sequence[int]) -> list[bytes]:
        """The bytes of each id in the text, without the outer mark of every stretch between symbols."""
        parts = [self._bytes[id] for id in ids]
        backwards = self.form.end_of_word
        at_edge = True
        for place in range(len(parts) - 1, -1, -1) if backwards else range(len(parts)):
            if ids[place] in self._fixed:
                at_edge = True
            elif at_edge and parts[place]:
                at_edge = False
                parts[place] = parts[place].removesuffix(b" ") if backwards else parts[place].removeprefix(b" ")
                if not self._fixed:
                    break
        return parts

    def pieces(self, ids: Sequence[int]) -> list[str]:
        check_ids(ids, self.size)
        return [SPECIALS[id] if id <= END else self._shown(self._bytes[id]) for id in ids]

    def _shown(self, piece: bytes) -> str:
        bare = piece.removesuffix(b" ") if self.form.end_of_word else piece.removeprefix(b" ")
        try:
            return visible((bare or piece).decode())
        except UnicodeDecodeError:  # a part of a character
            return "".join(chr(value) if 32 < value < 127 else f"<0x{value:02X}>" for value in bare)

    def spans(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        """The place of every piece, its mark left out: a space is in no span, and a mark alone has an empty one."""
        check_ids(ids, self.size)
        parts = self._parts(ids)
        spans = []
        for id, part, (start, end) in zip(ids, parts, spans_of_bytes(parts), strict=True):
            marked = len(part) == len(self._bytes[id])  # its mark, if it has one, is in the text
            if marked and self.form.end_of_word and part.endswith(b" "):
                end -= 1
            elif marked and not self.form.end_of_word and part.startswith(b" "):
                start += 1
            spans.append((start, end))
        return spans

    def save(self, path: Path) -> None:
        """Write a `tokenizer.json` that `tokenizers.Tokenizer.from_file` opens."""
        save_text(path, self._library.to_str(pretty=True))

    def description(self) -> list[str]:
        """What a person may want to know, a line each."""
        form = self.form
        found = [f"normalization: {normalizing.described(form.normalize, form.lowercase)}"]
        found += [f"symbols: {' '.join(form.symbols)}"] if form.symbols else []
        found += [f"protected: {pattern}" for pattern in form.protect]
        found += ["unknown characters become bytes"] if form.byte_fallback else []
        return found

    def _new_characters(self, texts: Iterable[str], known: Iterable[str], minimum_count: int) -> list[str]:
        """Characters that have no piece, the most frequent first."""
        if self.form.byte_level or self.form.byte_fallback:
            return []
        counts: Counter[str] = Counter()
        for stretch in stretches(texts, self.form):
            counts.update(self._library.normalizer.normalize_str(stretch).replace(" ", ""))
        held = set(known)
        new = [one for one, times in counts.items() if times >= minimum_count and one not in held]
        return sorted(new, key=lambda one: (-counts[one], one))


def stretches(texts: Iterable[str], form: Pretokenization) -> Iterator[str]:
    """What stands between the symbols of the texts."""
    symbols = symbol_pattern(form.symbols)
    for text in texts:
        check_text(text)
        if symbols is None:
            yield text
        else:
            yield from filter(None, symbols.split(text)[::2])


def count_words(texts: Iterable[str], form: Pretokenization, *, guarded: bool) -> Counter[str]:
    """How often each word occurs, as it is spelled in the vocabulary."""
    library = skeleton(form, guarded=guarded)
    if form.protect:
        raw = Counter(stretches(texts, form))
    else:
        raw = Counter(word for stretch in stretches(texts, form) if stretch for word in stretch.split(" "))
    counts: Counter[str] = Counter()
    if alone := raw.pop("", 0):
        counts[form.spelling(" ")] = alone
    for text, times in raw.items():
        for word, _ in library.pre_tokenizer.pre_tokenize_str(library.normalizer.normalize_str(text)):
            counts[word] += times
    return counts


def choose_wholes(texts: Iterable[str], form: Pretokenization, *, size: int, minimum_count: int) -> list[str]:
    """Protected matches that get an id as a whole, as the vocabulary spells them: at most a quarter of the ids."""
    if not form.protect:
        return []
    library = skeleton(form, guarded=True)
    normal = (library.normalizer.normalize_str(stretch) for stretch in stretches(texts, form))
    found = Protected(form.protect).frequent(normal, most=size // 4, minimum_count=minimum_count)
    guard = pre_tokenizers.Split(Regex(SPELLED_MARK), "isolated")  # what is spelled like a mark is always cut
    wholes = [form.spelling(match) for match in found if len(guard.pre_tokenize_str(match)) == 1]
    return [spelling for spelling in wholes if spelling not in form.first]


def too_small(size: int, least: int, first: int, unit: str) -> VocabularyError:
    return VocabularyError(
        f"vocabulary: size {size} is too small: there are {least - first} different {unit}; the least size is {least}"
    )


def check_learning(kind: str, size: int | None, minimum_count: int) -> int:
    if size is None:
        raise VocabularyError(f"vocabulary: {kind} needs a size, for example 8000")
    if minimum_count < 1:
        raise VocabularyError(f"vocabulary: minimum count {minimum_count}, expected 1 or more")
    return size
