"""The words of an output, each with its own probability and the reasons to doubt it.

The probability of a word is that of its tokens, given the source and the tokens before them:

    p(word) = Π_t p(y_t | y_<t, x)

A reason is a name and, where there is one, the text that it is about:

    unknown           the word, or a source word that it is linked to, is not in the vocabulary
    unlike-training   a source token that it is linked to has neighbors, before and after it, that it never has in the
                      training data (of a calibrated run: `weft.translation.flags.FlagRules`)
    two-readings      another hypothesis of the search, at least `READING` times as likely, has other words here

Where an output is a single word of several tokens (pronunciations, inflected forms), its tokens are listed instead.
Links are those that attention gives; without attention there are reasons of the output's own words only.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

from weft.text import specials
from weft.translation.flags import skipped_stretches

if TYPE_CHECKING:
    from weft.translation.flags import FlagRules
    from weft.translation.results import Translation

READING = 0.2
"""How likely another hypothesis is, relative to the output, for its words to be another reading."""
MAX_WORDS = 400
"""Words of an output that is compared with other hypotheses, at most: comparing takes quadratic time."""
Reason = tuple[str, str | None]


def add_doubts(record: dict[str, Any], translation: Translation) -> None:
    """Add ``words`` to the record of a translation (`weft.apps.serve.operations.add_words` has added its words), and
    the source words of the flag skipped-source as ``skipped_source``."""
    rules = translation.flag_rules
    record["words"] = doubts(record, rules)
    stretches = skipped_stretches(translation, rules) if rules and "skipped-source" in record["flags"] else []
    record["skipped_source"] = [
        " ".join(dict.fromkeys(_source_word(record, token) for token in stretch)) for stretch in stretches
    ]


def doubts(record: dict[str, Any], rules: FlagRules | None) -> list[dict[str, Any]]:
    """The words of an output, as the record of a translation has them."""
    names, groups = _units(record)
    scores: defaultdict[int, float] = defaultdict(float)
    for group, score in zip(groups, record["token_scores"], strict=False):
        scores[group] += -math.inf if score is None else score
    reasons: list[list[Reason]] = [[] for _ in names]
    for index, reason in [
        *_unknown(record, groups),
        *_unlike_training(record, groups, rules),
        *_readings(record, names),
    ]:
        if 0 <= index < len(names) and reason not in reasons[index]:
            reasons[index].append(reason)
    return [
        {
            "text": name,
            "probability": round(math.exp(scores[index]), 6) if index in scores else None,
            "reasons": [{"name": reason, "text": text} for reason, text in reasons[index]],
        }
        for index, name in enumerate(names)
    ]


def _units(record: dict[str, Any]) -> tuple[list[str], list[int]]:
    """The words of an output and the word of each token; its tokens, where it has no words or is a single one."""
    words, tokens = record.get("target_words"), record["tokens"]
    if words is None or len(words) == 1 < len(tokens):
        return tokens, list(range(len(tokens)))
    return words, record["target_word_of_token"]


def _linked(record: dict[str, Any], groups: Sequence[int], doubted: dict[int, str]) -> Iterable[tuple[int, str]]:
    """(output word, source word) for each output token that attends most to a doubted source token."""
    for token, weights in enumerate(record["attention"] or ()):
        source = max(range(len(weights)), key=weights.__getitem__, default=-1)
        if source in doubted:
            yield groups[token], doubted[source]


def _source_word(record: dict[str, Any], token: int) -> str:
    word = record["source_word_of_token"][token] if "source_words" in record else -1
    text: str = record["source_words"][word] if word >= 0 else record["source_tokens"][token]
    return text


def _unknown(record: dict[str, Any], groups: Sequence[int]) -> Iterable[tuple[int, Reason]]:
    unknown = specials.SPECIALS[specials.UNKNOWN]
    for token, name in enumerate(record["tokens"]):
        if name == unknown:
            yield groups[token], ("unknown", None)
    doubted = {
        index: _source_word(record, index) for index, name in enumerate(record["source_tokens"]) if name == unknown
    }
    for index, word in _linked(record, groups, doubted):
        yield index, ("unknown", word)


def _unlike_training(
    record: dict[str, Any], groups: Sequence[int], rules: FlagRules | None
) -> Iterable[tuple[int, Reason]]:
    if rules is None:
        return
    names = record["source_tokens"]
    new = rules.neighbors.new(names)
    doubted = {index: _source_word(record, index) for index in range(len(names) - 1) if new[index] and new[index + 1]}
    for index, word in _linked(record, groups, doubted):
        yield index, ("unlike-training", word)


def _readings(record: dict[str, Any], names: Sequence[str]) -> Iterable[tuple[int, Reason]]:
    """The words that other hypotheses have in place of those of the output."""
    by_words = names is not record["tokens"]
    if len(names) > MAX_WORDS:
        return
    for other in record["alternatives"]:
        if other["log_probability"] is None or record["log_probability"] is None:
            continue
        if other["log_probability"] < record["log_probability"] + math.log(READING):
            continue
        others = other["target_words"] if by_words else other["tokens"]
        for kind, start, stop, first, end in SequenceMatcher(None, names, others, autojunk=False).get_opcodes():
            if kind in ("replace", "delete"):
                reading = (" " if by_words else "").join(others[first:end])
                for index in range(start, stop):
                    yield index, ("two-readings", reading or None)
