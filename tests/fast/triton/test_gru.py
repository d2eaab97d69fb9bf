"""GRU layers over padded batches against the equations, with their gradients."""

from __future__ import annotations

import pytest
import torch

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]


@pytest.mark.parametrize("directions", [1, 2])
def test_equals_the_equations(directions: int) -> None:
    from weft.fast.triton.gru import padded_gru

    torch.manual_seed(1)
    times, batch, size = 5, 3, 7
    shapes = [(times, directions, batch, 3 * size), (directions, 3 * size, size), (directions, 3 * size)]
    shapes.append((directions, batch, size))
    inputs = [torch.randn(shape, device="cuda", requires_grad=True) for shape in shapes]
    probe = torch.randn(times, directions, batch, size, device="cuda")
    results = []
    for exact in (False, True):
        parts = [part.detach().double().requires_grad_() if exact else part for part in inputs]
        if exact:
            input_TKBG, state_KGD, bias_KG, state_KBD = parts
            steps = []
            for input_KBG in input_TKBG:
                product_KBG = torch.einsum("kbd,kgd->kbg", state_KBD, state_KGD) + bias_KG[:, None]
                (r_x, z_x, n_x), (r_u, z_u, n_u) = input_KBG.chunk(3, -1), product_KBG.chunk(3, -1)
                update = (z_x + z_u).sigmoid()
                new = (n_x + (r_x + r_u).sigmoid() * n_u).tanh()
                state_KBD = (1 - update) * new + update * state_KBD
                steps.append(state_KBD)
            output = torch.stack(steps)
        else:
            output = padded_gru(*parts)
        results.append([output, *torch.autograd.grad((output * probe).sum(), parts)])
    for ours, exact_part in zip(*results, strict=True):
        torch.testing.assert_close(ours.double(), exact_part, rtol=1e-4, atol=1e-5)
