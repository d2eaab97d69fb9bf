"""The kind of task and the units of each side: the facts that all other choices follow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from weft.errors import plural
from weft.pairs.profiling.profile import PairProfile
from weft.pairs.profiling.sides import SideProfile, VocabularyProfile
from weft.pairs.recommendation.choices import Choice

Unit = Literal["symbol", "word", "character", "bpe"]
"""symbol: what is between spaces; word: punctuation apart."""
Kind = Literal["spelling", "inflection", "correction", "summary", "copying", "answer", "formal", "text"]

WORD_CHARACTERS = 60
"""Characters that a form of a word has at most, with its particles."""
SOURCE_CHARACTERS = 40
"""Characters that a short string of several tokens has at most."""
STRING_CHARACTERS = 200
"""Characters that the target of a short string has at most."""
CLOSED_SIZE = 3_000
"""Different tokens that a closed set has at most."""
CLOSED_UNSEEN = 0.01
"""The probability of an unseen token that a closed set has at most."""
MOSTLY_DIGITS = 0.4
"""The share of digits among characters above which a text is a number or a formula."""
STRING_TOKENS = 2, 4
"""Tokens that the median and the 95th percentile of short sources have at most: syllables between spaces."""
TRANSCRIBED = 0.2
"""Excess over chance with which a source character determines the target unit at its position, for targets that
follow their sources. Measured: 0.34 to 0.80 for pronunciations in six languages, at most 0.04 for dates, sums and
commands."""
UNITS_PER_CHARACTER = 0.5, 2.0
"""Target units that a character becomes, on average, in a transcription."""
SYLLABLE_CHARACTERS = 7
"""Characters that the syllables of a transcribed source have at most, on average."""
UNSPACED_WORD = 12
"""Characters above which the median text of a script without spaces is more than a word."""
PUNCTUATED = 0.01
"""The share of tokens with attached punctuation above which a text is running text, not tokenized."""
RUNNING_TEXT = 0.05
"""The share of such tokens above which texts with copied names are sentences, not code or commands."""
WORDED = 0.95
"""A text without punctuation is natural language if at least this share of its tokens are words."""
WORD_LENGTH = 3
"""The mean number of characters that these words must have."""
MANY_WORDS = 100
"""The least number of different words."""
UNSPACED = frozenset(["Han", "Hiragana", "Katakana", "Thai", "Lao", "Khmer", "Myanmar", "Tibetan"])
"""Scripts that are written without spaces between words."""


@dataclass(frozen=True)
class TaskProfile:
    """The kind of a task and the units of its sides."""

    kind: Kind
    source: Unit
    target: Unit
    source_reason: str
    target_reason: str
    reason: str
    is_formal: bool = False
    """Whether targets are not text: they are right or wrong as a whole."""

    @property
    def is_word_level(self) -> bool:
        """Whether a source is a word or so, not a sentence."""
        return self.kind in ("spelling", "inflection")

    def choice(self) -> Choice:
        name = FORMAL_COPYING if self.kind == "copying" and self.is_formal else NAMES[self.kind]
        return Choice("task", name, self.reason)


NAMES: dict[Kind, str] = {
    "spelling": "short strings",
    "inflection": "words with features",
    "correction": "correction",
    "summary": "summaries",
    "copying": "sentences with copied names",
    "answer": "one of a few answers",
    "formal": "formal language",
    "text": "sentences",
}
FORMAL_COPYING = "formal language with copied names"


def find_task(profile: PairProfile) -> TaskProfile:
    """The kind of task by the profile; the first rule that holds decides."""
    relations, source, target = profile.relations, profile.source, profile.target
    source_unit, source_reason = unit_of(source, profile.scale, is_target=False)
    target_unit, target_reason = unit_of(target, profile.scale, is_target=True)
    copied, by_chance = relations.copied_words, relations.copied_words_by_chance

    def task(kind: Kind, reason: str, *, is_formal: bool = False) -> TaskProfile:
        return TaskProfile(kind, source_unit, target_unit, source_reason, target_reason, reason, is_formal)

    if target_unit == "symbol" and source_unit != "character" and _is_syllables(profile):
        source_unit = "character"
        source_reason = f"syllables of {source.token_characters:.1f} characters between spaces"
    if source_unit == "character" and not _is_unspaced(source):
        if target_unit == "bpe" and target.characters.p95 <= WORD_CHARACTERS:
            target_unit, target_reason = "character", f"forms of words, {target.alphabet} different characters"
        if profile.columns.features and target_unit == "character":
            features = len(profile.columns.features)
            return task("inflection", f"words, and {features} column{'s' * (features > 1)} of features")
        if target.characters.p95 <= STRING_CHARACTERS:
            return task("spelling", _short_reason(source))
    if _is_answer(target, profile.sampled):
        return task("answer", f"only {target.spaced.size:,} different targets")
    if copied > 0.85 and relations.monotone > 0.9 and 0.7 < relations.length_ratio < 1.4:
        source_unit = target_unit = "bpe"
        source_reason = target_reason = "sentences"
        return task("correction", f"{copied:.0%} of the target words are in the source, in the same order")
    if _is_formal(target, target_unit):
        if source_unit == "bpe" and source.worded.size <= CLOSED_SIZE and source.worded.unseen < 3 * CLOSED_UNSEEN:
            source_unit = "word" if source.punctuated >= PUNCTUATED else "symbol"
            source_reason = f"only {source.worded.size:,} different words"
        return task("formal", f"the target is not text: {target_reason}", is_formal=True)
    rare = relations.copied_rare_words
    if rare > 0.3 and relations.rare_words > 0.05 and copied - by_chance > 0.2:
        source_unit = target_unit = "word"
        source_reason = target_reason = f"{rare:.0%} of the rare target words are in the source and can be copied"
        if relations.length_ratio < 0.25:
            return task(
                "summary", f"targets are {1 / relations.length_ratio:.0f} times shorter, of words of the source"
            )
        reason = f"{copied:.0%} of the target words are in the source, {by_chance:.0%} by chance"
        return task("copying", reason, is_formal=target.punctuated <= RUNNING_TEXT)
    if "bpe" in (source_unit, target_unit) and "character" not in (source_unit, target_unit):
        if source_unit != "bpe":
            source_unit, source_reason = "bpe", "the target is text; the same units on both sides"
        if target_unit != "bpe":
            target_unit, target_reason = "bpe", "the source is text; the same units on both sides"
    return task("text", f"{target.tokens.mean:.0f} words in a target on average")


def is_transcription(profile: PairProfile) -> bool:
    """Whether targets follow their sources character by character, such as phones a spelling, or a name a name."""
    relations = profile.relations
    least, most = UNITS_PER_CHARACTER
    follows = relations.aligned - relations.aligned_by_chance >= TRANSCRIBED
    return follows and least <= relations.units_per_character <= most


def _is_syllables(profile: PairProfile) -> bool:
    """Whether sources are words of several syllables between spaces, which are transcribed: "xin chào"."""
    source = profile.source
    is_short = source.characters.p95 <= WORD_CHARACTERS and source.token_characters <= SYLLABLE_CHARACTERS
    return is_short and is_transcription(profile)


def _short_reason(source: SideProfile) -> str:
    if source.single > 0.5:
        return f"{source.single:.0%} of the sources are single words"
    return f"sources of {source.characters.mean:.0f} characters on average"


def _is_formal(target: SideProfile, unit: Unit) -> bool:
    """Whether targets are of a formal language: symbols of a closed set, not sentences with or without punctuation."""
    if unit == "character":
        return not _is_unspaced(target)
    return unit == "symbol" and target.sentence_ends < 0.5 and not _is_unpunctuated(target)


def _is_unpunctuated(side: SideProfile) -> bool:
    """Whether the texts are sentences of words without punctuation."""
    words = side.plain_words >= WORDED and side.token_characters >= WORD_LENGTH
    return words and side.spaced.size >= MANY_WORDS


def _is_answer(target: SideProfile, sampled: int) -> bool:
    few = min(200, max(2, sampled // 50))
    return target.distinct * sampled <= few and target.tokens.p99 <= 3 and target.spaced.growth < 0.2


def unit_of(side: SideProfile, factor: float, *, is_target: bool) -> tuple[Unit, str]:
    """The unit of a side, and why."""
    if side.digits > MOSTLY_DIGITS and side.characters.p95 <= WORD_CHARACTERS:
        return "character", f"numbers: {side.digits:.0%} of the characters are digits"
    if _is_short(side, is_target=is_target):
        if _is_unspaced(side):
            return _unspaced(side)
        if is_target and side.spaced.size <= 50 and _is_closed(side.spaced, factor) and side.spaced.growth < 0.05:
            return "symbol", plural(side.spaced.size, "different word")
        length = plural(round(side.characters.mean), "character")
        return "character", f"words of {length} on average, {side.alphabet} different"
    if side.punctuated < PUNCTUATED and _is_closed(side.spaced, factor):
        return "symbol", f"{side.spaced.size:,} different symbols between spaces"
    if side.punctuated >= PUNCTUATED and _is_closed(side.worded, factor):
        return "word", f"{side.worded.size:,} different words, hardly a new one in further text"
    if _is_unspaced(side):
        return _unspaced(side)
    return "bpe", f"sentences of {side.tokens.mean:.0f} words; {side.worded.unseen:.1%} of further words are new"


def _is_short(side: SideProfile, *, is_target: bool) -> bool:
    """Whether the texts are words, or strings as short as words; those of a source may be syllables between spaces."""
    median, p95 = (2, 2) if is_target else STRING_TOKENS
    short = side.tokens.median <= median and side.tokens.p95 <= p95 and side.characters.p95 <= SOURCE_CHARACTERS
    return side.single > 0.9 or short


def _is_unspaced(side: SideProfile) -> bool:
    """Whether the texts are sentences of a script without spaces."""
    return side.script in UNSPACED and side.characters.median > UNSPACED_WORD and side.token_characters > 6


def _unspaced(side: SideProfile) -> tuple[Unit, str]:
    if side.alphabet <= 4_000 and side.characters.p99 <= 150:
        return "character", f"no spaces between words ({side.script}), {side.alphabet:,} different characters"
    return "bpe", f"no spaces between words ({side.script}), texts of up to {side.characters.p99} characters"


def _is_closed(vocabulary: VocabularyProfile, factor: float) -> bool:
    size, unseen = vocabulary.at(factor)
    return unseen < CLOSED_UNSEEN and size <= CLOSED_SIZE and vocabulary.tokens > 2 * vocabulary.size
