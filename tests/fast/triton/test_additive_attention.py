"""Additive attention of a search step in one kernel, against the plain attention."""

from __future__ import annotations

import pytest
import torch

from weft.attention.attention import Attention, AttentionParts, ProjectedKeys
from weft.attention.normalizers import sparsemax
from weft.attention.scores import Additive, Concat, ScoreOptions
from weft.fast.steps.additive_attention import MAX_QUERIES, few_queries, is_few_queries
from weft.ragged import Ragged
from weft.runtime.replaceable import plain_of

WIDTH, KEYS, SIZE = 24, 40, 72


def attention_of(score: str, parts: AttentionParts = AttentionParts()) -> Attention:
    torch.manual_seed(4)
    options = ScoreOptions(query_width=WIDTH, key_width=KEYS, size=SIZE, temperature=1.0)
    return Attention((Additive if score == "additive" else Concat)(options), parts).eval()


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("queries", [1, 5])
@pytest.mark.parametrize("score", ["additive", "concat"])
@torch.no_grad()
def test_equals_the_equation(score: str, queries: int, dtype: torch.dtype) -> None:
    """Sources of unequal length, up to one of 37 states: no power of 2, as the other sizes."""
    attention = attention_of(score).to("cuda")
    states = torch.randn(37 + 5 + 1, KEYS, device="cuda")
    keys = attention.project(Ragged(states, Ragged.of([[0] * 37, [0] * 5, [0]], "cuda").layout))
    queries_BTD = 3 * torch.randn(3, queries, WIDTH, device="cuda")
    context_BTD, weights_BTS = plain_of(Attention.forward)(attention, queries_BTD, keys)
    halved = attention.to(dtype)
    of_type = ProjectedKeys(keys.keys_BSD.to(dtype), keys.values_BSD.to(dtype), keys.mask_BS.to(dtype))
    assert is_few_queries(halved, queries_BTD.to(dtype), of_type)
    found = few_queries(halved, queries_BTD.to(dtype), of_type)
    tolerance = 1e-4 if dtype == torch.float32 else 3e-2
    torch.testing.assert_close(found[0].float(), context_BTD, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(found[1].float(), weights_BTS, rtol=tolerance, atol=tolerance)


@torch.no_grad()
def test_when_the_kernel_is_not_used() -> None:
    keys = attention_of("additive").project(Ragged(torch.randn(4, KEYS), Ragged.of([[0] * 3, [0]]).layout))
    queries_BTD = torch.randn(2, 3, WIDTH)
    assert not is_few_queries(attention_of("additive"), queries_BTD, keys), "on a CPU"


@pytest.mark.gpu
@torch.no_grad()
def test_what_has_no_kernel_on_a_gpu() -> None:
    attention = attention_of("additive").to("cuda")
    keys = attention.project(Ragged(torch.randn(4, KEYS).cuda(), Ragged.of([[0] * 3, [0]], "cuda").layout))
    queries_BTD = torch.randn(2, 3, WIDTH, device="cuda")
    assert is_few_queries(attention, queries_BTD, keys)
    assert not is_few_queries(attention, queries_BTD.repeat(1, MAX_QUERIES, 1), keys)
    assert not is_few_queries(attention_of("additive", AttentionParts(normalize=sparsemax)), queries_BTD, keys)
    with torch.enable_grad():
        assert not is_few_queries(attention, queries_BTD, keys)
