"""The task of the labs about alignment: short sentences of the built-in grammar, whose word links are known.

English sentences of three to six words, translated into French. A model of 64 units learns it in a few hundred steps,
and the links say which English words each French word comes from.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import TYPE_CHECKING, Any

from weft.evaluation.alignment import alignment_error_rate
from weft.tasks import generate
from weft.text.words import words

if TYPE_CHECKING:
    import weft

MAX_WORDS = 6
TRAINING_PAIRS = 8_000
PAIRS_PER_STEP = 100
"""About as many as a batch has."""


def training_pairs(steps: int) -> int:
    """The number of pairs drawn from the grammar; a short training would not see more."""
    return min(TRAINING_PAIRS, PAIRS_PER_STEP * steps)


def settings(model: Mapping[str, Any], *, steps: int, learning_rate: float = 0.02) -> dict[str, Any]:
    """The settings of a training, as for `make_recipe`."""
    return {
        "data": {"train": "grammar", "train_size": training_pairs(steps), "options": {"max_words": MAX_WORDS}},
        "tokenizer": {"kind": "word", "size": 4_000, "joint": False},
        "model": {"embedding": 64, **model},
        "training": {
            "steps": steps,
            "batch_tokens": 500,
            "learning_rate": learning_rate,
            "warmup": min(50, steps // 2),
            "schedule": "cosine",
            "label_smoothing": 0.0,
        },
    }


def pairs(split: str, count: int, *, seed: int) -> list[weft.Pair]:
    """Pairs with links; those of "train" with a seed are the pairs that a model of this seed is trained on."""
    return list(generate("grammar", split, count, seed=seed, options={"max_words": MAX_WORDS}))


def exact_match(run: weft.Translator, test: list[weft.Pair]) -> float:
    """The percentage of sentences whose greedy translation is the reference."""
    longest = 1 + max(len(words(pair.target)) for pair in test)  # what is longer is wrong in any case
    sources = [pair.source for pair in test]
    outputs = run.translate(sources, kind="greedy", max_length=longest, return_attention=False)
    right = sum(output.text == pair.target for output, pair in zip(outputs, test, strict=True))
    return 100 * right / len(test)


def attention_error(run: weft.Translator, test: list[weft.Pair]) -> float:
    """The alignment error rate of the attention, in percent, while the model produces the reference translations."""
    return links_error([list(output.links) for output in run.force_decode(test)], test)


def links_error(links: list[list[tuple[int, int]]], test: list[weft.Pair]) -> float:
    """The alignment error rate of links against those of the grammar, in percent."""
    gold = [pair.links or () for pair in test]
    return alignment_error_rate(links, gold, gold).error_rate


def changed(run: weft.Translator, test: list[weft.Pair], seed: int, *, permute: bool = True) -> float:
    """The percentage of sentences whose translation changes with permuted weights; or with the same, as a control."""
    from weft.attention.edits import AttentionEdits, AttentionRow

    random, differ = Random(seed), 0
    for output in run.translate([pair.source for pair in test], kind="greedy"):
        assert output.attention is not None
        rows = [random.sample(row, len(row)) if permute else row for row in output.attention.tolist()]
        edits = AttentionEdits(rows=tuple(AttentionRow(step, tuple(row)) for step, row in enumerate(rows)))
        differ += run.with_edits(edits).translate(output.source, kind="greedy").text != output.text
    return 100 * differ / len(test)
