"""The layers as a GPU trains them against the plain ones. Without a GPU every kernel is what it takes the place of."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from fixtures.transformers import DECODER, ENCODER, INPUTS, SOURCES, make
from weft.fast import load_versions
from weft.fast.layers import transformer as fast
from weft.models.transformer import TransformerLayer, TransformerStack
from weft.ragged import Ragged
from weft.runtime.replaceable import plain_only

PLACEMENTS = ["pre", "post"]
on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


def gradients(model: torch.nn.Module, device: str = "cpu") -> list[Tensor]:
    """The logits, and the gradients of all weights."""
    model.zero_grad()
    logits_NV = model(Ragged.of(SOURCES).to(device), Ragged.of(INPUTS).to(device)).logits_NV
    logits_NV.float().log_softmax(-1)[:, 3].sum().backward()
    return [logits_NV.detach(), *(parameter.grad for parameter in model.parameters() if parameter.grad is not None)]


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary", "relative"])
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_equal_to_plain_layers(placement: str, positions: str, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = {"norm_placement": placement, "positions": positions}
    _, model = make(encoder={**ENCODER, **changes}, decoder={**DECODER, **changes})
    expected = gradients(model)
    monkeypatch.setattr(TransformerStack, "forward", fast.forward)
    monkeypatch.setattr(TransformerLayer, "forward", fast.layer_forward)
    torch.testing.assert_close(gradients(model), expected)


def test_which_stacks_have_kernels_for_all_their_layers() -> None:
    wide = {"hidden": 32, "heads": 2}
    assert fast.has_kernels(make(decoder={**DECODER, **wide})[1].decoder.stack)
    for other in ({"positions": "rotary"}, {"activation": "gelu"}, {"attention_dropout": 0.1}, {"hidden": 10}):
        assert not fast.has_kernels(make(decoder={**DECODER, **wide, **other})[1].decoder.stack)


def test_layers_can_be_compiled_whole() -> None:
    """`torch.compile` traces the choice of a version, if all were imported before."""
    _, model = make(decoder={**DECODER, "positions": "rotary"})
    load_versions()
    rows = Ragged.of([[3, 4], [6, 2]])  # of one length: without masks
    expected_NV = model(rows, rows).logits_NV
    model.decoder.stack.layers[0].compile(backend="eager", fullgraph=True)
    torch.testing.assert_close(model(rows, rows).logits_NV, expected_NV)


def test_not_on_a_cpu() -> None:
    stack = make()[1].decoder.stack
    stream_ND = torch.zeros(2, stack.width, dtype=torch.bfloat16)
    positions_N = torch.arange(2)
    assert not fast.applies_to_forward(stack, stream_ND, positions_N, [])
    assert not fast.applies_to_embed(stack, stream_ND.float(), positions_N, 2)
    assert not fast.applies_to_normalize(torch.nn.LayerNorm(stack.width), stream_ND)


@pytest.mark.gpu
@on_gpu
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_equal_to_plain_layers_in_half_precision(placement: str) -> None:
    changes = {"norm_placement": placement, "hidden": 32, "heads": 2}
    _, model = make(encoder={**ENCODER, **changes}, decoder={**DECODER, **changes})
    model = model.float().cuda().train()
    with torch.autocast("cuda", torch.bfloat16):
        ours = gradients(model, "cuda")
        with plain_only():
            theirs = gradients(model, "cuda")
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one.float(), other.float(), rtol=0.1, atol=0.05 * float(other.abs().max() + 1e-3))
