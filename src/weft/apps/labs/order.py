"""Order: attention without positions cannot tell the order of its inputs, unless it is causal.

Self-attention is a weighted sum over all positions, and a sum does not depend on the order of its terms. Permute the
words of the source, and an encoder without position encodings gives the same states, permuted: it is permutation
equivariant, Enc(Px) = P Enc(x). A decoder that attends to these states cannot know which word came first.

The lab trains Transformers to copy 2 to 5 different letters. An encoder without positions sees only which letters
there are; of n! orders it can but guess one. With sinusoidal positions the task is easy. The third model has no
encoder and no positions either: one causal decoder reads the letters and goes on. It does learn their order, because
under a causal mask each token sees another number of tokens before it; the mask itself breaks the symmetry. So the
sentence of the lecture holds for encoders, and not for language models.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from statistics import fmean
from typing import Any, NamedTuple

import weft
from weft.apps.labs.intervals import percent
from weft.apps.labs.lab import Lab, LabResult
from weft.apps.labs.training import train_model
from weft.apps.labs.trials import run_trials
from weft.apps.labs.verdicts import Verdict, above, below, judge
from weft.evaluation.statistics import Estimate
from weft.pictures.charts import Chart, Row, Series, Table

LAB = Lab(
    name="order",
    claim="Without positions an encoder cannot tell order; a causal decoder without positions learns it",
    paper="Vaswani et al. 2017, section 3.5: attention alone does not know the order, so positions are added. Haviv "
    "et al. 2022: causal language models without positions are competitive and learn absolute positions.",
    trains="Transformers of two layers that copy letters: with an encoder without positions, with one that has them, "
    "and a causal decoder alone, without positions.",
    seconds=55,
    next=(
        "Which other positions help the encoder? weft.labs.order(positions='rotary') changes those of the first model.",
        "What positions look like: weft positions --to positions.svg",
    ),
)
LETTERS = "abcdefghijkl"
LENGTHS = (2, 3, 4, 5)
MODELS = ("encoder without positions", "encoder with positions", "causal decoder without positions")


class Condition(NamedTuple):
    model: str
    positions: str
    steps: int
    pairs: tuple[int, int]

    @property
    def is_causal(self) -> bool:
        return self.model.startswith("causal")


def letters(count: int, seed: str) -> list[weft.Pair]:
    """Sequences of different letters to be copied, each length equally often; ``=`` ends the source."""
    draws = random.Random(seed)
    targets = [" ".join(draws.sample(LETTERS, LENGTHS[index % len(LENGTHS)])) for index in range(count)]
    return [weft.Pair(f"{target} =", target) for target in targets]


def trial(condition: Condition, seed: int) -> dict[str, Any]:
    """Exact match by length, in percent, and how far the encoder is from permutation equivariance."""
    layer = {"kind": "transformer", "layers": 2, "hidden": 64, "heads": 4, "feed_forward": 128}
    model: dict[str, Any] = {"embedding": 64, "encoder": layer | {"positions": condition.positions}, "decoder": layer}
    if condition.is_causal:
        model = {"kind": "language_model", "embedding": 64, "decoder": layer | {"positions": "none"}}
    test = letters(condition.pairs[1], f"test {seed}")
    run = train_model(
        {
            "data": {"prompts": condition.is_causal},
            "tokenizer": {"kind": "word"},
            "model": model,
            "training": {"steps": condition.steps, "batch_tokens": 1_200, "learning_rate": 0.003, "warmup": 50},
        },
        seed=seed,
        pairs=letters(condition.pairs[0], f"train {seed}"),
    )
    outputs = run.translate([pair.source for pair in test], kind="greedy", return_attention=False)
    right = [100.0 * (output.text == pair.target) for output, pair in zip(outputs, test, strict=True)]
    by_length = [fmean(right[index :: len(LENGTHS)]) for index in range(len(LENGTHS))]
    difference = None if condition.is_causal else equivariance_error(run, test, seed)
    return {"exact": fmean(right), "by length": by_length, "difference": difference}


def equivariance_error(run: weft.Translator, pairs: Sequence[weft.Pair], seed: int) -> float:
    """The largest |Enc(Px) − P Enc(x)| of all sources, each with a random permutation P."""
    import torch

    from weft.ragged import Ragged

    model: Any = run.model
    generator = torch.Generator().manual_seed(seed)
    sources = [torch.tensor(run.tokenizers.source.encode(pair.source)) for pair in pairs]
    orders = [torch.randperm(len(source), generator=generator) for source in sources]
    permuted = [source[order] for source, order in zip(sources, orders, strict=True)]
    with torch.no_grad():
        embedded = [model.source_embedding.ragged(Ragged.of(rows)) for rows in (sources, permuted)]
        states, others = (model.encoder(rows).states.split() for rows in embedded)
    return max((a[p] - b).abs().max().item() for a, b, p in zip(states, others, orders, strict=True))


def order(
    seeds: int | Sequence[int] = 3,
    *,
    quick: bool = False,
    steps: int = 200,
    pairs: tuple[int, int] = (8_000, 400),
    positions: str = "none",
) -> LabResult:
    """Run the lab. ``pairs``: for training and test; ``positions``: positions of the "no positions" encoder."""
    kinds = zip(MODELS, (positions, "sinusoidal", "none"), strict=True)
    blind, aware, causal = (Condition(name, kind, steps // 4 if quick else steps, pairs) for name, kind in kinds)
    trials = run_trials(trial, [blind, aware, causal], seeds)
    exact = {c: trials.percent(c, "exact") for c in trials.conditions}
    worst = {c: Estimate.exact(max(trials.values(c, "difference"))) for c in (blind, aware)}
    rows: list[Row] = [(c.model, exact[c], worst.get(c)) for c in trials.conditions]
    guesses = tuple((n, 100 / math.factorial(n)) for n in LENGTHS)
    rows.append(("a guess of the order, 1/n!", fmean(guess for _, guess in guesses), None))
    series = []
    for c in trials.conditions:
        columns = zip(LENGTHS, *trials.values(c, "by length"), strict=True)
        series.append(Series(c.model, tuple((n, percent(values)) for n, *values in columns)))
    series.append(Series("a guess, 1/n!", guesses))
    title = f"Without positions, the encoder copies {exact[blind].mean:.0f} % of the sequences, the causal decoder "
    chart = Chart("length", f"{title}{exact[causal].mean:.0f} %", "length (letters)", "exact match (%)", tuple(series))
    table = Table(("", "exact match (%)", "largest |Enc(Px) − P Enc(x)|"), rows)
    notes = ("The lecture says it of all attention; under a causal mask it is not so (Haviv et al. 2022).",)
    verdict = judge_order(worst[blind], exact[blind], exact[causal])
    return LabResult(LAB, verdict, (table,), (chart,), notes, trials.seeds, trials.records(), quick)


def judge_order(difference: Estimate, encoder: Estimate, decoder: Estimate) -> Verdict:
    """From the encoder's error of equivariance and the exact match of the models without positions, in percent."""
    sentence = (
        f"Permuting the source changes the states of the encoder by at most {difference.text()}; without positions, "
        f"the model with an encoder copies {encoder.text('%')}, the causal decoder {decoder.text('%')}."
    )
    checks = [
        below("largest |Enc(Px) − P Enc(x)| without positions", difference, 1e-5),
        below("exact match with an encoder without positions, in %", encoder, 40),
        above("exact match of the causal decoder without positions, in %", decoder, 60),
    ]
    return judge(checks, sentence)
