"""[data] pipeline: variants of training pairs, where symbols or phrases can take each other's place.

A network that has seen *walk twice* and *jump*, but never *jump twice*, needs a reason to treat both verbs alike. Pairs
in which they are exchanged are one. Only languages of commands get them: elsewhere a single exception, such as an
irregular form, makes an exchange wrong, and the few pairs that could contradict it may not be among those given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.errors import plural
from weft.pairs.profiling.profile import PairProfile
from weft.pairs.recommendation.choices import Choice
from weft.pairs.recommendation.kinds import TaskProfile

DRAWINGS = 8
"""Variants of each pair: enough for combinations that have few pairs."""


def choose_variants(profile: PairProfile) -> list[Choice]:
    """Steps that put interchangeable symbols and phrases in each other's place; none if the pairs show no such ones.

    A step for each group of phrases: a pair in which some were replaced, *walk left twice* for *walk*, has those of the
    next group then, *walk left*. Symbols are renamed last, since phrases are named as they are in the corpus.
    """
    symbols, phrases = profile.interchangeable
    steps: list[dict[str, Any]] = []
    names = []
    if phrases:
        steps += [{"kind": "substitute", "groups": _lists([group])} for group in phrases]
        number = len({phrase for group in phrases for phrase in group})
        names.append(f"{plural(number, 'phrase')} like {phrases[0][0][0]!r}")
    if symbols:
        steps.append({"kind": "exchange", "groups": _lists(symbols)})
        names += [", ".join(sorted(source for source, _ in group)) for group in symbols]
    if not steps:
        return []
    reason = "in each other's place they lead to pairs of the corpus, and contradict none"
    settings = {"data.pipeline": steps, "data.variants": DRAWINGS}
    return [Choice("variants", f"{DRAWINGS} of each pair: {'; '.join(names)}", reason, settings)]


def splice_words(task: TaskProfile, context: int) -> list[Choice]:
    """New words from the parts of two, for transcriptions: what decides about a sound is mostly near its letter.

    ``context``: letters, with their sounds, that two words have in common where they are joined.
    """
    step: dict[str, Any] = {"kind": "splice", "context": context}
    step |= {} if task.target == "symbol" else {"unit": "characters"}
    settings = {"data.pipeline": [step], "data.variants": DRAWINGS}
    value = f"{DRAWINGS} of each pair: words joined at {plural(context, 'equal letter')}"
    return [Choice("variants", value, "what decides about a sound is mostly near its letter", settings)]


def _lists(groups: Sequence[Sequence[tuple[str, str]]]) -> list[list[list[str]]]:
    return [[list(entry) for entry in group] for group in groups]
