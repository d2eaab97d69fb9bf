"""Steps in a cache of fixed capacity against the plain steps, whose state grows."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from fixtures.transformers import DECODER, SOURCES, make
from weft.fast.steps.fixed_capacity import fixed_capacity
from weft.models.build import build_model
from weft.models.prompted_lm import rectangle
from weft.ragged import Ragged
from weft.recipe import make_recipe
from weft.tree import keep, repeat, select

VARIANTS = {
    "post": ["norm_placement=post"],
    "rotary": ["positions=rotary"],
    "alibi": ["positions=alibi"],
    "relative": ["positions=relative"],
    "learned": ["positions=learned", "max_positions=600"],
    "none": ["positions=none"],
    "shared heads": ["key_value_heads=1"],
    "rms": ["norm=rms", "activation=swiglu"],
}
NORMALIZERS = {"sparsemax": "sparsemax", "entmax": "entmax15"}
SIZES = ["layers=2", "hidden=16", "heads=4", "feed_forward=24"]


def model_of(name: str, kind: str = "seq2seq") -> Any:
    changes = [
        f"model.{side}.{setting}" for side in ("encoder", "decoder") for setting in (*SIZES, *VARIANTS.get(name, ()))
    ]
    changes.append(f"model.kind={kind}")
    changes += [f"model.attention.normalizer={NORMALIZERS[name]}"] if name in NORMALIZERS else []
    kinds = ["model.encoder.kind=transformer", "model.decoder.kind=transformer", "model.embedding=16"]
    return build_model(make_recipe({}, [*kinds, *changes]).model, source_size=11, target_size=13, seed=3).eval()


@pytest.mark.parametrize("return_attention", [False, True])
@pytest.mark.parametrize("name", [*VARIANTS, *NORMALIZERS])
@torch.no_grad()
def test_equal_to_plain_steps(name: str, return_attention: bool) -> None:
    check_steps(model_of(name), [[3, 4, 5], [6], [7, 8]], return_attention=return_attention)


@pytest.mark.parametrize("name", [*VARIANTS, *NORMALIZERS])
@torch.no_grad()
def test_a_prefix_is_attended_to_with_the_history(name: str) -> None:
    check_steps(model_of(name, "prefix_lm"), [[3, 4, 5], [6], [7, 8]], return_attention=True)


@pytest.mark.parametrize("name", ["post", "rotary", "alibi", "learned"])
@torch.no_grad()
def test_language_models(name: str) -> None:
    """After prompts that were read at once."""
    model = model_of(name, "language_model")
    check_steps(model, [[], [], []], return_attention=False, prompts_BT=torch.tensor([[1, 4, 5], [1, 6, 7], [1, 3, 9]]))


def check_steps(
    model: Any, sources: list[list[int]], *, return_attention: bool, prompts_BT: Tensor | None = None
) -> None:
    """Two hypotheses of each of three sources, with rows selected and dropped and the capacity extended."""
    generator = torch.Generator().manual_seed(5)
    memory = model.encode(Ragged.of(sources))
    plain = model.start(memory)
    if prompts_BT is not None:
        for tokens_B in prompts_BT.unbind(1):
            _, plain, _ = model.step(tokens_B, plain, memory)
        read = model.read_prompts(rectangle(prompts_BT), memory)
        torch.testing.assert_close(read, plain, rtol=1e-4, atol=1e-6)
    plain = repeat(plain, 2)
    cached = fixed_capacity(plain, 4, return_attention=return_attention)
    tokens_R = torch.full((6,), 1)
    for time in range(11):
        expected_RV, plain, weights_RS = model.step(tokens_R, plain, memory)
        logits_RV, cached, attention_RS = model.step(tokens_R, cached, memory)
        torch.testing.assert_close(logits_RV, expected_RV, rtol=1e-4, atol=1e-5)
        assert (attention_RS is not None) == (return_attention and bool(sources[0]))
        if attention_RS is not None:
            torch.testing.assert_close(attention_RS, weights_RS, rtol=1e-4, atol=1e-6)
        rows = torch.randint(2, (len(tokens_R),), generator=generator) + torch.arange(len(tokens_R)) // 2 * 2
        plain, cached = select((plain, cached), rows)
        tokens_R = torch.randint(3, 13, (len(tokens_R),), generator=generator)
        if time == 4:  # the second sentence is finished
            plain, cached, tokens_R = keep((plain, cached, tokens_R), torch.tensor([0, 1, 4, 5]))
            memory = select(memory, torch.tensor([0, 2]))
        if time in (3, 7):
            cached = fixed_capacity(cached, time + 1, return_attention=return_attention)


@torch.no_grad()
def test_alignment_heads() -> None:
    """The weights that are returned are those of the chosen heads."""
    _, model = make(decoder={**DECODER, "alignment_heads": [[2, 1], [0, 0], [2, 0]]})
    memory = model.encode(Ragged.of(SOURCES))
    plain = model.start(memory)
    cached = fixed_capacity(plain, 4, return_attention=True)
    for _ in range(3):
        tokens_R = torch.full((len(SOURCES),), 3)
        _, plain, expected_RS = model.step(tokens_R, plain, memory)
        _, cached, attention_RS = model.step(tokens_R, cached, memory)
        torch.testing.assert_close(attention_RS, expected_RS)
