"""Stems over ragged pictures against those over padded groups: the same states, and the same gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from weft.models.stems import Stem, make_stem
from weft.packed import pack
from weft.ragged import Ragged
from weft.recipe.stem import StemSettings
from weft.runtime.replaceable import plain_only

KINDS = {
    "grid": ({"kind": "grid", "widths": [16, 32]}, [(13, 17, 1), (5, 3, 1), (1, 1, 1), (2, 29, 1)], np.uint8),
    "columns": (
        {"kind": "columns", "widths": [16, 48], "inputs": 3, "blocks": 2},
        [(13, 17, 3), (5, 3, 3), (1, 1, 3)],
        np.uint8,
    ),
    "no blocks": ({"kind": "columns", "widths": [16, 32, 64], "blocks": 0}, [(24, 60, 1), (24, 41, 1)], np.uint8),
    "frames": ({"kind": "frames", "widths": [16, 32], "inputs": 7}, [(13, 7), (5, 7), (1, 7)], np.float32),
}


def stem_and_source(kind: str, device: str) -> tuple[Stem, Ragged]:
    settings, shapes, dtype = KINDS[kind]
    torch.manual_seed(3)
    stem = make_stem(StemSettings.model_validate(settings), width=12, dropout=0.0)
    for name, parameter in stem.named_parameters():
        if "norm" in name or "bias" in name:
            torch.nn.init.normal_(parameter, std=0.5)
    random = np.random.default_rng(5)
    arrays = [(random.random(shape) * (255 if dtype == np.uint8 else 1)).astype(dtype) for shape in shapes]
    return stem.to(device), Ragged.of([torch.from_numpy(pack(array)) for array in arrays]).to(device)


def results(stem: Stem, source: Ragged) -> list[torch.Tensor]:
    """The lengths and states, and the gradient of each weight."""
    stem.zero_grad()
    states = stem.ragged(source)
    weights_ND = torch.linspace(-1, 1, states.values.numel(), device=states.values.device).view(states.values.shape)
    (states.values.float() * weights_ND).sum().backward()
    gradients = [parameter.grad.float() for parameter in stem.parameters()]  # type: ignore[union-attr]
    return [states.layout.lengths, states.values.detach().float(), *gradients]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("is_half", [False, True], ids=["single", "half"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_states_and_gradients_of_padded_groups(kind: str, is_half: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from weft.fast.layers.ragged_stem import is_on_gpu

    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    stem, source = stem_and_source(kind, "cuda")
    assert is_on_gpu(stem, source)
    with torch.autocast("cuda", torch.bfloat16, enabled=is_half):
        fast = results(stem, source)
    with plain_only():
        plain = results(stem, source)
    assert torch.equal(fast[0], plain[0])
    for ours, theirs in zip(fast[1:], plain[1:], strict=True):
        assert (ours - theirs).norm() <= (5e-2 if is_half else 1e-4) * theirs.norm()


def test_where_it_is_used() -> None:
    """On a GPU, for channels that the kernels can multiply."""
    from weft.fast import VERSIONS

    (version,) = [version for version in VERSIONS if version.plain == "models.stems.Stem.ragged"]
    assert version.device == "cuda"
    assert not version.applies(*stem_and_source("grid", "cpu"))
