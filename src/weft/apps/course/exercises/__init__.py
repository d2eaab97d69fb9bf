"""The exercises, one file each, in the order of the course."""

from __future__ import annotations

from weft.apps.course.exercise import Exercise
from weft.apps.course.exercises import (
    attention,
    beam_search,
    bleu,
    bpe,
    lstm,
    masked_attention,
    sampling,
    transformer_layer,
)
from weft.errors import DataError, nearest

EXERCISES: dict[str, Exercise] = {
    module.EXERCISE.name: module.EXERCISE
    for module in (sampling, lstm, attention, beam_search, bpe, masked_attention, transformer_layer, bleu)
}


def find_exercise(name: str) -> Exercise:
    if name not in EXERCISES:
        raise DataError(f"{name}: unknown exercise; {nearest(name, EXERCISES)}")
    return EXERCISES[name]
