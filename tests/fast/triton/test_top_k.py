"""The top-k kernel against the plain path: the same tokens and log-probabilities."""

from __future__ import annotations

import pytest
import torch

from fixtures.search_requests import request
from weft.search.constraints import NoLoops, top_k_constrained
from weft.search.loop import SearchState
from weft.search.repetition import LoopLimits

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]


@pytest.mark.parametrize("vocabulary", [11, 67, 5003])
@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("constraints", [(), (NoLoops(LoopLimits(3, 2, 4)),)], ids=["free", "no loops"])
def test_the_plain_path(vocabulary: int, size: int, constraints: tuple[NoLoops, ...]) -> None:
    generator = torch.Generator().manual_seed(vocabulary + size)
    sentences, length, end, k = 5, 9, 2, 2 * size
    logits_RV = 3 * torch.randn(sentences * size, vocabulary, generator=generator)
    totals_BK = -torch.rand(sentences, size, generator=generator)
    history_RT = torch.randint(0, 2, (length, sentences * size), generator=generator)
    found = []
    for device in (torch.device("cpu"), torch.device("cuda")):
        batch = request((), [20] * sentences, min_lengths=[0, 20, 9, 10, 3], constraints=constraints, device=device)
        state = SearchState.start(batch, (), rows=size)
        for tokens_R in history_RT.to(device):
            state = state.advance((), None, tokens_R)
        # On a GPU the kernel runs, on a CPU the plain path.
        best = top_k_constrained(logits_RV.clone().to(device), totals_BK.to(device), k, state, constraints, end)
        found.append([part.cpu() for part in best])
    (scores_BC, parents_BC, tokens_BC), (gpu_scores_BC, gpu_parents_BC, gpu_tokens_BC) = found
    torch.testing.assert_close(gpu_scores_BC, scores_BC, rtol=1e-5, atol=1e-5)
    finite_BC = ~scores_BC.isneginf()
    assert torch.equal(gpu_tokens_BC[finite_BC], tokens_BC[finite_BC])
    assert torch.equal(gpu_parents_BC[finite_BC], parents_BC[finite_BC])
