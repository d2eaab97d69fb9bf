"""Byte-pair encoding: words are cut into pieces that were learned by merging frequent neighbors.

Sennrich et al. 2016, *Neural machine translation of rare words with subword units*. Learning, encoding and the file
(`tokenizer.json`) are those of the `tokenizers` library; a file opened with it alone encodes identically.

**Words** are those of `weft.text.pretokenization`. The mark of a word's end (or beginning) is a symbol of its own,
as in the
paper: every character may end a word, and an unknown one does not swallow the space beside it.

**Round trip.** Exact, spaces of any number included, if every character was seen in learning. Other white space (tab,
line ends, no-break space) is an ordinary character inside a word. A ``▁`` in the text is read as ``_``. With
``byte_level`` the symbols are the 256 bytes, nothing is unknown and the round trip is exact for every text. With
``byte_fallback`` characters are symbols, and those that have no id become the pieces ``<0xE2>`` of their bytes: nothing
is unknown either; characters seen less than ``minimum_count`` times get no id then.

**Ties.** The pair that occurs most often is merged. Among pairs that occur equally often it is the one whose left
symbol has the smallest id, then the one whose right symbol has; single symbols have ids in code point order and
pieces come after them in the order they were made. So in "low lower newest widest", where (l,o) (o,w) (w,e) (e,s)
(s,t) (t,</w>) are tied at two, (e,s) comes first. Threads and the order of the texts do not matter.

**Marks.** A merge that would spell ``<unk>``, ``<s>``, ``</s>``, a given symbol or a byte piece is left out, with those
built upon it: such text stays in smaller pieces.

**Protected matches** with an id of their own are no merges: the library takes a word that is a piece as that piece
(``ignore_merges``). No merges are learned from them.

BPE-dropout (Provilkov et al. 2020): the library's own cannot be seeded, so `weft.text.bpe_dropout` follows the paper
with
the caller's random numbers. Protected wholes and symbols are never cut by it.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from random import Random
from typing import Any, Self

import tokenizers
from tokenizers import models, pre_tokenizers, trainers

from weft.errors import VocabularyError
from weft.text.bpe_dropout import Dropout
from weft.text.pretokenization import BYTE_MARK, MARK, Pretokenization, byte_alphabet, recognize, skeleton, with_model
from weft.text.specials import SPECIALS, UNKNOWN
from weft.text.subwords import Subwords, check_learning, choose_wholes, count_words, stretches, too_small
from weft.text.symbols import BYTE_PIECES
from weft.text.vocabulary import check_text

END_OF_WORD = "</w>"  # how people read the mark where it ends words


class BPE(Subwords):
    """Byte-pair encoding, learned with `BPE.learn` or read with `weft.text.tokenizer.load`."""

    kind = "bpe"
    can_drop = True

    def __init__(self, vocabulary: dict[str, int], merges: list[tuple[str, str]], form: Pretokenization) -> None:
        model = models.BPE(
            vocabulary,
            merges,
            unk_token=SPECIALS[UNKNOWN],
            byte_fallback=form.byte_fallback,
            ignore_merges=bool(form.protect),
        )
        library = with_model(form, model, guarded=bool(form.protect))
        super().__init__(form, library, sorted(vocabulary, key=vocabulary.__getitem__))
        self._merges = merges
        self._ids = vocabulary

    @classmethod
    def learn(
        cls, texts: Iterable[str], *, size: int | None = None, minimum_count: int = 1, **form_choices: Any
    ) -> Self:
        """Learn merges until there are `size` ids, or no pair occurs `minimum_count` times; the rest is a
        `Pretokenization`.
        """
        size = check_learning(cls.kind, size, minimum_count)
        form = Pretokenization.checked(**form_choices)
        if form.protect or form.byte_fallback:
            texts = list(texts)
        wholes = choose_wholes(texts, form, size=size, minimum_count=minimum_count)
        alphabet, most = byte_alphabet() if form.byte_level else [], sys.maxunicode
        if form.byte_fallback and minimum_count > 1:
            counts = _count_characters(texts, form)
            most = sum(times >= minimum_count for times in counts.values())
        else:
            alphabet = [*alphabet, *sorted({character for whole in wholes for character in whole})]
        trainer = trainers.BpeTrainer(
            vocab_size=max(size - len(wholes), 0),
            min_frequency=minimum_count,
            special_tokens=list(form.first),
            initial_alphabet=alphabet,
            limit_alphabet=most,
            show_progress=False,
        )
        library = tokenizers.Tokenizer(models.BPE(unk_token=SPECIALS[UNKNOWN]))
        library.pre_tokenizer = pre_tokenizers.Split(" ", "removed")
        words = count_words(texts, form, guarded=bool(form.protect))
        held = set(wholes)
        rest = ((word, times) for word, times in sorted(words.items()) if word not in held)
        library.train_from_iterator(_repeated(rest), trainer=trainer)
        model = json.loads(library.to_str())["model"]
        vocabulary: dict[str, int] = model["vocab"]
        if len(vocabulary) == len(form.first) and not wholes:
            raise VocabularyError("vocabulary: there is no text to learn from")
        if len(vocabulary) > size - len(wholes):
            unit = "bytes" if form.byte_level else "characters"
            raise too_small(size, len(vocabulary) + len(wholes), len(form.first), unit)
        vocabulary, merges = _without_marks(vocabulary, [(left, right) for left, right in model["merges"]], form)
        for whole in wholes:
            vocabulary.setdefault(whole, len(vocabulary))
        return cls(vocabulary, merges, form)

    def extended(self, texts: Iterable[str], *, minimum_count: int = 1) -> Self:
        """The same merges, and an id for every character that had none."""
        new = self._new_characters(texts, self._ids, minimum_count)
        vocabulary = self._ids | {one: self.size + place for place, one in enumerate(new)}
        return type(self)(vocabulary, self._merges, self.form)

    def merges(self) -> list[tuple[str, str]]:
        """The merges in the order they were learned; the mark of a word's end is written ``</w>``, its begin ``▁``."""
        mark, shown = (BYTE_MARK if self.byte_level else MARK), (END_OF_WORD if self.end_of_word else MARK)
        return [(left.replace(mark, shown), right.replace(mark, shown)) for left, right in self._merges]

    def encode_with_dropout(self, text: str, probability: float, random: Random) -> list[int]:
        """The ids when each merge, each time it could be made, is left out with this probability."""
        return self.encode_batch_with_dropout([text], probability, random)[0]

    def encode_batch_with_dropout(self, texts: Sequence[str], probability: float, random: Random) -> list[list[int]]:
        """`encode_with_dropout` of every text, one after the other."""
        if not 0 <= probability <= 1:
            raise VocabularyError(f"dropout {probability}, expected a probability from 0 to 1")
        if probability == 0:
            return self.encode_batch(texts)
        found = []
        for text in texts:
            check_text(text)
            ids: list[int] = []
            for chunk in self._chunks(text):
                ids += self._dropout.word(chunk, self._spell, probability, random)
            found.append(ids)
        return found

    def _chunks(self, text: str) -> list[str]:
        """The words of a text, as the vocabulary spells them, and its symbols."""
        parts = [text] if self._symbols is None else self._symbols.split(text)
        chunks: list[str] = []
        for place, part in enumerate(parts):
            if place % 2:
                chunks.append(part)
            elif part and self.form.protect:
                chunks += self._cut(part)
            elif part:
                for word in part.split(" "):
                    cut = self._words.get(word)
                    if cut is None:
                        cut = self._cut(word) if word else self._cut(" ")[:1]
                        if len(self._words) > 1 << 16:
                            self._words.clear()
                        self._words[word] = cut
                    chunks += cut
        return chunks

    def _cut(self, text: str) -> list[str]:
        normal = self._library.normalizer.normalize_str(text)
        return [chunk for chunk, _ in self._library.pre_tokenizer.pre_tokenize_str(normal)]

    @cached_property
    def _words(self) -> dict[str, list[str]]:
        return {}

    @cached_property
    def _dropout(self) -> Dropout:
        pairs = enumerate(self._merges)
        ids = self._ids
        return Dropout({(ids[one], ids[other]): (rank, ids[one + other]) for rank, (one, other) in pairs})

    def _spell(self, word: str) -> list[int]:
        """The single symbols of a word; of what is never cut, the whole."""
        if word in self._uncut:
            return [self._ids[word]]
        spelled: list[int] = []
        for character in word:
            id = self._ids.get(character)
            if id is not None:
                spelled.append(id)
            elif self.form.byte_fallback:
                spelled += [self._ids[BYTE_PIECES[value]] for value in character.encode()]
            else:
                spelled.append(UNKNOWN)
        return spelled

    @cached_property
    def _uncut(self) -> frozenset[str]:
        if not self.form.protect:
            return frozenset(self.form.symbols)
        made = {one + other for one, other in self._merges}
        return frozenset(word for word in self._ids if len(word) > 1 and word not in made) - {*SPECIALS, *BYTE_PIECES}

    @classmethod
    def from_json(cls, found: dict[str, Any], *, name: str, form: Pretokenization | None = None) -> Self:
        """From the content of a `tokenizer.json` that weft wrote."""
        form = form or recognize(found)
        if form is None:
            raise VocabularyError(f"{name}: a tokenizer.json that weft did not write")
        try:
            vocabulary, merges = found["model"]["vocab"], [(left, right) for left, right in found["model"]["merges"]]
            if [vocabulary[special] for special in SPECIALS] != [0, 1, 2]:
                raise ValueError("the marks have other ids")
            if sorted(vocabulary.values()) != list(range(len(vocabulary))):
                raise ValueError("its ids have gaps")
            if any(vocabulary.get(spelling) != id for id, spelling in enumerate(form.first)):
                raise ValueError("its symbols or bytes have other ids")
            return cls(vocabulary, merges, form)
        except Exception as error:  # the library raises plain Exception for a merge without its piece
            reason = " ".join(str(error).split())
            raise VocabularyError(f"{name}: damaged: {reason}") from None


def _count_characters(texts: Iterable[str], form: Pretokenization) -> Counter[str]:
    """Of normalized text."""
    normalize = skeleton(form, guarded=False).normalizer.normalize_str
    counts: Counter[str] = Counter()
    for stretch in stretches(texts, form):
        counts.update(form.spelling(normalize(stretch)))
    return counts


TOGETHER = 1024
"""Copies of a word in a line that the library learns from."""


def _repeated(counts: Iterable[tuple[str, int]]) -> Iterator[str]:
    """Lines in which each word, which has no space, stands as often as it was counted: the library takes no counts."""
    for word, times in counts:
        for _ in range(times // TOGETHER):
            yield f"{word} " * TOGETHER
        yield f"{word} " * (times % TOGETHER)


def _without_marks(
    vocabulary: dict[str, int], merges: list[tuple[str, str]], form: Pretokenization
) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Leave out merges that spell a mark or the like, and the pieces that can then not be made; ids close up."""
    first = dict.fromkeys(form.first)
    made = {symbol for symbol in vocabulary if len(symbol) == 1 and symbol not in first}
    kept: dict[tuple[str, str], None] = {}
    for left, right in merges:
        if left in made and right in made and left + right not in first:
            kept[left, right] = None
            made.add(left + right)
    in_order = sorted(made, key=vocabulary.__getitem__)
    return {symbol: id for id, symbol in enumerate((*first, *in_order))}, list(kept)
