"""Byte-pair encoding: words are cut into pieces that were learned by merging frequent neighbours.

Sennrich et al. 2016, *Neural machine translation of rare words with subword units*. Learning, encoding and the file
(`tokenizer.json`) are those of the `tokenizers` library; a file opened with it alone encodes identically.

**Words.** A text is cut at every space, and each space is kept as a mark on one of its neighbours: at the end of the
word before it (``end_of_word``: ``low</w>``), or at the beginning of the word after it (``▁low``). The first and the
last word get the mark too, so that a word has the same pieces wherever it stands. The mark is a symbol of its own, as
in the paper: every character may end a word, and an unknown one does not swallow the space beside it. In the file it
is written as one character: ``▁`` (U+2581), or ``Ġ`` for byte level. With ``split_punctuation`` no piece crosses a
punctuation mark or symbol, except that an apostrophe between letters belongs to the letters before it (``l'`` ``ami``).

**Round trip.** Exact, spaces of any number included, if every character was seen in learning. Other white space (tab,
line ends, no-break space) is an ordinary character inside a word. A ``▁`` in the text is read as ``_``. With
``byte_level`` the symbols are the 256 bytes, nothing is unknown and the round trip is exact for every text.

**Ties.** The pair that occurs most often is merged. Among pairs that occur equally often it is the one whose left
symbol has the smallest id, then the one whose right symbol has; single symbols have ids in code point order and
pieces come after them in the order they were made. So in "low lower newest widest", where (l,o) (o,w) (w,e) (e,s)
(s,t) (t,</w>) are tied at two, (e,s) comes first. Threads and the order of the texts do not matter.

**Marks.** A merge that would spell ``<unk>``, ``<s>`` or ``</s>`` is left out, with those built upon it: such text
stays in smaller pieces.

BPE-dropout (Provilkov et al. 2020): the library's own cannot be seeded, so `encode_with_dropout` follows the paper in
Python with the caller's random numbers, about four times slower than `encode`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, Self

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers

from weft.errors import VocabularyError
from weft.files import save_text
from weft.text.specials import END, SPECIALS, UNKNOWN, UNKNOWN_TEXT, visible
from weft.text.utf8 import decode_bytes, spans_of_bytes
from weft.text.vocabulary import check_ids, check_text

MARK = "▁"
MARK_TYPED = "_"
END_OF_WORD = "</w>"  # how people read the mark where it ends words


class BPE:
    """Byte-pair encoding, learned with `BPE.learn` or read with `weft.text.tokenizer.load`."""

    kind = "bpe"

    def __init__(
        self,
        vocabulary: dict[str, int],
        merges: list[tuple[str, str]],
        *,
        end_of_word: bool = True,
        byte_level: bool = False,
        split_punctuation: bool = True,
    ) -> None:
        self.end_of_word, self.byte_level, self.split_punctuation = end_of_word, byte_level, split_punctuation
        self._library = _skeleton(end_of_word, byte_level, split_punctuation)
        self._library.model = models.BPE(vocabulary, merges, unk_token=SPECIALS[UNKNOWN])
        self._merges = merges
        self._ids = vocabulary
        symbols = sorted(vocabulary, key=vocabulary.__getitem__)[len(SPECIALS) :]
        stand_ins = {character: bytes([value]) for value, character in enumerate(_byte_alphabet())}
        # The bytes of every id in decoded text, where the mark is a space.
        self._bytes = [UNKNOWN_TEXT.encode(), b"", b""]
        for symbol in symbols:
            plain = b"".join(map(stand_ins.__getitem__, symbol)) if byte_level else symbol.replace(MARK, " ").encode()
            self._bytes.append(plain)

    @classmethod
    def learn(
        cls,
        texts: Iterable[str],
        *,
        size: int | None = None,
        minimum_count: int = 1,
        end_of_word: bool = True,
        byte_level: bool = False,
        split_punctuation: bool = True,
    ) -> Self:
        """Learn merges until there are `size` ids, or no pair occurs `minimum_count` times."""
        if size is None:
            raise VocabularyError("vocabulary: bpe needs a size, for example 8000")
        if minimum_count < 1:
            raise VocabularyError(f"vocabulary: minimum count {minimum_count}, expected 1 or more")
        library = _skeleton(end_of_word, byte_level, split_punctuation)
        trainer = trainers.BpeTrainer(
            vocab_size=max(size, 0),
            min_frequency=minimum_count,
            special_tokens=list(SPECIALS),
            initial_alphabet=_byte_alphabet() if byte_level else [],
            show_progress=False,
        )
        library.train_from_iterator(_checked(texts), trainer=trainer)
        model = json.loads(library.to_str())["model"]
        vocabulary: dict[str, int] = model["vocab"]
        if len(vocabulary) == len(SPECIALS):
            raise VocabularyError("vocabulary: there is no text to learn from")
        if len(vocabulary) > size:
            raise VocabularyError(
                f"vocabulary: size {size} is too small: there are {len(vocabulary) - len(SPECIALS)} different "
                f"{'bytes' if byte_level else 'characters'}; the least size is {len(vocabulary)}"
            )
        vocabulary, merges = _without_marks(vocabulary, [(left, right) for left, right in model["merges"]])
        return cls(
            vocabulary, merges, end_of_word=end_of_word, byte_level=byte_level, split_punctuation=split_punctuation
        )

    def extended(self, texts: Iterable[str], *, minimum_count: int = 1) -> Self:
        """The same merges, and an id for every character that had none."""
        counts: Counter[str] = Counter()
        if not self.byte_level:
            for text in _checked(texts):
                counts.update(self._library.normalizer.normalize_str(text).replace(" ", ""))
        new = [one for one, times in counts.items() if times >= minimum_count and one not in self._ids]
        new.sort(key=lambda one: (-counts[one], one))
        vocabulary = self._ids | {one: self.size + place for place, one in enumerate(new)}
        return type(self)(
            vocabulary,
            self._merges,
            end_of_word=self.end_of_word,
            byte_level=self.byte_level,
            split_punctuation=self.split_punctuation,
        )

    @property
    def size(self) -> int:
        return len(self._bytes)

    def merges(self) -> list[tuple[str, str]]:
        """The merges in the order they were learned; the mark of a word's end is written ``</w>``, its begin ``▁``."""
        mark, shown = (_BYTE_MARK if self.byte_level else MARK), (END_OF_WORD if self.end_of_word else MARK)
        return [(left.replace(mark, shown), right.replace(mark, shown)) for left, right in self._merges]

    def encode(self, text: str) -> list[int]:
        check_text(text)
        return list(self._library.encode(text, add_special_tokens=False).ids)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """`encode` of every text, on as many threads as the library takes (RAYON_NUM_THREADS)."""
        for text in texts:
            check_text(text)
        return [list(found.ids) for found in self._library.encode_batch_fast(texts, add_special_tokens=False)]

    def encode_with_dropout(self, text: str, probability: float, random: Random) -> list[int]:
        """The ids when each merge, each time it could be made, is left out with this probability."""
        if not 0 <= probability <= 1:
            raise VocabularyError(f"dropout {probability}, expected a probability from 0 to 1")
        check_text(text)
        normal = self._library.normalizer.normalize_str(text)
        chunks = self._library.pre_tokenizer.pre_tokenize_str(normal)
        return [
            self._ids.get(piece, UNKNOWN)
            for chunk, _ in chunks
            for piece in _merge_with_dropout(list(chunk), self._ranks, probability, random)
        ]

    @cached_property
    def _ranks(self) -> dict[tuple[str, str], int]:
        return {pair: rank for rank, pair in enumerate(self._merges)}

    def decode(self, ids: Sequence[int]) -> str:
        check_ids(ids, self.size)
        text = decode_bytes([self._bytes[id] for id in ids])
        if self.end_of_word:
            return text[:-1] if text.endswith(" ") else text
        return text[1:] if text.startswith(" ") else text

    def pieces(self, ids: Sequence[int]) -> list[str]:
        check_ids(ids, self.size)
        return [SPECIALS[id] if id <= END else self._shown(self._bytes[id]) for id in ids]

    def _shown(self, piece: bytes) -> str:
        bare = piece.removesuffix(b" ") if self.end_of_word else piece.removeprefix(b" ")
        try:
            return visible((bare or piece).decode())
        except UnicodeDecodeError:  # a part of a character
            return "".join(chr(value) if 32 < value < 127 else f"<0x{value:02X}>" for value in bare)

    def spans(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        """The place of every piece, its mark left out: a space is in no span, and a mark alone has an empty one."""
        check_ids(ids, self.size)
        parts = [self._bytes[id] for id in ids]
        text = decode_bytes(parts)
        first = 1 if not self.end_of_word and text.startswith(" ") else 0
        last = len(text) - 1 if self.end_of_word and text.endswith(" ") else len(text)
        spans = []
        for part, (start, end) in zip(parts, spans_of_bytes(parts), strict=True):
            if self.end_of_word and part.endswith(b" "):
                end -= 1
            elif not self.end_of_word and part.startswith(b" "):
                start += 1
            spans.append((min(max(start, first), last) - first, min(max(end, first), last) - first))
        return spans

    def save(self, path: Path) -> None:
        """Write a `tokenizer.json` that `tokenizers.Tokenizer.from_file` opens."""
        save_text(path, self._library.to_str(pretty=True))

    @classmethod
    def from_json(cls, found: dict[str, Any], *, name: str) -> Self:
        """From the content of a `tokenizer.json`; one that weft did not write is refused."""
        choices = [(a, b, c) for a in (True, False) for b in (True, False) for c in (True, False)]
        parts = ("normalizer", "pre_tokenizer", "decoder", "added_tokens", "post_processor")
        for choice in choices:
            ours = json.loads(_skeleton(*choice).to_str())
            if all(ours[part] == found.get(part) for part in parts):
                break
        else:
            raise VocabularyError(f"{name}: a tokenizer.json that weft did not write; it cannot be read yet")
        try:
            vocabulary, merges = found["model"]["vocab"], [(left, right) for left, right in found["model"]["merges"]]
            if [vocabulary[special] for special in SPECIALS] != [0, 1, 2]:
                raise ValueError("the marks have other ids")
            if sorted(vocabulary.values()) != list(range(len(vocabulary))):
                raise ValueError("its ids have gaps")
            end_of_word, byte_level, split_punctuation = choice
            return cls(
                vocabulary, merges, end_of_word=end_of_word, byte_level=byte_level, split_punctuation=split_punctuation
            )
        except Exception as error:  # the library raises plain Exception for a merge without its piece
            reason = " ".join(str(error).split())
            raise VocabularyError(f"{name}: damaged: {reason}") from None


def _skeleton(end_of_word: bool, byte_level: bool, split_punctuation: bool) -> tokenizers.Tokenizer:
    """The library's tokenizer with an empty model: how text is cut into words, and how pieces are put together."""
    library = tokenizers.Tokenizer(models.BPE(unk_token=SPECIALS[UNKNOWN]))
    mark = " " if byte_level else MARK
    to_mark = [] if byte_level else [normalizers.Replace(MARK, MARK_TYPED), normalizers.Replace(" ", MARK)]
    outer_mark: normalizers.Normalizer
    if end_of_word:
        outer_mark = normalizers.Replace(Regex(r"(?<=[\s\S])\z"), mark)  # after the last character, if there is one
        punctuation = rf"[^\p{{P}}\p{{S}}]+['’](?=\p{{L}})|[^\p{{P}}\p{{S}}]+{mark}?|[\p{{P}}\p{{S}}]{mark}?"
    else:
        outer_mark = normalizers.Prepend(mark)
        punctuation = rf"{mark}?[^\p{{P}}\p{{S}}]+['’](?=\p{{L}})|{mark}?[^\p{{P}}\p{{S}}]+|{mark}?[\p{{P}}\p{{S}}]"
    cuts: list[pre_tokenizers.PreTokenizer] = [
        pre_tokenizers.Split(mark, "merged_with_previous" if end_of_word else "merged_with_next")
    ]
    if split_punctuation:
        cuts.append(pre_tokenizers.Split(Regex(punctuation), "isolated"))
    if byte_level:
        cuts.append(pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False))
    library.normalizer = normalizers.Sequence([*to_mark, outer_mark])
    library.pre_tokenizer = pre_tokenizers.Sequence(cuts)
    spaces = decoders.ByteLevel() if byte_level else decoders.Replace(MARK, " ")
    # Not decoders.Strip: at the end it panics on the empty text (tokenizers 0.23).
    strip = decoders.Replace(Regex(r" \z" if end_of_word else r"\A "), "")
    library.decoder = decoders.Sequence([spaces, decoders.Fuse(), strip])
    return library


def _without_marks(
    vocabulary: dict[str, int], merges: list[tuple[str, str]]
) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Leave out merges that spell a mark, and the pieces that can then not be made; ids close up."""
    made = {symbol for symbol in vocabulary if len(symbol) == 1}
    kept: dict[tuple[str, str], None] = {}
    for left, right in merges:
        if left in made and right in made and left + right not in SPECIALS:
            kept[left, right] = None
            made.add(left + right)
    in_order = sorted(made, key=vocabulary.__getitem__)
    return {symbol: id for id, symbol in enumerate((*SPECIALS, *in_order))}, list(kept)


def _merge_with_dropout(
    symbols: list[str], ranks: dict[tuple[str, str], int], probability: float, random: Random
) -> list[str]:
    """Merge, each time, the earliest-learned pair among those that the dice leave (Provilkov et al. 2020, alg. 1)."""
    while len(symbols) > 1:
        possible = [
            (ranks[pair], place)
            for place, pair in enumerate(pairwise(symbols))
            if pair in ranks and random.random() >= probability
        ]
        if not possible:
            break
        _, place = min(possible)
        symbols[place : place + 2] = [symbols[place] + symbols[place + 1]]
    return symbols


def _checked(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        check_text(text)
        yield text


@lru_cache(maxsize=1)
def _byte_alphabet() -> list[str]:
    """The character that stands for each byte: itself if it can be seen, otherwise one from U+0100 on (GPT-2)."""
    seen = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    hidden = iter(range(256))
    return [chr(value) if value in seen else chr(256 + next(hidden)) for value in range(256)]


_BYTE_MARK = "Ġ"  # stands for the space
