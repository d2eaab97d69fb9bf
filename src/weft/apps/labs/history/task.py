"""The task and the budget that all models of the history share: short English sentences and their French."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.apps.labs.history.models import HistoricalModel
from weft.evaluation.alignment import alignment_error_rate
from weft.tasks import generate

if TYPE_CHECKING:
    import weft

MAX_WORDS = 8
"""The longest source of training."""
LENGTHS = (4, 6, 8, 10, 12)
"""Lengths of test sources, in words; the last ones are longer than any in training."""
LONGEST = LENGTHS.index(MAX_WORDS)
SENTENCE = "he hit me with a pie"
"""The sentence whose attention is shown."""
MAX_PAIRS, PAIRS_PER_STEP = 12_000, 120
"""Training pairs; a short training has fewer, since it would not see more."""


def settings(model: HistoricalModel, steps: int) -> dict[str, Any]:
    """The settings of a training, as for `make_recipe`."""
    size = min(MAX_PAIRS, PAIRS_PER_STEP * steps)
    return {
        "data": {"train": "grammar", "train_size": size, "options": {"max_words": MAX_WORDS}},
        "tokenizer": {"kind": "word", "size": 4_000, "joint": False},
        "model": {"embedding": 64, **model.settings},
        "training": {
            "steps": steps,
            "batch_tokens": 600,
            "learning_rate": model.learning_rate,
            "warmup": min(60, steps // 2),
            "schedule": "cosine",
            "label_smoothing": 0.0,
        },
    }


def unseen_pairs(seed: int, sentences: int) -> list[weft.Pair]:
    """``sentences`` unseen pairs of each length, the shortest first."""
    options = [{"min_words": length, "max_words": length} for length in LENGTHS]
    return [pair for bounds in options for pair in generate("grammar", "test", sentences, seed=seed, options=bounds)]


def aligned_pairs(seed: int, sentences: int) -> list[weft.Pair]:
    """Test pairs no longer than the training sentences: alignment is measured on what a model can translate."""
    return unseen_pairs(seed, sentences)[: sentences * (LONGEST + 1)]


def error_rate(links: list[list[tuple[int, int]]], pairs: list[weft.Pair]) -> float:
    """The alignment error rate in percent."""
    gold = [pair.links or () for pair in pairs]
    return alignment_error_rate(links, gold, gold).error_rate
