"""Cost: the time of attention scores, and of a recurrent model against a Transformer.

A score compares every query with every key. A dot product does so in one matrix product, and dividing it by √d costs
next to nothing. Additive and concat scores have a hidden layer for every pair, so their work and memory are as many
times larger as the layer is wide. And a recurrence computes its states one after the other, a Transformer those of all
positions in one product, though its attention grows with the square of the length.

Seconds depend on the machine and on what else it does. So everything here is a ratio of times that were measured in
turn in one process, on one thread, by the time of the processor (which does not run while others use it), each the
shortest of several. The lectures speak of GPUs, where large products gain most; one thread of a CPU gains least.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import process_time
from typing import Any, NamedTuple

from weft.apps.labs.intervals import factor
from weft.apps.labs.lab import Lab, LabResult
from weft.apps.labs.trials import Trials, run_trials
from weft.apps.labs.verdicts import Verdict, above, judge, within
from weft.evaluation.statistics import Estimate
from weft.pictures.charts import Chart, Row, Series, Table

LAB = Lab(
    name="cost",
    claim="Scaled dot costs what dot costs, additive and concat over twice; long texts cost an RNN more, too",
    paper="Vaswani et al. 2017, section 3.2.1: dot-product attention is much faster and more space-efficient in "
    "practice than additive attention; table 2: better models than recurrent ones at a fraction of their cost.",
    trains="Nothing for long: updates of an LSTM with attention and of a Transformer of equal width, and five scores.",
    seconds=40,
    next=("Wider vectors: weft.labs.cost(width=256).", "What is counted and not timed: weft lab distance."),
)
SCORES = ("dot", "scaled_dot", "general", "additive", "concat")
MODELS = ("recurrent", "Transformer")
SCORE_PAIRS = (("scaled_dot", "dot"), ("general", "dot"), ("additive", "scaled_dot"), ("concat", "scaled_dot"))
LENGTHS = {"scores": (16, 32, 64), "models": (16, 64, 128)}
PAIRS = {"scores": SCORE_PAIRS, "models": (MODELS,)}


class Condition(NamedTuple):
    """What is timed, tokens of source and target, the width of states, and how often each time is taken."""

    kind: str
    length: int
    width: int
    repeats: int


def trial(condition: Condition, seed: int) -> dict[str, Any]:
    """Seconds of the processor: of each score, or of each model, forward and backward."""
    works = (score_works if condition.kind == "scores" else model_works)(condition, seed)
    best = dict.fromkeys(works, float("inf"))
    for _ in range(condition.repeats):
        for name, work in works.items():  # in turn, so that a change of load meets all of them
            start = process_time()
            work()
            best[name] = min(best[name], process_time() - start)
    return best


def score_works(condition: Condition, seed: int) -> dict[str, Callable[[], Any]]:
    """For each score, two comparisons of 16 rows of queries with keys, and their gradients."""
    import torch

    from weft.attention.scores import make_score

    generator = torch.Generator().manual_seed(seed)
    size = (16, condition.length, condition.width)
    queries_BTD, keys_BSD = (torch.randn(size, generator=generator, requires_grad=True) for _ in range(2))

    def work(name: str) -> Callable[[], Any]:
        score = make_score(name, queries=condition.width, keys=condition.width, size=condition.width)
        return lambda: [score(queries_BTD, keys_BSD).sum().backward() for _ in range(2)]

    return {name: work(name) for name in SCORES}


def model_works(condition: Condition, seed: int) -> dict[str, Callable[[], Any]]:
    """For each model, the gradient of the loss of a batch of about 1,024 target tokens."""
    import torch

    import weft
    from weft.models.build import build_model
    from weft.ragged import Ragged
    from weft.text.specials import BEGIN

    layer: dict[str, Any] = {"hidden": condition.width, "layers": 2, "kind": "lstm"}
    stack = layer | {"kind": "transformer", "heads": 4, "feed_forward": 2 * condition.width}
    settings = {
        "recurrent": {"encoder": layer, "decoder": layer, "attention": {"score": "dot"}},
        "Transformer": {"encoder": stack, "decoder": stack},
    }
    generator = torch.Generator().manual_seed(seed)
    ids_BT = torch.randint(8, 200, (max(1_024 // condition.length, 1), condition.length), generator=generator)
    batch = Ragged.of(ids_BT.tolist())

    def work(name: str) -> Callable[[], Any]:
        recipe = weft.make_recipe({"model": {"embedding": condition.width, "dropout": 0.0, **settings[name]}})
        model: Any = build_model(recipe.model, source_size=200, target_size=200, seed=seed)

        def update() -> None:
            logits_NV = model(batch, batch.shifted(BEGIN)).logits_NV
            torch.nn.functional.cross_entropy(logits_NV, batch.values).backward()

        return update

    return {name: work(name) for name in MODELS}


def cost(
    seeds: int | Sequence[int] = 3, *, quick: bool = False, shorter: int = 1, width: int = 128, repeats: int = 25
) -> LabResult:
    """Run the lab. ``shorter``: divides all lengths; ``repeats``: of each measurement, of which the shortest counts."""
    repeats = min(repeats, 2) if quick else repeats
    conditions = [Condition(kind, n // shorter, width, repeats) for kind, ns in LENGTHS.items() for n in ns]
    trials = run_trials(trial, conditions, seeds, unit="trials")
    ratios = {(pair, c.length): ratio(trials, c, *pair) for c in conditions for pair in PAIRS[c.kind]}
    rows: list[Row] = [(f"{a} / {b}", f"{length} tokens", value) for ((a, b), length), value in ratios.items()]
    series = tuple(
        Series(f"{a} / {b}", tuple((n, value) for (pair, n), value in ratios.items() if pair == (a, b)))
        for a, b in (*SCORE_PAIRS, MODELS)
    )
    longest = {pair: value for (pair, _), value in ratios.items()}
    title = f"Additive takes {longest['additive', 'scaled_dot'].mean:.0f} times as long as scaled dot"
    chart = Chart("ratios", title, "tokens", "ratio of seconds", series, log_x=True, log_y=True, varies=True)
    table = Table(("seconds of", "at", "ratio"), rows, "Ratios of the seconds of a processor", varies=True)
    return LabResult(LAB, judge_ratios(longest), (table,), (chart,), (), trials.seeds, [], quick)


def ratio(trials: Trials, condition: Condition, first: str, second: str) -> Estimate:
    """How many times as long the first takes."""
    return factor([seconds[first] / seconds[second] for seconds in trials.results[condition]])


def judge_ratios(ratios: Mapping[tuple[str, str], Estimate]) -> Verdict:
    """The ratios of seconds by pair, at the largest length of each."""
    pairs = {"scaled dot / dot, at 64 tokens": ("scaled_dot", "dot"), "LSTM / Transformer, at 128 tokens": MODELS}
    pairs |= {f"{name} / scaled dot, at 64 tokens": (name, "scaled_dot") for name in ("additive", "concat")}
    same, recurrent, *slow = (f"ratio of seconds, {name}" for name in pairs)
    checks = [
        within(same, ratios["scaled_dot", "dot"], 0.8, 1.25),
        *(
            above(what, ratios[name, "scaled_dot"], 2.0)
            for what, name in zip(slow, ("additive", "concat"), strict=True)
        ),
        above(recurrent, ratios[MODELS], 1.2),
    ]
    return judge(checks, f"Ratios of seconds: {', '.join(f'{name} {ratios[p].text()}' for name, p in pairs.items())}.")
