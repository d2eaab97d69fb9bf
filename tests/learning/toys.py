"""Toy tasks over ids, and the smallest training loop that can learn them. No files, no recipe, no text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from random import Random
from typing import NamedTuple

import torch

from weft.build import build_model
from weft.data.ahead import draw
from weft.data.batches import Stored
from weft.data.store import PairStore, TokenStore
from weft.evaluation.likelihood import likelihood
from weft.models import AnyModel
from weft.ragged import Ragged
from weft.search import follow, greedy
from weft.settings import ModelSettings
from weft.text.specials import BEGIN, END
from weft.training.forcing import forced_logits, own_share
from weft.training.loss import cross_entropy
from weft.training.schedules import make_schedule

SYMBOLS = 8
VOCABULARY = SYMBOLS + END + 1
TASKS: dict[str, Callable[[Sequence[int]], list[int]]] = {"copy": list, "reverse": lambda ids: list(ids)[::-1]}


class Toy(NamedTuple):
    """Sources that were trained on, and sources that were not."""

    train: list[list[int]]
    test: list[list[int]]


def toy(*, count: int = 2000, held_out: int = 100, longest: int = 5) -> Toy:
    """Distinct random sequences of 1 to ``longest`` symbols; no test sequence was trained on."""
    random = Random(7)
    drawn: dict[tuple[int, ...], None] = {}
    while len(drawn) < count + held_out:
        drawn[tuple(random.randrange(END + 1, VOCABULARY) for _ in range(random.randint(2, longest)))] = None
    sequences = [list(ids) for ids in drawn]
    random.shuffle(sequences)
    return Toy(sequences[held_out:], sequences[:held_out])


def pairs_of(sources: Sequence[Sequence[int]], task: str) -> PairStore:
    return PairStore(
        TokenStore.of([*source, END] for source in sources),
        TokenStore.of([*TASKS[task](source), END] for source in sources),
    )


def train(
    settings: ModelSettings,
    pairs: PairStore,
    *,
    steps: int,
    learning_rate: float = 0.005,
    budget: int = 300,
    forcing: str = "teacher",
    sampling: float = 0.5,
    seed: int = 1,
) -> AnyModel:
    """Adam, a cosine schedule, clipping, plain cross-entropy."""
    torch.manual_seed(seed)
    model = build_model(settings, source_size=VOCABULARY, target_size=VOCABULARY, seed=seed)
    optimiser = torch.optim.Adam(model.parameters(), lr=learning_rate)
    schedule = make_schedule("cosine", warmup=10, steps=steps)
    for drawn in islice(draw(Stored(pairs).batches(budget, seed=seed), first_step=1, each=1), steps):
        step, [batch] = drawn.step, drawn.batches
        own = own_share(forcing, sampling=sampling, step=step, steps=steps)
        logits_NV = forced_logits(model, batch.source, batch.target, begin=BEGIN, own=own)
        loss = cross_entropy(logits_NV, batch.target.values).smoothed / len(batch.target.values)
        assert bool(loss.isfinite()), f"diverged at step {step}"
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.param_groups[0]["lr"] = learning_rate * schedule(step)
        optimiser.step()
    return model.eval()


def exact_match(model: AnyModel, sources: Sequence[Sequence[int]], task: str) -> float:
    """The share of sources whose greedy answer is right from the first token to the end mark."""
    memory = model.encode(Ragged.of([[*source, END] for source in sources]))
    limits = [len(source) + 3 for source in sources]
    answers = follow(model, memory, limits, greedy, begin=BEGIN, end=END)
    right = [
        answer.ended == "end" and answer.tokens == TASKS[task](source)
        for [answer], source in zip(answers, sources, strict=True)
    ]
    return sum(right) / len(right)


def loss_of(model: AnyModel, pairs: PairStore) -> float:
    """−log p of a token, on average."""
    return likelihood(model, pairs, begin=BEGIN).loss
