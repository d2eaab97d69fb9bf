"""[tokenizer] and the length limit of [data]."""

from __future__ import annotations

import re
from typing import Any

from weft.pairs.profiling.profile import PairProfile
from weft.pairs.recommendation.choices import Choice
from weft.pairs.recommendation.kinds import PUNCTUATED, TaskProfile

BPE_SIZES = ((1_000, 500), (5_000, 1_000), (20_000, 4_000), (1_000_000, 8_000), (5_000_000, 16_000))
"""Vocabulary sizes by the number of pairs: up to this many pairs, this many units."""
MAX_BPE_SIZE = 32_000
WORDS_PER_UNIT = 2.5
"""A BPE vocabulary has at most one unit per this many different words."""
SUMMARY_WORDS = 200
DEFAULT_MAX_LENGTH = 250
NO_SCRIPT = "digits and symbols"
_MARK = re.compile(r"<[^<>\s]{1,20}>")


def choose_units(profile: PairProfile, task: TaskProfile) -> list[Choice]:
    """Units of each side, vocabulary size, one vocabulary or two, the longest training pair."""
    kinds: list[str] = [("word" if unit == "symbol" else unit) for unit in (task.source, task.target)]
    settings: dict[str, Any] = {"tokenizer.kind": kinds[0]}
    if kinds[0] != kinds[1]:
        settings["tokenizer.target_kind"] = kinds[1]
    if _is_tokenized(profile, task):
        settings["tokenizer.split_punctuation"] = False
    if profile.columns.tags:
        settings["tokenizer.tags"] = "character" in kinds
    choices = [
        Choice("source units", _unit_name(task.source), task.source_reason, settings),
        Choice("target units", _unit_name(task.target), task.target_reason),
    ]
    if "Hangul" in _character_scripts(profile, task):
        reason = "a Korean syllable is written with two to four"
        choices.append(Choice("letters", "syllables decomposed", reason, {"tokenizer.decompose": True}))
    choices += _marks(profile, settings.get("tokenizer.split_punctuation", True), kinds)
    choices += _size(profile, task, kinds)
    choices.append(_joint(profile, task, kinds))
    choices += _lengths(profile, task)
    return choices


def _is_tokenized(profile: PairProfile, task: TaskProfile) -> bool:
    """Whether spaces already separate all tokens, of the side of symbols or of both sides of text."""
    units = task.source, task.target
    if units == ("bpe", "bpe"):
        sides = profile.source, profile.target
        return all(side.punctuated < PUNCTUATED and side.tokens.median > 2 for side in sides)
    return "symbol" in units and "word" not in units


def _character_scripts(profile: PairProfile, task: TaskProfile) -> list[str]:
    """The scripts of the sides whose units are characters."""
    sides = ((task.source, profile.source), (task.target, profile.target))
    return [side.script for unit, side in sides if unit == "character"]


def _unit_name(unit: str) -> str:
    return {"symbol": "one token each", "word": "words", "character": "characters", "bpe": "BPE"}[unit]


def _marks(profile: PairProfile, split: bool, kinds: list[str]) -> list[Choice]:
    """Frequent marks such as ``<n>`` stay whole where punctuation is a separate token."""
    tokens = dict.fromkeys((*profile.source.spaced.top, *profile.target.spaced.top))
    marks = [token for token in tokens if _MARK.fullmatch(token)]
    if not marks or not split or kinds == ["character", "character"]:
        return []
    return [Choice("marks", " ".join(marks), "one token each, as they are frequent", {"tokenizer.symbols": marks})]


def _size(profile: PairProfile, task: TaskProfile, kinds: list[str]) -> list[Choice]:
    pairs = profile.pairs
    if task.kind == "summary":
        reason = "rarer words are copied from the source"
        return [Choice("vocabulary", "12,000 words", reason, {"tokenizer.size": 12_000, "tokenizer.lowercase": True})]
    if task.kind == "copying":
        minimum = 10 if pairs >= 5_000 else 3 if pairs >= 500 else 1
        value = f"words that occur {minimum} times" if minimum > 1 else "all words"
        reason = "rarer ones are copied from the source" if minimum > 1 else f"only {profile.pairs:,} pairs"
        return [Choice("vocabulary", value, reason, {"tokenizer.minimum_count": minimum})]
    if "bpe" not in kinds:
        return []
    size = next((size for limit, size in BPE_SIZES if pairs <= limit), MAX_BPE_SIZE)
    reason = f"{pairs:,} pairs"
    words = max(side.worded.at(profile.scale)[0] for side in (profile.source, profile.target))
    if words / WORDS_PER_UNIT < size:
        size, reason = max(300, round(words / WORDS_PER_UNIT / 100) * 100), f"only about {words:,.0f} different words"
    size = max(size, 2 * max(profile.source.alphabet, profile.target.alphabet) + 50)
    return [Choice("vocabulary", f"{size:,} BPE units", reason, {"tokenizer.size": size})]


def _joint(profile: PairProfile, task: TaskProfile, kinds: list[str]) -> Choice:
    relations = profile.relations
    if kinds[0] != kinds[1]:
        return Choice("vocabularies", "two", "different units", {"tokenizer.joint": False})
    if task.kind in ("copying", "summary", "correction"):
        return Choice("vocabularies", "one", "words are copied", {"tokenizer.joint": True})
    if kinds[0] == "word":
        joint = relations.copied_words > 0.02
        reason = f"{relations.copied_words:.0%} of the target words are in the source"
        return Choice("vocabularies", "one" if joint else "two", reason, {"tokenizer.joint": joint})
    scripts = profile.source.script, profile.target.script
    joint = scripts[0] == scripts[1]
    names = [NO_SCRIPT if script == "Common" else script for script in scripts]
    reason = f"both sides are {names[0]}" if joint else f"the source is {names[0]}, the target {names[1]}"
    return Choice("vocabularies", "one" if joint else "two", reason, {"tokenizer.joint": joint})


def longest(profile: PairProfile, task: TaskProfile) -> int:
    """The length of the longest texts of the sample in units, roughly."""
    lengths = []
    for unit, side in ((task.source, profile.source), (task.target, profile.target)):
        per_word = 1 if unit == "symbol" else 1.5
        lengths.append(side.characters.maximum if unit == "character" else round(side.tokens.maximum * per_word))
    return max(lengths)


def _lengths(profile: PairProfile, task: TaskProfile) -> list[Choice]:
    if task.kind == "summary":
        settings = {"data.pipeline": [{"kind": "truncate", "max": SUMMARY_WORDS}], "data.max_length": 600}
        reason = f"the longest source has {profile.source.tokens.maximum:,}; what matters comes first"
        return [Choice("longest source", f"the first {SUMMARY_WORDS} words", reason, settings)]
    length = longest(profile, task)
    if length <= DEFAULT_MAX_LENGTH:
        return []
    limit = min(1_000, 50 * -(-round(1.2 * length) // 50))
    reason = f"the longest text of the sample has about {length:,}"
    return [Choice("longest pair", f"{limit} tokens per side", reason, {"data.max_length": limit})]
