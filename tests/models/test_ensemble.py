"""Ensembles: the mean by hand, members of every kind together, and stepping that gives what forward gives."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from weft.attention.ragged_attention import alignment_weights
from weft.data.store.token_store import PairStore, TokenStore
from weft.errors import SearchError
from weft.models.build import build_model
from weft.models.ensemble import MEANS, Ensemble
from weft.models.interface import Model
from weft.ragged import Ragged
from weft.recipe import ModelSettings
from weft.translation.forced_decoding import token_log_probabilities
from weft.tree import repeat, select

SOURCES = [[3, 7, 5], [11, 4], [4, 9, 3, 12, 6]]
INPUTS = [[1, 5, 8], [1, 9, 4, 6, 10], [1, 7]]
LONGEST = 17
STACK = {"kind": "transformer", "layers": 2, "hidden": 6, "heads": 3, "feed_forward": 7}
KINDS: dict[str, dict[str, Any]] = {
    "lstm": {"encoder": {"hidden": 8, "kind": "lstm"}, "decoder": {"hidden": 5, "kind": "lstm", "input_feeding": True}},
    "gru": {"encoder": {"hidden": 8, "kind": "gru"}, "decoder": {"hidden": 8}, "attention": {"score": "none"}},
    "transformer": {"encoder": STACK, "decoder": STACK},
    "learned": {"encoder": STACK, "decoder": {**STACK, "positions": "learned", "max_positions": LONGEST}},
    "prefix": {"kind": "prefix_lm", "decoder": STACK},
    "learned prefix": {"kind": "prefix_lm", "decoder": {**STACK, "positions": "learned", "max_positions": LONGEST}},
    "lm": {"kind": "language_model", "decoder": {"hidden": 5}, "attention": {"score": "general"}},
    "lm transformer": {"kind": "language_model", "decoder": STACK},
}
GROUPS = [
    ("lstm",),
    ("lstm", "lstm"),
    ("lstm", "transformer"),
    ("gru", "prefix", "lstm", "transformer"),
    ("gru", "gru"),
    ("lm", "lm transformer"),
]
every_group = pytest.mark.parametrize("kinds", GROUPS, ids=" + ".join)
every_mean = pytest.mark.parametrize("mean", MEANS)


def model_of(kind: str, seed: int = 11, target_size: int = 11, source_size: int = 13) -> Model:
    """In double precision, so that a difference is never rounding, and decided."""
    checked = ModelSettings.model_validate({"embedding": 6, "dropout": 0.0, **KINDS[kind]})
    model = build_model(checked, source_size=source_size, target_size=target_size, seed=seed).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)
    return model


def ensemble_of(kinds: tuple[str, ...], **options: Any) -> Ensemble:
    return Ensemble([model_of(kind, seed) for seed, kind in enumerate(kinds, 5)], **options)


def sources_of(kinds: tuple[str, ...]) -> Ragged:
    return Ragged.of([[] for _ in SOURCES] if "lm" in kinds else SOURCES)


def close(one: Tensor | None, other: Tensor | None) -> None:
    assert (one is None) == (other is None)
    if one is not None:
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


@every_mean
@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("kind", ["lstm", "gru", "transformer", "prefix"])
@torch.no_grad()
def test_one_member_several_times_is_that_model(kind: str, times: int, mean: str) -> None:
    model = model_of(kind)
    ensemble = Ensemble([model] * times, mean=mean)
    source, inputs = Ragged.of(SOURCES), Ragged.of(INPUTS)
    ours, alone = ensemble(source, inputs, return_attention=True), model(source, inputs, return_attention=True)
    close(ours.logits_NV, alone.logits_NV.log_softmax(-1))
    close(*(alignment_weights(output.attention, source.layout) for output in (ours, alone)))


@every_group
@pytest.mark.parametrize("weights", [None, [1.0, 3.0, 0.5, 2.0]], ids=["equal", "unequal"])
@torch.no_grad()
def test_the_mean_by_hand(kinds: tuple[str, ...], weights: list[float] | None) -> None:
    weights = weights and weights[: len(kinds)]
    source, inputs = sources_of(kinds), Ragged.of(INPUTS)
    arithmetic = ensemble_of(kinds, weights=weights)
    outputs = [member(source, inputs, return_attention=True) for member in arithmetic.members]
    portions = weights or [1.0] * len(kinds)
    probabilities = [output.logits_NV.softmax(-1) for output in outputs]
    mean_NV = sum(portion * one for portion, one in zip(portions, probabilities, strict=True)) / sum(portions)
    close(arithmetic(source, inputs).logits_NV.exp(), mean_NV)
    product_NV = math.prod(one**portion for portion, one in zip(portions, probabilities, strict=True))
    product_NV = product_NV ** (1 / sum(portions))
    geometric = ensemble_of(kinds, weights=weights, mean="geometric")
    close(geometric(source, inputs).logits_NV.softmax(-1), product_NV / product_NV.sum(-1, keepdim=True))

    aligned = [
        (portion, alignment_weights(output.attention, source.layout))
        for portion, output in zip(portions, outputs, strict=True)
    ]
    aligned = [(portion, one) for portion, one in aligned if one is not None]
    mean_BTS = alignment_weights(arithmetic(source, inputs, return_attention=True).attention, source.layout)
    close(mean_BTS, sum(p * one for p, one in aligned) / sum(p for p, _ in aligned) if aligned else None)
    assert not arithmetic(source, inputs).attention


@every_group
@every_mean
@torch.no_grad()
def test_stepping_gives_what_forward_gives(kinds: tuple[str, ...], mean: str) -> None:
    ensemble, source, inputs = ensemble_of(kinds, mean=mean, weights=None), sources_of(kinds), Ragged.of(INPUTS)
    whole = ensemble(source, inputs, return_attention=True)
    weights_BTS = alignment_weights(whole.attention, source.layout)
    grid_BTV = inputs.like(whole.logits_NV).to_padded()
    memory = ensemble.encode(source)
    state = ensemble.start(memory)
    tokens_BT = inputs.to_padded()
    for time in range(max(map(len, INPUTS))):
        logits_BV, state, weights_BS = ensemble.step(tokens_BT[:, time], state, memory)
        for row, tokens in enumerate(INPUTS):
            if time < len(tokens):
                close(logits_BV[row], grid_BTV[row, time])
                length = time + 1 if "lm" in kinds else len(SOURCES[row])
                weights = None if weights_BTS is None else weights_BTS[row, time, :length]
                close(None if weights_BS is None else weights_BS[row, :length], weights)


@every_group
@torch.no_grad()
def test_what_a_search_does_to_the_state(kinds: tuple[str, ...]) -> None:
    """Rows may be repeated side by side and reordered within a source, and sources may leave."""
    ensemble = ensemble_of(kinds)
    memory = ensemble.encode(sources_of(kinds))
    first, second, third = torch.tensor([4, 6, 9]), torch.tensor([3, 5, 8, 10, 7, 6]), torch.tensor([7, 3, 4, 9])
    order, keep = torch.tensor([1, 1, 2, 3, 5, 4]), torch.tensor([0, 2])
    _, state, _ = ensemble.step(first, ensemble.start(memory), memory)
    _, state, _ = ensemble.step(second, repeat(state, 2), memory)
    state = select(state, torch.cat([order[:2], order[4:]]))
    logits_RV, _, _ = ensemble.step(third, state, select(memory, keep))

    rows, parents = [0, 0, 2, 2], [1, 1, 5, 4]
    inputs = [
        [int(first[row]), int(second[parent]), int(token)]
        for row, parent, token in zip(rows, parents, third, strict=True)
    ]
    sources = sources_of(kinds).select(torch.tensor(rows))
    if "lm" in kinds:
        sources = Ragged.of([[] for _ in rows])
    targets = Ragged.of(inputs)
    expected_RV = targets.like(ensemble(sources, targets).logits_NV).to_padded()[:, -1]
    close(logits_RV, expected_RV)


def test_scores_need_no_more_than_a_model_does() -> None:
    """`score` and `force` ask a model for the logits of whole targets and normalize them."""
    sources = TokenStore.of(SOURCES)
    targets = TokenStore.of([*row[1:], 2] for row in INPUTS)
    for mean in MEANS:
        ensemble = ensemble_of(("lstm", "transformer"), mean=mean)
        found = token_log_probabilities(ensemble, PairStore(sources, targets), start=(1,))
        for row, scores in enumerate(found):
            memory = ensemble.encode(Ragged.of([SOURCES[row]]))
            state, last = ensemble.start(memory), 1
            for token, score in zip([*INPUTS[row][1:], 2], scores.tolist(), strict=True):
                with torch.no_grad():
                    logits_RV, state, _ = ensemble.step(torch.tensor([last]), state, memory)
                assert score == pytest.approx(float(logits_RV.log_softmax(-1)[0, token]), abs=1e-5)
                last = token


@every_mean
def test_in_single_precision_and_far_apart(mean: str) -> None:
    """Members that rule out what others say: nothing becomes nan, and no probability is lost to underflow."""
    ensemble = Ensemble([model_of("gru"), model_of("gru")], mean=mean)
    logits = [torch.tensor([[0.0, -300.0, -400.0, float("-inf")]]), torch.tensor([[-500.0, -200.0, 0.0, -900.0]])]
    mean_NV = ensemble._mean_logits(logits)
    half = math.log(2)
    if mean == "arithmetic":
        assert mean_NV[0].tolist() == pytest.approx([-half, -200 - half, -half, -900 - half])
    else:
        assert mean_NV[0].tolist() == [-250.0, -250.0, -200.0, float("-inf")]
    low = ensemble._mean_logits([one.bfloat16() for one in logits])
    assert low.dtype == torch.float32


def test_the_room_is_that_of_the_smallest() -> None:
    assert ensemble_of(("lstm", "transformer")).max_target_length(5) is None
    assert ensemble_of(("lstm", "learned")).max_target_length(5) == LONGEST
    assert ensemble_of(("learned", "prefix")).max_target_length(5) == LONGEST
    assert ensemble_of(("learned", "learned prefix")).max_target_length(5) == LONGEST - 5


def test_it_is_a_module() -> None:
    ensemble = ensemble_of(("lstm", "transformer"))
    assert isinstance(ensemble.float(), nn.Module)
    assert not any(module.training for module in ensemble.eval().modules())
    assert all(parameter.dtype == torch.float32 for parameter in ensemble.parameters())
    assert len(list(ensemble.parameters())) == sum(len(list(member.parameters())) for member in ensemble.members)
    assert sum(Ensemble([model_of("gru")] * 3, weights=[1, 1, 5]).weights) == pytest.approx(1.0)


def refusal(*members: Any, **options: Any) -> str:
    with pytest.raises(SearchError) as refused:
        Ensemble(*members, **options)
    return str(refused.value)


def test_what_is_refused() -> None:
    model = model_of("gru")
    assert refusal([]) == "ensemble: it has no members; expected at least one model"
    assert refusal([model], mean="aritmetic") == (
        "ensemble: the mean 'aritmetic' is unknown; did you mean 'arithmetic'?"
    )
    assert refusal([model], weights=[1, 2]) == "ensemble: 1 members but 2 weights; expected one for each"
    assert refusal([model, model], weights=[1, 0]) == "ensemble: the weights are [1, 0]; expected positive numbers"
    assert refusal([model, model_of("lstm", target_size=7)]) == (
        "ensemble: model 2 knows 7 target tokens, model 1 11; train them with the same tokenizer"
    )
    assert refusal([model, model, model_of("lstm", source_size=7)]) == (
        "ensemble: model 3 knows 7 source tokens, model 1 13; train them with the same tokenizer and task"
    )
    for language in ("lm", "lm transformer"):
        assert refusal([model, model_of(language)]) == (
            "ensemble: model 2 knows no source tokens, model 1 13; train them with the same tokenizer and task"
        )
