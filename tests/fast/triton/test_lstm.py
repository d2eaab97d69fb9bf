"""LSTM layers over padded batches against the equations, with their gradients."""

from __future__ import annotations

import pytest
import torch

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]


@pytest.mark.parametrize("uses_cells", [True, False])
@pytest.mark.parametrize("directions", [1, 2])
def test_equals_the_equations(directions: int, uses_cells: bool) -> None:
    from weft.fast.triton.lstm import padded_lstm

    torch.manual_seed(1)
    times, batch, size = 5, 3, 7
    shapes = [(times, directions, batch, 4 * size), (directions, 4 * size, size), *[(directions, batch, size)] * 2]
    inputs = [torch.randn(shape, device="cuda", requires_grad=True) for shape in shapes]
    probes = [torch.randn(times, directions, batch, size, device="cuda") for _ in range(2)]
    results = []
    for exact in (False, True):
        parts = [part.detach().double().requires_grad_() if exact else part for part in inputs]
        if exact:
            input_TKBG, state_KGD, state_KBD, cell_KBD = parts
            steps = []
            for gates_KBG in input_TKBG:
                summed_KBG = gates_KBG + torch.einsum("kbd,kgd->kbg", state_KBD, state_KGD)
                i, f, g, o = summed_KBG.chunk(4, -1)
                cell_KBD = f.sigmoid() * cell_KBD + i.sigmoid() * g.tanh()
                state_KBD = o.sigmoid() * cell_KBD.tanh()
                steps.append((state_KBD, cell_KBD))
            outputs = tuple(torch.stack(part) for part in zip(*steps, strict=True))
        else:
            outputs = padded_lstm(*parts)
        used = 2 if uses_cells else 1
        total = sum((part * probe).sum() for part, probe in zip(outputs[:used], probes, strict=False))
        assert isinstance(total, torch.Tensor)
        results.append([*outputs, *torch.autograd.grad(total, parts)])
    for ours, exact_part in zip(*results, strict=True):
        torch.testing.assert_close(ours.double(), exact_part, rtol=1e-4, atol=1e-5)
