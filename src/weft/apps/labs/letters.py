"""Copying letters, as several labs do it: how models are trained to, and which letters of their outputs are right.

No letter can be guessed from the letters before it, so every one that is right was read from the source.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from statistics import fmean
from string import ascii_lowercase
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.translation.translator import Translator


def training_settings(steps: int, *, learning_rate: float, batch_tokens: int = 1_024) -> dict[str, Any]:
    """[training] for a few hundred steps."""
    return {
        "steps": steps,
        "batch_tokens": batch_tokens,
        "learning_rate": learning_rate,
        "warmup": 20,
        "label_smoothing": 0.0,
    }


def draw_letters(count: int, length: int, *, seed: int, repeats: bool = True) -> list[str]:
    """Texts of random letters, all of one length; ``repeats``: whether a letter may occur twice in a text."""
    random = Random(f"letters {length} {seed}")
    draw = random.choices if repeats else random.sample
    return [" ".join(draw(ascii_lowercase, k=length)) for _ in range(count)]


def copied_letters(run: Translator, texts: Sequence[str]) -> list[float]:
    """For each position, the percentage of the copies of these texts that are right there, by greedy search.

    The texts have one length, and so have the copies: the model does not decide when to stop.
    """
    letters = [text.split() for text in texts]
    length = len(letters[0])
    copies = run.translate(
        texts, kind="greedy", max_length=length, min_length=length, no_loops=False, return_attention=False
    )
    rows = [
        [letter == copied for letter, copied in zip(text, [*copy.tokens, *[""] * length], strict=False)]
        for text, copy in zip(letters, copies, strict=True)
    ]
    return [100 * fmean(column) for column in zip(*rows, strict=True)]


def share_right(run: Translator, texts: Sequence[str]) -> float:
    """The percentage of letters that are right, over all positions."""
    return fmean(copied_letters(run, texts))


def forced_errors(run: Translator, texts: Sequence[str]) -> list[float]:
    """The errors at each position, in percent, of the most likely letters after those of the reference."""
    import torch

    from weft.ragged import Ragged
    from weft.text.specials import BEGIN, END

    ids = run.tokenizers.target.encode_batch(texts)
    targets = Ragged.of(ids)
    letters_L = targets.values.unique()
    with torch.no_grad():
        logits_NV = run.model(Ragged.of([[*row, END] for row in ids]), targets.shifted(BEGIN)).logits_NV
    predicted_N = letters_L[logits_NV[:, letters_L].argmax(-1)]
    wrong_BT = (predicted_N != targets.values).view(len(ids), -1)
    return [100 * share for share in wrong_BT.double().mean(0).tolist()]
