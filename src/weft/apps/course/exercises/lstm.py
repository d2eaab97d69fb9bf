"""Exercise: a step of an LSTM   (chapter 3; Hochreiter & Schmidhuber 1997, Gers et al. 2000)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.apps.course.exercise import NONE, Case, Exercise, Mistakes

if TYPE_CHECKING:
    from torch import Tensor

STUB = '''\
"""An LSTM cell: two gates edit the cell, a third shows part of it.

Write the function, then run:  weft course check lstm.py
"""

import torch


def lstm_step(x, h, c, W, U, b):
    """One step of an LSTM.

    x: the input             e numbers
    h, c: state and cell     d numbers each
    W, U, b: weights of the input (4d × e), of the state (4d × d), and biases (4d)

    W, U and b have four blocks of d rows: input gate i, forget gate f, candidate g, output gate o, in this order.
    The gates are logistic functions of their sums, the candidate is a tanh. The new cell keeps f of the old one and
    adds i of the candidate; the new state is o of the tanh of the new cell.

    Returns the new h and the new c.
    """
    raise NotImplementedError
'''


def lstm_step(*arguments: Tensor, mistakes: Mistakes = NONE) -> tuple[Tensor, Tensor]:
    """c' = f ⊙ c + i ⊙ g,  h' = o ⊙ tanh(c')"""
    x, h, c, W, U, b = arguments
    sums = W @ x + (0 if "state" in mistakes else U @ h) + (0 if "bias" in mistakes else b)
    i, f, g, o = sums.chunk(4)
    if "order" in mistakes:
        i, f, o, g = sums.chunk(4)
    if "swapped" in mistakes:
        f, i, g, o = sums.chunk(4)
    squash = (lambda gate: gate.tanh()) if "tanh gates" in mistakes else (lambda gate: gate.sigmoid())
    i, f, o = squash(i), squash(f), squash(o)
    g = g.sigmoid() if "candidate" in mistakes else g.tanh()
    kept = c if "forget" in mistakes else (1 - f) * c if "complement" in mistakes else f * c
    written = g if "input" in mistakes else (1 - f) * g if "coupled" in mistakes else i * g
    new_c = kept + written
    shown = c if "old cell" in mistakes else new_c
    new_h = o * (shown if "output" in mistakes else shown.tanh())
    return (new_c, new_h) if "returned" in mistakes else (new_h, new_c)


def cases() -> list[Case]:
    import torch

    generator = torch.Generator().manual_seed(3)

    def example(inputs: int, size: int) -> tuple[Tensor, ...]:
        shapes = ((inputs,), (size,), (size,), (4 * size, inputs), (4 * size, size), (4 * size,))
        return tuple(torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in shapes)

    x, h, c, W, U, _ = example(2, 3)
    closed = torch.tensor([-50.0, 50.0, 0.0, 50.0], dtype=torch.float64).repeat_interleave(3)
    return [
        Case("input gate shut, forget gate open: the cell stays", "lstm_step", (x, h, c, 0 * W, 0 * U, closed)),
        Case("five inputs, a state of three", "lstm_step", example(5, 3)),
        Case("two inputs, a state of four", "lstm_step", example(2, 4)),
        Case("a state of one", "lstm_step", example(1, 1)),
    ]


EXERCISE = Exercise(
    name="lstm",
    chapter=3,
    title="a step of an LSTM",
    stub=STUB,
    solutions={"lstm_step": lstm_step},
    cases=cases,
    mistakes={
        "order": "The gate order is wrong: the third block of rows is the candidate, the fourth the output gate.",
        "swapped": "Input and forget gate are exchanged: the first block of rows is the input gate.",
        "output": "The new state shows the cell itself. Its numbers can grow without bound: what squashes them?",
        "candidate": "The candidate may be negative, or the cell could only grow. Which function has values below 0?",
        "tanh gates": "Gates are shares from 0 to 1. Which function has such values?",
        "forget": "Nothing is ever forgotten: the old cell is added as a whole.",
        "complement": "A forget gate of 1 keeps everything; as it is, it erases everything.",
        "input": "The candidate is added as a whole; a gate decides how much of it is written.",
        "coupled": "The candidate is weighed by 1 - f, as in other cells. An LSTM has an input gate for that.",
        "old cell": "The new state is made of the old cell. It should show what has just been written.",
        "bias": "The biases are missing.",
        "state": "The previous state h does not enter the gates.",
        "returned": "h and c are returned in the wrong order.",
    },
)
