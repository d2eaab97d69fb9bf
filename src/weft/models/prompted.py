"""A language model behind a prompt: source and target as one text, of which only the target is learned.

    inputs of a row:   <s> x_1 … x_m y_1 … y_{n−1}
    states returned:   those after x_m, y_1, …, y_{n−1}: what y_1 … y_n are predicted from

So the loss is of the answer alone, and what the model reads is what it reads when it goes on from a prompt.
"""

from __future__ import annotations

import torch
from torch import Tensor

from weft.ragged import Layout, Ragged


def behind(source: Ragged, inputs: Ragged) -> tuple[Ragged, Tensor]:
    """Each row's source put behind the first of its inputs, and the places (N,) of the states of the inputs."""
    prompts, rest = source.layout, inputs.layout
    layout = Layout(source.lengths + inputs.lengths, inputs.device)
    begins = layout.starts.to(torch.int64)
    places_N = begins[rest.row] + prompts.counts[rest.row] + rest.time
    values = inputs.values.new_empty(layout.total)
    values[begins[prompts.row] + 1 + prompts.time] = source.values
    values[torch.where(rest.time == 0, begins[rest.row], places_N)] = inputs.values
    return Ragged(values, layout), places_N
