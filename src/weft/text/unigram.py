"""Unigram tokenizer: the most likely segmentation of a word into subwords, each with its own probability.

Kudo 2018, *Subword regularization*, section 3.2. Words, boundary markers, symbols and protected matches are those of
`weft.text.pretokenization`, as for BPE; encoding and the file (`tokenizer.json`) are those of the `tokenizers` library,
and a file opened with it alone encodes identically. Learning is SentencePiece's, from the words and their counts, in
code point order and with a fixed number of threads: the same words give the same subwords and scores, which the
trainer of `tokenizers` does not promise.

**Vocabulary.** Every character of the texts is in it, so the round trip is exact as with BPE; learned subwords have at
most 16 characters. Ids go from the most to the least likely subword, ties in code point order. With ``byte_fallback`` a
character without an id becomes byte tokens, and characters seen less than ``minimum_count`` times get no id. Otherwise
it is unknown, and a run of unknown characters is one unknown token.

**Protected matches** with an id as a whole score just above their best segmentation into other subwords. They are
subwords like any other: a longer word may be segmented into one and a rest, if that is most likely.

**Special tokens.** Text that spells a special token or a byte token is split after its ``<``.

**Limits.** Words are learned from in pieces of at most 1,000 characters, as for BPE. Nothing is learned from words that
contain a control character or ``▅``, which SentencePiece reserves; their characters are in the vocabulary all the same.
`encode` takes the best segmentation; it does not sample.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Self

import tokenizers
from tokenizers import models

from weft.errors import VocabularyError
from weft.text.interruptible import interruptible
from weft.text.preprocessing import check_patterns
from weft.text.pretokenization import Pretokenization, byte_alphabet, recognize, tokenizer_with_model
from weft.text.subwords import SubwordTokenizer, count_words, damage_errors, protected_tokens, too_small

if TYPE_CHECKING:
    from weft.text.vocabulary import LearningOptions

THREADS = 4
"""Part of the definition: sums differ with the number of threads."""
SYMBOL_SCORE = -10_000.0
"""Score of a predefined symbol: symbols are found before the model sees the text, and never by the model."""
PROTECTED_MARGIN = 1e-3
"""The score of a protected match above its best segmentation."""
UNREACHABLE_SCORE = 100.0
_RESERVED = re.compile("[\x00-\x1f\x7f▅]")

Scores = list[tuple[str, float]]


class Unigram(SubwordTokenizer):
    """Subwords with scores, learned with `Unigram.learn` or read with `weft.text.tokenizer.load`."""

    kind = "unigram"

    def __init__(self, scores: Scores, scheme: Pretokenization) -> None:
        super().__init__(scheme, [token for token, _ in scores])
        self._scores = scores

    def _build_library(self) -> tokenizers.Tokenizer:
        model = models.Unigram(self._scores, 0, self.scheme.byte_fallback)
        return tokenizer_with_model(self.scheme, model, split_specials=True)

    @classmethod
    def learn(cls, texts: Iterable[str], options: LearningOptions) -> Self:
        """Learn at most `size` ids; without byte fallback, `minimum_count` only concerns protected matches."""
        size = options.required_size(cls.kind)
        options.check_minimum_count()
        scheme = Pretokenization.from_options(options)
        if scheme.protect:
            texts = list(texts)
        protected = protected_tokens(texts, scheme, options)
        words = count_words(texts, scheme, split_specials=True)
        if not words and not scheme.byte_level:
            raise VocabularyError("vocabulary: there is no text to learn from")
        counts: Counter[str] = Counter()
        for word, count in words.items():
            for character in word:
                counts[character] += count
        minimum_count = options.minimum_count if scheme.byte_fallback else 1
        predefined = scheme.predefined
        required = {
            character for character, count in counts.items() if count >= minimum_count and character not in predefined
        }
        required |= set(byte_alphabet()) if scheme.byte_level else set()
        smallest = len(predefined) + len(required) + len(protected)
        if smallest > size:
            raise too_small(size, smallest, scheme)
        for token in protected:
            words.pop(token, None)
        subwords = _learn_subwords(words, required, scheme, size=size - len(predefined) - len(protected))
        for token in protected:
            subwords.pop(token, None)
        _add_protected(subwords, protected)
        learned = sorted(subwords.items(), key=lambda entry: (-entry[1], entry[0]))
        return cls(
            [*((token, SYMBOL_SCORE if token in scheme.symbols else 0.0) for token in predefined), *learned], scheme
        )

    def extended(self, texts: Iterable[str], *, minimum_count: int = 1) -> Self:
        """The tokenizer with ids of the lowest score for the characters that had none; the subwords stay."""
        new = self._new_characters(texts, (token for token, _ in self._scores), minimum_count)
        lowest = min((score for _, score in self._scores if score > SYMBOL_SCORE), default=0.0)
        return type(self)([*self._scores, *((character, lowest) for character in new)], self.scheme)

    @classmethod
    def from_json(cls, content: dict[str, Any], *, name: str) -> Self:
        """From the content of a `tokenizer.json` that weft wrote."""
        scheme = recognize(content)
        if scheme is None:
            raise VocabularyError(f"{name}: a tokenizer.json that weft did not write")
        check_patterns(scheme.protect)
        with damage_errors(name):
            scores = [(str(token), float(score)) for token, score in content["model"]["vocab"]]
            if [token for token, _ in scores[: len(scheme.predefined)]] != list(scheme.predefined):
                raise ValueError("its special tokens, symbols or bytes have other ids")
            if len(dict(scores)) != len(scores):
                raise ValueError("a token occurs in it twice")
            return cls(scores, scheme)


def _learn_subwords(
    words: dict[str, int], required: set[str], scheme: Pretokenization, *, size: int
) -> dict[str, float]:
    """SentencePiece's subwords and scores, and the required characters it did not see; at most `size` of them."""
    try:
        import sentencepiece
    except ImportError:
        raise VocabularyError("unigram needs the package sentencepiece: pip install sentencepiece") from None
    learnable = {word: count for word, count in words.items() if not _RESERVED.search(word)}
    seen = {character for word in learnable for character in word}
    unseen = required - seen
    subwords: dict[str, float] = {}
    if learnable:
        trained = _train(learnable, scheme, size=max(size - len(unseen), len(seen)) + 1)  # and its own unknown token
        model = sentencepiece.SentencePieceProcessor(model_proto=trained)
        learned = [(model.id_to_piece(id), float(model.get_score(id))) for id in range(1, model.get_piece_size())]
        learned = [(token, score) for token, score in learned if token in required or _consists_of(token, required)]
        remaining = size - len(unseen) - sum(token in required for token, _ in learned)
        for token, score in sorted(learned, key=lambda entry: (-entry[1], entry[0])):
            if token in required:
                subwords[token] = score
            elif remaining > 0 and token not in scheme.predefined:
                subwords[token] = score
                remaining -= 1
    lowest = min(subwords.values(), default=-1.0)
    return subwords | dict.fromkeys(sorted(required - subwords.keys()), lowest)


def _train(words: dict[str, int], scheme: Pretokenization, *, size: int) -> bytes:
    """The SentencePiece model of these words."""
    import sentencepiece

    file = io.BytesIO()
    settings: dict[str, Any] = {
        "input_format": "tsv",
        "model_type": "unigram",
        "vocab_size": size,
        "hard_vocab_limit": False,
        "character_coverage": 1.0,
        "normalization_rule_name": "identity",
        "add_dummy_prefix": False,
        "remove_extra_whitespaces": False,
        "split_by_whitespace": False,
        "split_by_unicode_script": False,
        "split_by_number": False,
        "treat_whitespace_as_suffix": scheme.end_of_word,
        "max_sentence_length": 1 << 30,
        "num_threads": THREADS,
        "unk_id": 0,
        "bos_id": -1,
        "eos_id": -1,
        "minloglevel": 3,
    }
    lines = (f"{word}\t{count}" for word, count in sorted(words.items()))
    try:
        interruptible(
            lambda: sentencepiece.SentencePieceTrainer.train(sentence_iterator=lines, model_writer=file, **settings)
        )
    except Exception as error:  # the library raises RuntimeError, OSError and others
        reason = " ".join(str(error).split())
        raise VocabularyError(f"vocabulary: SentencePiece cannot learn from these texts: {reason}") from None
    return file.getvalue()


def _consists_of(token: str, required: set[str]) -> bool:
    return len(token) > 1 and required.issuperset(token)


def _add_protected(subwords: dict[str, float], protected: Iterable[str]) -> None:
    """Give every protected match a score just above its best segmentation; the shortest first, as parts of others."""
    for match in sorted(protected, key=lambda text: (len(text), text)):
        best = [0.0]
        for end in range(1, len(match) + 1):
            splits = ((best[start], subwords.get(match[start:end])) for start in range(end))
            scores = [before + score for before, score in splits if score is not None]
            best.append(max(scores, default=best[end - 1] - UNREACHABLE_SCORE))
        subwords[match] = best[-1] + PROTECTED_MARGIN
