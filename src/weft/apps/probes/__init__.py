"""Probes: measurements of one trained run that lectures show as figures, for any run and any input.

    import weft

    run = weft.load("runs/lm")
    result = weft.probes.repeat(run, "I don't know.", times=200)      # or: weft probe repeat runs/lm "I don't know."
    print(result)                           # table and chart; in a notebook the result shows itself
    result.data                             # all numbers
    result.save("repeat.svg")               # the chart as SVG, PNG or PDF

A lab (`weft.labs`) trains models and judges a claim; a probe trains nothing and judges nothing. One file a probe;
`result.py` is what all of them return.
"""

from __future__ import annotations

from weft.apps.probes.repeat import repeat
from weft.apps.probes.result import ProbeResult

__all__ = ["ProbeResult", "repeat"]
