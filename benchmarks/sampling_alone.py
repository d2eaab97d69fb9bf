"""How often a sampled token depends on the batch: the same rows alone and among 64, in float32 on a CPU.

A token is drawn where the cumulative probability, in the order of ids, exceeds a random number. With the probabilities
p of a row alone and q of the same row in a batch, and their cumulative sums P and Q, the tokens are the same for

    Σ_v max(0, min(P_v, Q_v) − max(P_v−1, Q_v−1))

of all random numbers. Models are untrained, so that probabilities are nearly uniform: the worst case.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from weft.models.build import build_model
from weft.ragged import Ragged
from weft.recipe import load_recipe

ROWS, TOKENS = 64, 10


def difference(alone_NV: Tensor, together_NV: Tensor) -> Tensor:
    """The probability that a random number draws another token, for every row of logits."""
    sums = [logits_NV.double().softmax(-1).cumsum(-1) for logits_NV in (alone_NV, together_NV)]
    (p_NV, q_NV), (before_p_NV, before_q_NV) = sums, [pad(sum_NV[:, :-1], (1, 0)) for sum_NV in sums]
    same_NV = torch.minimum(p_NV, q_NV) - torch.maximum(before_p_NV, before_q_NV)
    return 1 - same_NV.clamp(min=0).sum(-1)


@torch.no_grad()
def main() -> None:
    torch.set_num_threads(1)
    print(f"{'recipe':<24}{'vocabulary':>10}{'largest difference of logits':>32}{'another token':>16}")
    for name in ("grammar-transformer", "grammar"):
        for size in (300, 8_000, 32_000):
            model = build_model(load_recipe(name).model, source_size=size, target_size=size, seed=1).eval()
            random = torch.Generator().manual_seed(1)
            lengths = torch.randint(4, 20, (ROWS,), generator=random).tolist()
            sources = [torch.randint(3, size, (length,), generator=random).tolist() for length in lengths]
            inputs = [torch.randint(3, size, (TOKENS,), generator=random).tolist() for _ in lengths]
            together_NV = model(Ragged.of(sources), Ragged.of(inputs)).logits_NV
            rows = zip(sources, inputs, strict=True)
            alone_NV = torch.cat([model(Ragged.of([source]), Ragged.of([row])).logits_NV for source, row in rows])
            largest = float((together_NV - alone_NV).abs().max())
            print(f"{name:<24}{size:>10,}{largest:>32.1e}{float(difference(alone_NV, together_NV).mean()):>16.1e}")


if __name__ == "__main__":
    main()
