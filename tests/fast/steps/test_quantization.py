"""Models with eight-bit products: near the original, and equal step by step and for whole targets."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from weft.errors import SearchError
from weft.fast.cpu.int8 import Int8Linear
from weft.fast.steps.quantization import quantize
from weft.models.build import build_model
from weft.packed import pack
from weft.ragged import Ragged
from weft.recipe import ModelSettings
from weft.translation.translator import Translator
from weft.tree import repeat

SOURCES = [[3, 7, 5], [11, 4], [4, 9, 3, 12, 6], [8, 5, 10]]
INPUTS = [[1, 5, 8], [1, 9, 4, 6, 10], [1, 7], [1, 3, 7]]
SOURCE_SIZE, TARGET_SIZE = 13, 11
TRANSFORMER = {"kind": "transformer", "layers": 2, "hidden": 6, "heads": 3, "feed_forward": 7}
CASES: dict[str, dict[str, Any]] = {
    "input feeding": {"decoder": {"kind": "lstm", "hidden": 5, "input_feeding": True}},
    "after": {"decoder": {"kind": "lstm", "hidden": 5, "layers": 2}},
    "additive, gru": {"decoder": {"kind": "gru", "hidden": 5}, "attention": {"score": "additive", "size": 7}},
    "before, gru": {"decoder": {"kind": "gru", "hidden": 5}, "attention": {"placement": "before"}},
    "before, projected": {"decoder": {"hidden": 5}, "attention": {"placement": "before", "project": True}},
    "before, dense": {"decoder": {"hidden": 5, "layers": 3, "connections": "dense"}, "attention": {"project": True}},
    "summary": {"decoder": {"kind": "rnn", "hidden": 5, "feed_summary": True}, "attention": {"score": "none"}},
    "residual, norm": {"decoder": {"hidden": 5, "layers": 2, "connections": "residual", "layer_norm": True}},
    "hard": {"decoder": {"kind": "gru", "hidden": 5, "layers": 2}, "attention": {"hard": "monotonic"}},
    "hard, copying": {"decoder": {"hidden": 5}, "attention": {"hard": "first"}, "copy": True},
    "language model": {"kind": "language_model", "decoder": {"hidden": 5}, "attention": {"score": "none"}},
    "attention over history": {"kind": "language_model", "decoder": {"kind": "gru", "hidden": 5, "layers": 2}},
    "transformer": {"encoder": TRANSFORMER, "decoder": TRANSFORMER},
    "tied": {"encoder": TRANSFORMER, "decoder": TRANSFORMER, "tie": "target"},
    "prefix": {"kind": "prefix_lm", "decoder": TRANSFORMER},
    "ctc": {"kind": "ctc"},
    "ctc, transformer": {"kind": "ctc", "encoder": TRANSFORMER},
}


def model_of(case: str) -> Any:
    settings = {"embedding": 5, "dropout": 0.0, "encoder": {"hidden": 6}, **CASES[case]}
    checked = ModelSettings.model_validate(settings)
    model = build_model(checked, source_size=SOURCE_SIZE, target_size=TARGET_SIZE, seed=11).eval()
    torch.manual_seed(12)
    for name, parameter in model.named_parameters():
        if "bias" in name:
            nn.init.normal_(parameter, std=0.1)
    return model


def sources_of(case: str, rows: list[int]) -> Ragged:
    silent = CASES[case].get("kind") == "language_model"
    return Ragged.of([[] if silent else SOURCES[row] for row in rows])


BOUNDED: dict[str, tuple[bool, bool, bool]] = {  # stack, readout, output
    "input feeding": (True, True, True),
    "after": (True, True, True),
    "additive, gru": (True, True, True),
    "before, gru": (True, True, True),
    "before, projected": (False, False, True),
    "before, dense": (True, False, True),
    "summary": (True, True, True),
    "residual, norm": (False, False, True),
}


@pytest.mark.parametrize("case", BOUNDED)
def test_bounds_are_used_where_they_hold(case: str) -> None:
    decoder, output = (small := quantize(model_of(case))).decoder, small.output
    products = [part for part in decoder.stack.modules() if isinstance(part, Int8Linear)]
    stack, readout, last = BOUNDED[case]
    assert products and all((part.bound is not None) == stack for part in products)
    assert (decoder.readout.bound is not None) == readout
    assert (output.linear.bound is not None) == last


@torch.no_grad()
def test_large_embeddings_and_other_encoders_leave_rows_their_own_scales() -> None:
    model = model_of("input feeding")
    model.target_embedding.weight_VE[3, 2] = -1.5
    assert quantize(model).decoder.stack.layers[0][0].bound == 1.5
    model.target_embedding.weight_VE[3, 2] = -9.0
    small = quantize(model)
    assert small.decoder.stack.layers[0][0].bound is None
    assert small.decoder.readout.bound == small.output.linear.bound == 1.0
    model.encoder = nn.Identity()
    small = quantize(model)
    assert small.decoder.readout.bound is None and small.output.linear.bound == 1.0


@pytest.mark.parametrize("case", CASES)
@torch.no_grad()
def test_a_quantized_model_says_nearly_the_same(case: str) -> None:
    model, inputs = model_of(case), Ragged.of(INPUTS)
    source = sources_of(case, [0, 1, 2, 3])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        small = quantize(model)
        output = small(source, inputs, return_attention=True)
    expected = model(source, inputs, return_attention=True)
    ours_NV, theirs_NV = (one.logits_NV[:, :TARGET_SIZE] for one in (output, expected))  # without ids of sentences
    assert float((ours_NV - theirs_NV).abs().mean()) < 0.05 * float(theirs_NV.std())
    assert len(output.attention) == len(expected.attention)


@pytest.mark.parametrize("case", CASES)
@torch.no_grad()
def test_steps_and_whole_targets_give_the_same(case: str) -> None:
    """Also with two rows a source, as a beam has them."""
    small = quantize(model_of(case))
    output = small(sources_of(case, [0, 2]), Ragged.of([[1, 5, 8], [1, 9, 4]]))
    rows = Ragged.of([[1, 5, 8], [1, 9, 4]]).like(output.logits_NV).split()
    memory = small.encode(sources_of(case, [0, 2]))
    state = repeat(small.start(memory), 2)
    for time in range(3):
        tokens_R = torch.tensor([[1, 5, 8], [1, 9, 4]]).repeat_interleave(2, 0)[:, time]
        logits_RV, state, _ = small.step(tokens_R, state, memory)
        for row, logits_TV in enumerate(rows):
            torch.testing.assert_close(logits_RV[2 * row], logits_TV[time], rtol=0.02, atol=0.02)
            rounding = 1e-6 if case.startswith("hard") else 0.0  # its emissions are not quantized
            torch.testing.assert_close(logits_RV[2 * row], logits_RV[2 * row + 1], rtol=0, atol=rounding)


@pytest.mark.parametrize("kind", ["columns", "grid"])
@torch.no_grad()
def test_pictures(kind: str) -> None:
    settings = {"embedding": 5, "dropout": 0.0, "encoder": {"hidden": 6}, "decoder": {"hidden": 5}}
    checked = ModelSettings.model_validate({**settings, "stem": {"kind": kind, "widths": [3, 4]}})
    model: Any = build_model(checked, source_size=0, target_size=TARGET_SIZE, seed=11).eval()
    random = np.random.default_rng(3)
    pictures = Ragged.of([pack(random.integers(0, 256, (7, width, 1), dtype=np.uint8)).tolist() for width in (5, 11)])
    ours_NV, theirs_NV = (one(pictures, Ragged.of(INPUTS[:2])).logits_NV for one in (quantize(model), model))
    assert float((ours_NV - theirs_NV).abs().mean()) < 0.05 * float(theirs_NV.std())


def test_what_is_not_changed_is_shared_and_the_rest_is_small() -> None:
    model = model_of("input feeding")
    small = quantize(model)
    assert small.source_embedding.weight_VE is model.source_embedding.weight_VE
    assert small.encoder is model.encoder
    assert small.output.weight_VD.numel() == 0
    names = {name for name, _ in small.decoder.named_parameters()}
    assert not any("stack" in name or "readout" in name for name in names)
    assert isinstance(model.decoder.readout, nn.Linear), "the original is unchanged"


def test_only_float32_on_a_cpu() -> None:
    with pytest.raises(SearchError, match=r"quantize: \S+ is float64 on cpu; quantization needs float32 on a CPU"):
        quantize(nn.Linear(3, 5).double())


def test_a_trained_model_translates_as_before(copier: Translator) -> None:
    lines = ["a b c d", "d c", "b", "e a d", "c c e b"]
    model = copy.deepcopy(copier.model).cpu()
    large, small = (Translator(one, copier.tokenizers, copier.recipe) for one in (model, quantize(model)))
    before, after = large.translate(lines), small.translate(lines)
    assert [one.text for one in after] == [one.text for one in before]
    for one, other in zip(after, before, strict=True):
        assert one.log_probability == pytest.approx(other.log_probability, abs=0.1)
    assert [small.translate(line).ids for line in lines] == [one.ids for one in after]
