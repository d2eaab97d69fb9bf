"""Unigram pieces: the likeliest cut of a word, each piece with a probability of its own.

Kudo 2018, *Subword regularization*, section 3.2. Words, marks, symbols and protected matches are those of
`weft.text.pretokenization`, as for BPE; encoding and the file (`tokenizer.json`) are those of the `tokenizers`
library, and a
file opened with it alone encodes identically. Learning is SentencePiece's, from the words and how often they occur, in
code point order and on a fixed number of threads: the same words give the same pieces and scores, which the
`tokenizers` trainer does not promise.

**Pieces.** Every character of the texts is a piece, so the round trip is exact like BPE's; the learned ones have at
most 16 characters. Ids go from the likeliest piece to the least likely, ties in code point order. With
``byte_fallback`` a character without a piece becomes the pieces of its bytes, and characters seen less than
``minimum_count`` times get none. Otherwise it is unknown, and a run of unknown characters is one unknown.

**Protected matches** with an id as a whole score just above their best cut into other pieces. They are pieces like any
other: a longer word may be cut into one and a rest, where that is likeliest.

**Marks.** Text spelled like a mark or a byte piece is cut after its ``<``.

**Limits.** Nothing is learned from words that hold a control character or ``▅``, which SentencePiece keeps for itself;
their characters are pieces all the same. `encode` takes the best cut; it does not sample.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any, Self

from tokenizers import models

from weft.errors import VocabularyError
from weft.text.pretokenization import Pretokenization, byte_alphabet, recognize, with_model
from weft.text.subwords import Subwords, check_learning, choose_wholes, count_words, too_small

THREADS = 4  # a part of the definition: sums come out otherwise on other numbers of them
SELDOM = -10_000.0  # score of a symbol: it is found before the model sees the text, and never in it
ABOVE = 1e-3  # by how much a protected whole is better than its best cut
_RESERVED = re.compile("[\x00-\x1f\x7f▅]")

Scores = list[tuple[str, float]]


class Unigram(Subwords):
    """Pieces with scores, learned with `Unigram.learn` or read with `weft.text.tokenizer.load`."""

    kind = "unigram"

    def __init__(self, scores: Scores, form: Pretokenization) -> None:
        model = models.Unigram(scores, 0, form.byte_fallback)
        super().__init__(form, with_model(form, model, guarded=True), [piece for piece, _ in scores])
        self._scores = scores

    @classmethod
    def learn(
        cls, texts: Iterable[str], *, size: int | None = None, minimum_count: int = 1, **form_choices: Any
    ) -> Self:
        """Learn at most `size` ids; without bytes, `minimum_count` only decides about protected matches."""
        size = check_learning(cls.kind, size, minimum_count)
        form = Pretokenization.checked(**form_choices)
        if form.protect:
            texts = list(texts)
        wholes = choose_wholes(texts, form, size=size, minimum_count=minimum_count)
        words = count_words(texts, form, guarded=True)
        if not words and not form.byte_level:
            raise VocabularyError("vocabulary: there is no text to learn from")
        counts: Counter[str] = Counter()
        for word, times in words.items():
            for character in word:
                counts[character] += times
        least = minimum_count if form.byte_fallback else 1
        first = form.first
        required = {one for one, times in counts.items() if times >= least and one not in first}
        required |= set(byte_alphabet()) if form.byte_level else set()
        if len(first) + len(required) + len(wholes) > size:
            unit = "bytes" if form.byte_level else "characters"
            raise too_small(size, len(first) + len(required) + len(wholes), len(first), unit)
        held = set(wholes)
        rest = {word: times for word, times in words.items() if word not in held}
        pieces = _learn_pieces(rest, required, form, size=size - len(first) - len(wholes))
        for one in held.intersection(pieces):
            del pieces[one]
        _add_wholes(pieces, wholes)
        in_order = sorted(pieces.items(), key=lambda entry: (-entry[1], entry[0]))
        fixed = [(spelling, SELDOM if spelling in form.symbols else 0.0) for spelling in first]
        return cls([*fixed, *in_order], form)

    def extended(self, texts: Iterable[str], *, minimum_count: int = 1) -> Self:
        """The same pieces, and one for every character that had none, of the lowest score."""
        new = self._new_characters(texts, (piece for piece, _ in self._scores), minimum_count)
        lowest = min((score for _, score in self._scores if score > SELDOM), default=0.0)
        return type(self)([*self._scores, *((one, lowest) for one in new)], self.form)

    @classmethod
    def from_json(cls, found: dict[str, Any], *, name: str, form: Pretokenization | None = None) -> Self:
        """From the content of a `tokenizer.json` that weft wrote."""
        form = form or recognize(found)
        if form is None:
            raise VocabularyError(f"{name}: a tokenizer.json that weft did not write")
        try:
            scores = [(str(piece), float(score)) for piece, score in found["model"]["vocab"]]
            if [piece for piece, _ in scores[: len(form.first)]] != list(form.first):
                raise ValueError("its marks, symbols or bytes have other ids")
            if len(dict(scores)) != len(scores):
                raise ValueError("a piece stands in it twice")
            return cls(scores, form)
        except Exception as error:  # the library raises plain Exception
            reason = " ".join(str(error).split())
            raise VocabularyError(f"{name}: damaged: {reason}") from None


def _learn_pieces(words: dict[str, int], required: set[str], form: Pretokenization, *, size: int) -> dict[str, float]:
    """SentencePiece's pieces and scores, and the required characters it did not see; at most `size` of them."""
    try:
        import sentencepiece
    except ImportError:
        raise VocabularyError("unigram needs the package sentencepiece: pip install sentencepiece") from None
    usual = {word: times for word, times in words.items() if not _RESERVED.search(word)}
    seen = {character for word in usual for character in word}
    apart = required - seen
    pieces: dict[str, float] = {}
    if usual:
        file = io.BytesIO()
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=(f"{word}\t{times}" for word, times in sorted(usual.items())),
                model_writer=file,
                input_format="tsv",
                model_type="unigram",
                vocab_size=max(size - len(apart), len(seen)) + 1,  # and its own unknown
                hard_vocab_limit=False,
                character_coverage=1.0,
                normalization_rule_name="identity",
                add_dummy_prefix=False,
                remove_extra_whitespaces=False,
                split_by_whitespace=False,
                split_by_unicode_script=False,
                split_by_number=False,
                treat_whitespace_as_suffix=form.end_of_word,
                max_sentence_length=1 << 30,
                num_threads=THREADS,
                unk_id=0,
                bos_id=-1,
                eos_id=-1,
                minloglevel=3,
            )
        except Exception as error:  # RuntimeError, OSError: the library's choice
            reason = " ".join(str(error).split())
            raise VocabularyError(f"vocabulary: SentencePiece cannot learn from these texts: {reason}") from None
        made = sentencepiece.SentencePieceProcessor(model_proto=file.getvalue())
        found = [(made.id_to_piece(id), float(made.get_score(id))) for id in range(1, made.get_piece_size())]
        kept = [(piece, score) for piece, score in found if piece in required or _is_made_of(piece, required)]
        single = sum(piece in required for piece, _ in kept)
        room = size - len(apart) - single
        for piece, score in sorted(kept, key=lambda entry: (-entry[1], entry[0])):
            if piece in required:
                pieces[piece] = score
            elif room > 0 and piece not in form.first:
                pieces[piece] = score
                room -= 1
    lowest = min(pieces.values(), default=-1.0)
    return pieces | dict.fromkeys(sorted(required - pieces.keys()), lowest)


def _is_made_of(piece: str, required: set[str]) -> bool:
    return len(piece) > 1 and required.issuperset(piece)


def _add_wholes(pieces: dict[str, float], wholes: Iterable[str]) -> None:
    """Give every whole a score a little above its best cut; the short ones first, since they are pieces of others."""
    for whole in sorted(wholes, key=lambda one: (len(one), one)):
        best = [0.0]
        for end in range(1, len(whole) + 1):
            cuts = ((best[start], pieces.get(whole[start:end])) for start in range(end))
            known = [before + score for before, score in cuts if score is not None]
            best.append(max(known, default=best[end - 1] - 100.0))
        pieces[whole] = best[-1] + ABOVE
