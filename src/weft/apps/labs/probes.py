"""Linear probes: whether a property of a text can be read from a state of a model by a linear function.

    w = argmin_w Σ_i (wᵀ x_i − y_i)² + λ ‖w‖²       x: a state and a 1, standardized; y: ±1;   predicted: sign(wᵀ x)

A probe is fitted to one half of the texts and tested on the other. What it cannot tell, another function might; what it
can tell is there, though the model need not use it (Alain & Bengio 2017; Belinkov 2022).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from weft.translation.translator import Translator

RIDGE = 1.0
"""λ, for inputs of variance 1."""


def source_states(run: Translator, sources: Sequence[str]) -> list[Tensor]:
    """The states of the encoder for each source, one per token; the last is that of the end."""
    import torch

    from weft.ragged import Ragged
    from weft.text.specials import END

    model: Any = run.model
    rows = Ragged.of([[*ids, END] for ids in run.tokenizers.source.encode_batch(sources)])
    with torch.no_grad():
        states: list[Tensor] = model.encoder(model.source_embedding.ragged(rows)).states.split()
    return states


def linear_probe(states: Sequence[Tensor], labels: Sequence[int]) -> float:
    """The percentage of the second half whose label, 0 or 1, a probe fitted to the first half tells."""
    import torch

    inputs_ND = torch.stack(list(states)).double()
    targets_N = torch.tensor([2.0 * label - 1 for label in labels], dtype=torch.float64)
    half = len(labels) // 2
    mean_D, spread_D = inputs_ND[:half].mean(0), inputs_ND[:half].std(0).clamp(min=1e-6)
    inputs_ND = torch.cat([(inputs_ND - mean_D) / spread_D, torch.ones(len(labels), 1, dtype=torch.float64)], 1)
    fitted_ND = inputs_ND[:half]
    gram_DD = fitted_ND.T @ fitted_ND + RIDGE * torch.eye(inputs_ND.shape[1], dtype=torch.float64)
    weights_D = torch.linalg.solve(gram_DD, fitted_ND.T @ targets_N[:half])
    right_N = (inputs_ND[half:] @ weights_D).sign() == targets_N[half:]
    return 100 * right_N.double().mean().item()
