"""Labs: experiments that each state a claim about sequence models, measure it, draw it and say whether it held.

    import weft

    result = weft.labs.scaling()            # or from the command line: weft lab scaling
    print(result)                           # tables, chart, verdict; in a notebook the result shows itself
    result.verdict.outcome                  # "held", "did not hold" or "inconclusive"
    result.save("labs")                     # JSON, HTML, SVG and PNG

`weft.labs.history()` is the longest of them: six models of ten years on one page (weft history).

One file a lab: its docstring explains it, `LAB` says what it claims, and the function of its name runs it. What they
share: `lab` (a lab and its result), `registration` (what it tests, fixed beforehand), `trials` (conditions × seeds in
worker processes), `training`, `intervals`, `verdicts`, and `text` and `page`, which show a result. To add a lab, write
its file, its section in PREREGISTERED.md, and add its line here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from weft.apps.labs.alignment import alignment
from weft.apps.labs.between import between
from weft.apps.labs.bias import bias
from weft.apps.labs.bottleneck import bottleneck
from weft.apps.labs.cost import cost
from weft.apps.labs.depth import depth
from weft.apps.labs.distance import distance
from weft.apps.labs.exposure import exposure
from weft.apps.labs.gradients import gradients
from weft.apps.labs.heads import heads
from weft.apps.labs.history import history
from weft.apps.labs.lab import Lab, LabResult
from weft.apps.labs.layers import layers
from weft.apps.labs.lengths import lengths
from weft.apps.labs.lookahead import lookahead
from weft.apps.labs.norms import norms
from weft.apps.labs.order import order
from weft.apps.labs.repetition import repetition
from weft.apps.labs.scaling import scaling
from weft.apps.labs.scores import scores
from weft.apps.labs.search import search
from weft.apps.labs.statistical import statistical
from weft.apps.labs.subwords import subwords
from weft.errors import RecipeError, nearest

__all__ = [
    "LABS",
    "Lab",
    "LabResult",
    "alignment",
    "between",
    "bias",
    "bottleneck",
    "cost",
    "depth",
    "distance",
    "exposure",
    "find_lab",
    "gradients",
    "heads",
    "history",
    "layers",
    "lengths",
    "lookahead",
    "norms",
    "order",
    "repetition",
    "scaling",
    "scores",
    "search",
    "statistical",
    "subwords",
]

LABS: dict[str, Callable[..., LabResult]] = {
    "statistical": statistical,
    "gradients": gradients,
    "bottleneck": bottleneck,
    "scores": scores,
    "alignment": alignment,
    "lookahead": lookahead,
    "layers": layers,
    "depth": depth,
    "exposure": exposure,
    "distance": distance,
    "cost": cost,
    "search": search,
    "repetition": repetition,
    "subwords": subwords,
    "bias": bias,
    "scaling": scaling,
    "order": order,
    "lengths": lengths,
    "norms": norms,
    "between": between,
    "heads": heads,
}
"""The labs in the order of the lectures. Their modules import no PyTorch, so that listing them is quick."""


def find_lab(name: str) -> Lab:
    """The description of a lab."""
    if name not in LABS:
        raise RecipeError(f"{name}: no such lab; {nearest(name, LABS)}")
    lab: Lab = sys.modules[LABS[name].__module__].LAB
    return lab
