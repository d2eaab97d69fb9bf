"""A model that is a table: logits for every prefix (up to a hash) of every row. No network, no parameters."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import torch
from torch import Tensor

BEGIN, END = 1, 2
PREFIXES = 31


class TableMemory(NamedTuple):
    logits: Tensor
    looks: Tensor
    """Attention weights for every prefix."""


class Table:
    """`Steps` over a `TableMemory`; the state is the number of the prefix said so far. Counts the rows it is shown."""

    def __init__(self) -> None:
        self.rows: list[int] = []

    def start(self, memory: TableMemory) -> tuple[Tensor]:
        return (torch.zeros(len(memory.logits), dtype=torch.int64),)

    def step(self, tokens_R: Tensor, state: tuple[Tensor], memory: TableMemory) -> tuple[Tensor, tuple[Tensor], Tensor]:
        self.rows.append(len(tokens_R))
        sources = len(memory.logits)
        assert len(tokens_R) % sources == 0
        prefix_R = (state[0] * 7 + tokens_R * 3 + 1) % PREFIXES
        source_R = torch.arange(len(tokens_R)) // (len(tokens_R) // sources)
        return memory.logits[source_R, prefix_R], (prefix_R,), memory.looks[source_R, prefix_R]


def table(rows: int, vocabulary: int, *, seed: int, spread: float = 2.0, source: int = 5) -> TableMemory:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(rows, PREFIXES, vocabulary, generator=generator) * spread
    return TableMemory(logits, torch.randn(rows, PREFIXES, source, generator=generator).softmax(-1))


def script(*rows: dict[tuple[int, ...], dict[int, float]], vocabulary: int) -> Scripted:
    """A model by hand: for a prefix, the probabilities of what follows; what is not named is impossible."""
    return Scripted(list(rows), vocabulary)


class Scripted:
    """`Steps` from dictionaries; a state row is the prefix itself, written in base V."""

    def __init__(self, rows: list[dict[tuple[int, ...], dict[int, float]]], vocabulary: int) -> None:
        self.vocabulary = vocabulary
        self.scripts = rows
        self.seen: list[list[tuple[int, ...]]] = []

    def memory(self) -> Tensor:
        return torch.arange(len(self.scripts))

    def start(self, memory: Tensor) -> tuple[Tensor]:
        return (torch.full((len(memory),), -1),)

    def step(self, tokens_R: Tensor, state: tuple[Tensor], memory: Tensor) -> tuple[Tensor, tuple[Tensor], None]:
        codes, logits, seen = [], [], []
        share = len(tokens_R) // len(memory)
        for row, (token, code) in enumerate(zip(tokens_R.tolist(), state[0].tolist(), strict=True)):
            code = 0 if code < 0 else code * self.vocabulary + token + 1
            prefix = self._prefix(code)
            said = self.scripts[int(memory[row // share])].get(prefix, {END: 1.0})
            logits.append([math.log(said[v]) if said.get(v) else float("-inf") for v in range(self.vocabulary)])
            codes.append(code)
            seen.append(prefix)
        self.seen.append(seen)
        return torch.tensor(logits), (torch.tensor(codes),), None

    def _prefix(self, code: int) -> tuple[int, ...]:
        tokens: list[int] = []
        while code:
            code, token = divmod(code - 1, self.vocabulary)
            tokens.append(token)
        return tuple(reversed(tokens))


class Answer(NamedTuple):
    """A sequence found by trying them all."""

    finished: bool
    score: float
    log_probability: float
    tokens: tuple[int, ...]


def exhaustive(model, memory, *, vocabulary: int, limit: int, length_penalty: float) -> list[Answer]:
    """All sequences of a one-row memory with their scores: finished ones first, then those the limit cuts off."""
    answers = []
    others = [token for token in range(vocabulary) if token != END]
    for length in range(limit + 1):
        for tokens in itertools.product(others, repeat=length):
            if length < limit:
                total = log_probability(model, memory, [*tokens, END])
                answers.append(Answer(True, total / (length + 1) ** length_penalty, total, tokens))
            else:
                total = log_probability(model, memory, list(tokens))
                answers.append(Answer(False, total / length**length_penalty, total, tokens))
    return sorted(answers, key=lambda answer: (not answer.finished, -answer.score))


@torch.no_grad()
def log_probability(model, memory, tokens: list[int]) -> float:
    """Σ log p(y_t | y_<t), one step at a time."""
    state = model.start(memory)
    last, total = BEGIN, 0.0
    for token in tokens:
        logits_RV, state, _ = model.step(torch.tensor([last]), state, memory)
        total += float(logits_RV.double().log_softmax(-1)[0, token])
        last = token
    return total
