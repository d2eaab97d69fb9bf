"""Byte-pair encoding: words are split into subwords that were learned by merging frequent neighbors.

Sennrich et al. 2016, *Neural machine translation of rare words with subword units*. Learning, encoding and the file
(`tokenizer.json`) are those of the `tokenizers` library; a file opened with it alone encodes identically.

**Words** are those of `weft.text.pretokenization`. The marker of a word's end (or beginning) is a separate symbol, as
in the paper: every character may end a word, and an unknown one does not swallow the space beside it.

**Round trip.** Exact, including repeated spaces, if every character occurred in the training text. Other white space
(tab, line ends, no-break space) is an ordinary character inside a word. A ``▁`` in the text is read as ``_``. With
``byte_level`` the symbols are the 256 bytes, nothing is unknown and the round trip is exact for every text. With
``byte_fallback`` characters are symbols, and those without an id become byte tokens such as ``<0xE2>``: nothing is
unknown either; characters seen less than ``minimum_count`` times get no id then.

**Ties.** The pair that occurs most often is merged. Among pairs that occur equally often it is the one whose left
symbol has the smallest id, then the one whose right symbol has; single symbols have ids in code point order and
merged symbols follow in the order they were learned. So in "low lower newest widest", where (l,o) (o,w) (w,e) (e,s)
(s,t) (t,</w>) are tied at two, (e,s) comes first. Threads and the order of the texts do not matter.

**Special tokens.** A merge that would spell ``<unk>``, ``<s>``, ``</s>``, a predefined symbol or a byte token is
removed, with those built upon it: such text stays in smaller subwords.

**Protected matches** with their own id need no merges: the library takes a word that is in the vocabulary as one
token (``ignore_merges``). No merges are learned from them.

**Long words.** Merges are learned from pieces of at most 1,000 characters of a word (`MAX_LEARNED_WORD`): a line
without spaces would take a time that grows with the square of its length.

**BPE-dropout** (Provilkov et al. 2020): the library's own cannot be seeded, so `weft.text.bpe_dropout` follows the
paper with the caller's generator. Protected matches and symbols are never split by it.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from random import Random
from typing import TYPE_CHECKING, Any, Self

import tokenizers
from tokenizers import models, pre_tokenizers, trainers

from weft.errors import VocabularyError
from weft.text.interruptible import interruptible
from weft.text.preprocessing import BYTE_TOKENS, check_patterns
from weft.text.pretokenization import (
    BOUNDARY,
    BYTE_BOUNDARY,
    Pretokenization,
    byte_alphabet,
    recognize,
    tokenizer_with_model,
    untrained_tokenizer,
)
from weft.text.specials import SPECIALS, UNKNOWN
from weft.text.subwords import (
    SubwordTokenizer,
    between_symbols,
    count_words,
    damage_errors,
    protected_tokens,
    too_small,
)
from weft.text.vocabulary import check_text

if TYPE_CHECKING:
    from weft.text.bpe_dropout import BPEDropout
    from weft.text.vocabulary import LearningOptions

Merges = list[tuple[str, str]]
END_OF_WORD = "</w>"
"""Display form of the boundary marker if it ends words."""
MAX_CACHED_WORDS = 1 << 16
REPETITIONS = 1024
"""Copies of a word in one line of the library's training text."""


class BPE(SubwordTokenizer):
    """Byte-pair encoding, learned with `BPE.learn` or read with `weft.text.tokenizer.load`."""

    kind = "bpe"
    supports_dropout = True

    def __init__(self, vocabulary: dict[str, int], merges: Merges | bytes, scheme: Pretokenization) -> None:
        """``merges``: a list, or its JSON, which is parsed when it is first used."""
        in_order = _is_in_order(vocabulary)
        super().__init__(scheme, list(vocabulary) if in_order else sorted(vocabulary, key=vocabulary.__getitem__))
        self._given_merges = merges
        self._ids = vocabulary

    @cached_property
    def _merges(self) -> Merges:
        given = self._given_merges
        return [(left, right) for left, right in json.loads(given)] if isinstance(given, bytes) else given

    def _build_library(self) -> tokenizers.Tokenizer:
        model = models.BPE(
            self._ids,
            self._merges,
            unk_token=SPECIALS[UNKNOWN],
            byte_fallback=self.scheme.byte_fallback,
            ignore_merges=bool(self.scheme.protect),
        )
        return tokenizer_with_model(self.scheme, model, split_specials=bool(self.scheme.protect))

    @classmethod
    def learn(cls, texts: Iterable[str], options: LearningOptions) -> Self:
        """Learn merges until there are `size` ids, or no pair occurs `minimum_count` times."""
        size, minimum_count = options.required_size(cls.kind), options.minimum_count
        options.check_minimum_count()
        scheme = Pretokenization.from_options(options)
        if scheme.protect or scheme.byte_fallback:
            texts = list(texts)
        protected = protected_tokens(texts, scheme, options)
        alphabet, alphabet_limit = byte_alphabet() if scheme.byte_level else [], sys.maxunicode
        if scheme.byte_fallback and minimum_count > 1:
            counts = _count_characters(texts, scheme)
            alphabet_limit = sum(count >= minimum_count for count in counts.values())
        else:
            alphabet = [*alphabet, *sorted({character for token in protected for character in token})]
        trainer = trainers.BpeTrainer(
            vocab_size=max(size - len(protected), 0),
            min_frequency=minimum_count,
            special_tokens=list(scheme.predefined),
            initial_alphabet=alphabet,
            limit_alphabet=alphabet_limit,
            show_progress=False,
        )
        library = tokenizers.Tokenizer(models.BPE(unk_token=SPECIALS[UNKNOWN]))
        library.pre_tokenizer = pre_tokenizers.Split(" ", "removed")
        words = count_words(texts, scheme, split_specials=bool(scheme.protect))
        for token in protected:
            words.pop(token, None)
        interruptible(lambda: library.train_from_iterator(_repeated(sorted(words.items())), trainer=trainer))
        model = json.loads(library.to_str())["model"]
        vocabulary: dict[str, int] = model["vocab"]
        if len(vocabulary) == len(scheme.predefined) and not protected:
            raise VocabularyError("vocabulary: there is no text to learn from")
        if len(vocabulary) > size - len(protected):
            raise too_small(size, len(vocabulary) + len(protected), scheme)
        vocabulary, merges = _without_predefined(vocabulary, [(left, right) for left, right in model["merges"]], scheme)
        for token in protected:
            vocabulary.setdefault(token, len(vocabulary))
        return cls(vocabulary, merges, scheme)

    def extended(self, texts: Iterable[str], *, minimum_count: int = 1) -> Self:
        """The tokenizer with ids for the characters that had none; the merges stay."""
        new = self._new_characters(texts, self._ids, minimum_count)
        vocabulary = self._ids | {character: id for id, character in enumerate(new, self.size)}
        return type(self)(vocabulary, self._merges, self.scheme)

    def merges(self) -> Merges:
        """The merges in the order they were learned; a word's end is written ``</w>``, its beginning ``▁``."""
        boundary = BYTE_BOUNDARY if self.byte_level else BOUNDARY
        display = END_OF_WORD if self.end_of_word else BOUNDARY
        return [(left.replace(boundary, display), right.replace(boundary, display)) for left, right in self._merges]

    def encode_with_dropout(self, text: str, probability: float, random: Random) -> list[int]:
        """The ids if each possible merge is skipped with this probability at every step."""
        return self.encode_batch_with_dropout([text], probability, random)[0]

    def encode_batch_with_dropout(self, texts: Sequence[str], probability: float, random: Random) -> list[list[int]]:
        """`encode_with_dropout` of every text, one after the other."""
        if not 0 <= probability <= 1:
            raise VocabularyError(f"dropout {probability}, expected a probability from 0 to 1")
        if probability == 0:
            return self.encode_batch(texts)
        encoded = []
        for text in texts:
            check_text(text)
            ids: list[int] = []
            for word in self._pretokenize(text):
                ids += self._dropout.encode(word, self._to_symbols, probability, random)
            encoded.append(ids)
        return encoded

    def _pretokenize(self, text: str) -> list[str]:
        """The words of a text, as written in the vocabulary, and its symbols."""
        parts = [text] if self._symbols is None else self._symbols.split(text)
        words: list[str] = []
        for index, part in enumerate(parts):
            if index % 2:
                words.append(part)
            elif part and self.scheme.protect:
                words += self._split(part)
            elif part:
                for word in part.split(" "):
                    split = self._split_words.get(word)
                    if split is None:
                        split = self._split(word) if word else self._split(" ")[:1]
                        if len(self._split_words) > MAX_CACHED_WORDS:
                            self._split_words.clear()
                        self._split_words[word] = split
                    words += split
        return words

    def _split(self, text: str) -> list[str]:
        normalized = self._library.normalizer.normalize_str(text)
        return [word for word, _ in self._library.pre_tokenizer.pre_tokenize_str(normalized)]

    @cached_property
    def _split_words(self) -> dict[str, list[str]]:
        """A cache of `_split`."""
        return {}

    @cached_property
    def _dropout(self) -> BPEDropout:
        from weft.text.bpe_dropout import BPEDropout

        ids = self._ids
        return BPEDropout(
            {(ids[left], ids[right]): (rank, ids[left + right]) for rank, (left, right) in enumerate(self._merges)}
        )

    def _to_symbols(self, word: str) -> list[int]:
        """The ids of the single symbols of a word; of a word that is never split, its own id."""
        if word in self._unsplittable:
            return [self._ids[word]]
        symbols: list[int] = []
        for character in word:
            id = self._ids.get(character)
            if id is not None:
                symbols.append(id)
            elif self.scheme.byte_fallback:
                symbols += [self._ids[BYTE_TOKENS[value]] for value in character.encode()]
            else:
                symbols.append(UNKNOWN)
        return symbols

    @cached_property
    def _unsplittable(self) -> frozenset[str]:
        if not self.scheme.protect:
            return frozenset(self.scheme.symbols)
        merged = {left + right for left, right in self._merges}
        tokens = frozenset(token for token in self._ids if len(token) > 1 and token not in merged)
        return tokens - {*SPECIALS, *BYTE_TOKENS}

    @classmethod
    def from_json(cls, content: dict[str, Any], *, name: str) -> Self:
        """From the content of a `tokenizer.json` that weft wrote; its merges may be bytes, as in `__init__`."""
        scheme = recognize(content)
        if scheme is None:
            raise VocabularyError(f"{name}: a tokenizer.json that weft did not write")
        check_patterns(scheme.protect)
        with damage_errors(name):
            vocabulary, merges = content["model"]["vocab"], content["model"]["merges"]
            if not isinstance(merges, bytes):
                merges = [(left, right) for left, right in merges]
            if [vocabulary[special] for special in SPECIALS] != [0, 1, 2]:
                raise ValueError("the special tokens have other ids")
            if not _is_in_order(vocabulary) and sorted(vocabulary.values()) != list(range(len(vocabulary))):
                raise ValueError("its ids have gaps")
            if any(vocabulary.get(token) != id for id, token in enumerate(scheme.predefined)):
                raise ValueError("its symbols or bytes have other ids")
            return cls(vocabulary, merges, scheme)


def _is_in_order(vocabulary: dict[str, int]) -> bool:
    """Whether the first token has the id 0, the next one 1, and so on, as in files that weft writes."""
    return list(vocabulary.values()) == list(range(len(vocabulary)))


def _count_characters(texts: Iterable[str], scheme: Pretokenization) -> Counter[str]:
    """Counts the characters of normalized text."""
    normalize = untrained_tokenizer(scheme, split_specials=False).normalizer.normalize_str
    counts: Counter[str] = Counter()
    for segment in between_symbols(texts, scheme):
        counts.update(scheme.to_vocabulary(normalize(segment)))
    return counts


def _repeated(counts: Iterable[tuple[str, int]]) -> Iterator[str]:
    """Lines that repeat each word as often as it was counted: the library's trainer takes no counts."""
    for word, count in counts:
        for _ in range(count // REPETITIONS):
            yield f"{word} " * REPETITIONS
        yield f"{word} " * (count % REPETITIONS)


def _without_predefined(
    vocabulary: dict[str, int], merges: list[tuple[str, str]], scheme: Pretokenization
) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Remove merges that spell a predefined token, and the symbols that can then not be merged; ids close up."""
    predefined = dict.fromkeys(scheme.predefined)
    reachable = {symbol for symbol in vocabulary if len(symbol) == 1 and symbol not in predefined}
    kept: dict[tuple[str, str], None] = {}
    for left, right in merges:
        if left in reachable and right in reachable and left + right not in predefined:
            kept[left, right] = None
            reachable.add(left + right)
    symbols = sorted(reachable, key=vocabulary.__getitem__)
    return {symbol: id for id, symbol in enumerate((*predefined, *symbols))}, list(kept)
