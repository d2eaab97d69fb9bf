"""Input feeding over padded targets against the equations, with gradients and the same dropout masks."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
from torch import Tensor

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]
TIMES, BATCH, SIZE, LENGTH, HIDDEN, CONTEXT, FED = 4, 3, 5, 7, 6, 11, 13


class Case(NamedTuple):
    """The inputs of the decoder; those that are trained are leaves."""

    input_TBG: Tensor
    layers: list[Tensor]
    biases: list[Tensor]
    readout: list[Tensor]
    keys_BSA: Tensor
    values_BSC: Tensor
    score: list[Tensor]
    states: list[Tensor]
    cells: list[Tensor]

    def leaves(self) -> list[Tensor]:
        return [leaf for part in self for leaf in (part if isinstance(part, list) else [part])]

    def double(self) -> Case:
        def convert(part: Tensor) -> Tensor:
            return part.detach().double().requires_grad_()

        return Case(*([*map(convert, part)] if isinstance(part, list) else convert(part) for part in self))


def draw(layers: int, additive: bool) -> Case:
    torch.manual_seed(1)

    def values(*shape: int) -> Tensor:
        return (0.5 * torch.randn(shape, device="cuda")).requires_grad_()

    return Case(
        values(TIMES, BATCH, 4 * SIZE),
        [values(4 * SIZE, (SIZE if level else FED) + SIZE) for level in range(layers)],
        [values(4 * SIZE) for _ in range(layers - 1)],
        [values(FED, CONTEXT + SIZE), values(FED)],
        values(BATCH, LENGTH, HIDDEN if additive else SIZE),
        values(BATCH, LENGTH, CONTEXT),
        [values(HIDDEN, SIZE), values(HIDDEN)] if additive else [],
        [values(BATCH, SIZE) for _ in range(layers)],
        [values(BATCH, SIZE) for _ in range(layers)],
    )


def masks(seeds: Tensor | None, probability: float, size: int, which: int) -> Tensor:
    """(T, B, size) the factors of dropout."""
    if seeds is None:
        return torch.ones(TIMES, BATCH, size, device="cuda", dtype=torch.float64)
    import triton.language as tl
    from triton import jit

    from weft.fast.triton.lstm import is_kept

    @jit
    def keep(seeds, kept, count, threshold, block: tl.constexpr):  # type: ignore[no-untyped-def]
        e = tl.arange(0, block)
        tl.store(kept + e, is_kept(seeds, e, threshold).to(tl.float32), mask=e < count)

    kept = torch.empty(TIMES, BATCH, size, device="cuda")
    keep[(1,)](seeds[which], kept, kept.numel(), round(probability * 65_536), block=1024)
    return kept.double() / (1 - probability)


def exact(case: Case, mask_BS: Tensor, dropped: list[Tensor]) -> Tensor:
    """The equations, step by step."""
    states, cells = list(case.states), list(case.cells)
    fed_BO, outputs = torch.zeros(BATCH, FED, device="cuda", dtype=torch.float64), []
    for time in range(TIMES):
        below_BD = fed_BO
        for level, weight_GJ in enumerate(case.layers):
            added = case.biases[level - 1] if level else case.input_TBG[time]
            i, f, g, o = (torch.cat([below_BD, states[level]], 1) @ weight_GJ.t() + added).chunk(4, -1)
            cells[level] = f.sigmoid() * cells[level] + i.sigmoid() * g.tanh()
            below_BD = states[level] = o.sigmoid() * cells[level].tanh()
            if level + 1 < len(case.layers):
                below_BD = below_BD * dropped[level][time]
        if case.score:
            scores_BS = torch.tanh(case.keys_BSA + (below_BD @ case.score[0].t())[:, None]) @ case.score[1]
        else:
            scores_BS = torch.einsum("bsa,ba->bs", case.keys_BSA, below_BD)
        context_BC = torch.einsum("bs,bsc->bc", (scores_BS + mask_BS).softmax(-1), case.values_BSC)
        read_BO = torch.cat([context_BC, below_BD], 1) @ case.readout[0].t() + case.readout[1]
        fed_BO = torch.tanh(read_BO) * dropped[-1][time]
        outputs.append(fed_BO)
    return torch.stack(outputs)


@pytest.mark.parametrize("probability", [0.0, 0.3])
@pytest.mark.parametrize("additive", [True, False])
@pytest.mark.parametrize("layers", [1, 3])
def test_equals_the_equations(layers: int, additive: bool, probability: float) -> None:
    from weft.fast.triton.input_feeding import FeedingSource, FeedingWeights, feed_inputs

    case = draw(layers, additive)
    mask_BS = torch.zeros(BATCH, LENGTH, device="cuda")
    mask_BS[1, 3:] = float("-inf")
    torch.manual_seed(5)
    score = case.score if additive else (None, None)
    outputs_TBO = feed_inputs(
        case.input_TBG,
        FeedingWeights(case.layers, case.biases, *case.readout),
        FeedingSource(case.keys_BSA, case.values_BSC, mask_BS, *score),
        states=case.states,
        cells=case.cells,
        probability=probability,
    )
    torch.manual_seed(5)
    seeds = torch.randint(2**62, (layers, 1), device="cuda") if probability else None
    sizes = [*[SIZE] * (layers - 1), FED]
    dropped = [masks(seeds, probability, size, which) for which, size in enumerate(sizes)]
    double = case.double()
    exact_TBO = exact(double, mask_BS, dropped)
    gradient_TBO = torch.randn_like(outputs_TBO)
    ours = torch.autograd.grad(outputs_TBO, case.leaves(), gradient_TBO)
    expected = torch.autograd.grad(exact_TBO, double.leaves(), gradient_TBO.double())
    torch.testing.assert_close(outputs_TBO.double(), exact_TBO, rtol=1e-4, atol=1e-4)
    for part, exact_part in zip(ours, expected, strict=True):
        torch.testing.assert_close(part.double(), exact_part, rtol=1e-3, atol=1e-4)


def test_one_backward_pass() -> None:
    """It overwrites what it reads, and says so when it is repeated."""
    from weft.fast.triton.input_feeding import FeedingSource, FeedingWeights, feed_inputs

    case = draw(1, False)
    source = FeedingSource(case.keys_BSA, case.values_BSC, torch.zeros(BATCH, LENGTH, device="cuda"), None, None)
    weights = FeedingWeights(case.layers, case.biases, *case.readout)
    outputs_TBO = feed_inputs(case.input_TBG, weights, source, states=case.states, cells=case.cells, probability=0.0)
    outputs_TBO.sum().backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="a second backward pass"):
        outputs_TBO.sum().backward()
