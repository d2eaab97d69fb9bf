"""Probes: measurements of one trained run that lectures show as figures, for any run and any input.

    import weft

    run = weft.load("runs/lm")
    result = weft.probes.repeat(run, "I don't know.", times=200)      # or: weft probe repeat runs/lm "I don't know."
    print(result)                           # table and chart; in a notebook the result shows itself
    result.data                             # all numbers
    result.save("repeat.svg")               # the chart as SVG, PNG or PDF

A lab (`weft.labs`) trains models and judges a claim; a probe trains nothing and judges nothing.

    repeat.py    a phrase that is repeated: the probability of each token
    nonsense.py  sources that mean nothing: log p of the outputs beside those of real sources
    bias.py      sources without a gender: how often outputs state one
    states.py    number, gender, tense and negation: which layers know them, and for how long
    coreference.py    *it* and the noun that it stands for: which head of the encoder links them
    layer_states.py    the states of each layer, and linear probes
    table.py     a search in a table of given probabilities, without a model: trace_table("pie")
    toml_files.py    tables and templates, shipped or a user's own
    result.py    what the probes return
"""

from __future__ import annotations

from weft.apps.probes.bias import bias
from weft.apps.probes.coreference import coreference
from weft.apps.probes.nonsense import nonsense
from weft.apps.probes.repeat import repeat
from weft.apps.probes.result import ProbeResult
from weft.apps.probes.states import states
from weft.apps.probes.table import trace_table

__all__ = ["ProbeResult", "bias", "coreference", "nonsense", "repeat", "states", "trace_table"]
