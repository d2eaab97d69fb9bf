"""Distance: how far apart two words are inside a network, and what that costs.

A recurrent layer reads a sequence word by word: what the first word says must pass through every state between before
it reaches the last, n steps later. The path is O(n) long, each step of it can lose something, and the steps must be
computed one after the other. Attention compares the last word with the first one directly: the path is O(1) whatever
the length, and all positions can be computed in parallel. The price is that every pair of words is compared: n²·d
operations for a sequence with itself (n·m·d for two), where a recurrence takes n·d².

The lab counts all of that in the graph that autograd records. The path is the smallest number of operations between
the first input and the last output, the depth the largest number of operations that wait for one another. Operations
are multiply-adds as PyTorch counts them, memory is what is kept for the backward pass. On log-log axes the slope is
the exponent of n. Seconds are measured too, as an illustration: they depend on the machine, so the verdict does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from timeit import repeat
from typing import TYPE_CHECKING, Any, NamedTuple

from weft.apps.labs.graph_paths import count_operations
from weft.apps.labs.lab import Lab, LabResult
from weft.apps.labs.trials import run_trials
from weft.apps.labs.verdicts import Verdict, judge, within
from weft.evaluation.statistics import Estimate, number, slope, t_interval
from weft.pictures.charts import Chart, Row, Series, Table

if TYPE_CHECKING:
    from torch import Tensor

LAB = Lab(
    name="distance",
    claim="Words n apart are O(n) steps apart in a recurrence and O(1) in attention, which costs O(n²)",
    paper="Vaswani et al. 2017, table 1: per layer, self-attention has a path of O(1) and takes O(n²·d) operations, a "
    "recurrence has a path of O(n), takes O(n·d²) and computes O(n) steps one after the other.",
    trains="Nothing: one recurrent and one attention layer of width 32 are run on 16 to 1,024 random vectors.",
    seconds=15,
    next=(
        "Where is attention cheaper? Below n = d: compare weft.labs.distance(width=256) with this.",
        "What a long path does to gradients: weft lab gradients",
    ),
)
LENGTHS = (16, 32, 64, 128, 256, 512, 1024)
LAYERS = ("recurrent", "attention")
COUNTS = {
    "path": "shortest path (operations)",
    "depth": "longest path (operations)",
    "flops": "work (multiply-adds)",
    "memory": "kept for the backward pass (bytes)",
    "seconds": "time, forward and backward (s)",
}


class Condition(NamedTuple):
    layer: str
    length: int
    width: int


def run_layer(layer: str, inputs: list[Tensor]) -> list[Tensor]:
    """The outputs of a layer for inputs of shape (1, width), one for each position."""
    import torch

    from weft.attention.normalizers import softmax
    from weft.attention.scores import make_score
    from weft.models.recurrent import RNN

    width = inputs[0].shape[-1]
    if layer == "recurrent":
        input_map, state_map = torch.nn.Linear(width, width), torch.nn.Linear(width, width, bias=False)
        states = [torch.zeros(1, width)]
        for vector in inputs:
            states += RNN.step(input_map(vector), state_map(states[-1]), (states[-1],))
        return states[1:]
    states_BSD = torch.stack(inputs, 1)
    score = make_score("scaled_dot", queries=width, keys=width, size=width)
    return list((softmax(score(states_BSD, states_BSD)) @ states_BSD).unbind(1))


def trial(condition: Condition, seed: int) -> dict[str, Any]:
    """Count operations and bytes of a layer, and measure its time."""
    import torch
    from torch.autograd.graph import saved_tensors_hooks
    from torch.utils.flop_counter import FlopCounterMode

    torch.manual_seed(seed)
    inputs = [torch.randn(1, condition.width, requires_grad=True) for _ in range(condition.length)]
    saved: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        saved[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with FlopCounterMode(display=False) as counter, saved_tensors_hooks(keep, lambda tensor: tensor):
        outputs = run_layer(condition.layer, inputs)
    path, depth = count_operations(outputs[-1], inputs[0])
    flops, memory = counter.get_total_flops() // 2, sum(saved.values())
    seconds = min(repeat(lambda: torch.stack(run_layer(condition.layer, inputs)).sum().backward(), number=1))
    return {"path": path, "depth": depth, "flops": flops, "memory": memory, "seconds": seconds}


def distance(
    seeds: int | Sequence[int] = 3,
    *,
    quick: bool = False,
    lengths: Sequence[int] = LENGTHS,
    width: int = 32,
    layers: tuple[str, str] = LAYERS,
) -> LabResult:
    """Run the lab. ``layers``: those that the claim calls recurrent and attention."""
    lengths = lengths[:-2] if quick else lengths
    by_role = {role: [Condition(name, n, width) for n in lengths] for role, name in zip(LAYERS, layers, strict=True)}
    conditions = dict.fromkeys(condition for chosen in by_role.values() for condition in chosen)
    trials = run_trials(trial, [*conditions], seeds, unit="trials")
    slopes = {
        (role, count): t_interval([slope(lengths, curve, log=True) for curve in trials.curves(chosen, count)])
        for role, chosen in by_role.items()
        for count in COUNTS
    }
    rows: list[Row] = [(COUNTS[count], *(slopes[role, count] for role in LAYERS)) for count in COUNTS]
    header = ("exponent of n in", *LAYERS)
    tables = (Table(header, rows[:-1], "Counted"), Table(header, rows[-1:], "Measured, on this machine", varies=True))
    titles = {
        "path": "From the first word to the last: n to the power {} in a recurrence, {} in attention",
        "flops": "Operations of a layer: n to the power {} in a recurrence, {} in attention",
        "seconds": "Time of a layer, on this machine: n to the power {} in a recurrence, {} in attention",
    }
    charts = []
    for count, title in titles.items():
        points = [tuple((c.length, trials.estimate(c, count)) for c in chosen) for chosen in by_role.values()]
        finding = title.format(*(number(slopes[role, count].mean) for role in LAYERS))
        labels = (finding, "sequence length n (tokens)", COUNTS[count], tuple(map(Series, LAYERS, points)))
        charts.append(Chart(count, *labels, log_x=True, log_y=True, varies=count == "seconds"))
    notes = ("Seconds differ from run to run and are left out of the JSON; the other numbers are counted.",)
    data = [{name: value for name, value in record.items() if name != "seconds"} for record in trials.records()]
    return LabResult(LAB, judge_slopes(slopes), tables, tuple(charts), notes, trials.seeds, data, quick)


def judge_slopes(slopes: Mapping[tuple[str, str], Estimate]) -> Verdict:
    """From the exponents of n, by layer and count."""
    predictions = [("path", (1, 0)), ("depth", (1, 0)), ("flops", (1, 2))]
    checks = [
        within(f"exponent of n, {layer}: {COUNTS[count]}", slopes[layer, count], power - 0.1, power + 0.1)
        for count, powers in predictions
        for layer, power in zip(LAYERS, powers, strict=True)
    ]
    texts = [slopes[layer, count].text() for count in ("path", "flops") for layer in LAYERS]
    sentence = "In recurrence and attention, the path grows as n to the power {} and {}, the work as {} and {}."
    return judge(checks, sentence.format(*texts))
