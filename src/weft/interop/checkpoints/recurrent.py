"""The weights of recurrent stacks: their layers, the attention after the step, and the readout.

e_j = qᵀ W k_j   or   vᵀ tanh(W₁ k_j + W₂ q + b)        q, the output of the top layer
ã = tanh(W [c; q] + b)
"""

from __future__ import annotations

from torch import Tensor

from weft.interop.checkpoints.tensors import CheckpointTensors

GATES = {"rnn": 1, "gru": 3, "lstm": 4}


def layer_tensors(
    tensors: CheckpointTensors, pattern: str, *, kind: str, layers: int, widths: tuple[int, int], directions: int = 1
) -> dict[str, Tensor]:
    """All layers, by the names of a `RecurrentStack`.

    ``pattern``: a parameter name with fields ``part``, ``layer`` and ``direction``; ``widths``: input width, and
    total state width of all directions.
    """
    inputs, hidden = widths
    size = hidden // directions
    gates = GATES[kind] * size
    read: dict[str, Tensor] = {}
    for layer in range(layers):
        shapes = {
            "weight_ih": (gates, hidden if layer else inputs),
            "weight_hh": (gates, size),
            "bias_ih": (gates,),
            "bias_hh": (gates,),
        }
        for direction in ("", "_reverse")[:directions]:
            for part, shape in shapes.items():
                name = pattern.format(part=part, layer=layer, direction=direction)
                read[f"layers.{layer}.{part}_l0{direction}"] = tensors.take(name, *shape)
    return read


def with_prefix(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors with a module's prefix before their names."""
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}
