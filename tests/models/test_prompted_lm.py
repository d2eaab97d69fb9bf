"""Language models behind prompts: what they make of an answer is what they make of the joined text."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from weft.data.store.token_store import Batch
from weft.models.build import build_model
from weft.models.interface import Model
from weft.models.prompted_lm import prepend_prompts
from weft.ragged import Ragged
from weft.recipe import ModelSettings
from weft.training.loss import batch_loss

VOCABULARY = 13
PROMPTS = [[5, 6, 7], [], [4], [9, 9, 3, 8, 10]]
ANSWERS = [[3, 4, 2], [12, 2], [2], [7, 11, 5, 6, 2]]
BEGIN = 1

RECURRENT: dict[str, Any] = {"decoder": {"hidden": 7, "layers": 2}, "attention": {"score": "none"}}
STACK = {"kind": "transformer", "layers": 2, "hidden": 12, "heads": 2, "feed_forward": 17, "max_positions": 40}
MODELS: dict[str, dict[str, Any]] = {
    "lstm": RECURRENT,
    "gru": {**RECURRENT, "decoder": {"hidden": 7, "kind": "gru"}},
    "attention over the past": {"decoder": {"hidden": 7}, "attention": {"score": "additive", "size": 5}},
    "dot attention over the past": {"decoder": {"hidden": 7}, "attention": {"score": "dot"}},
    **{
        f"{positions} positions": {"decoder": {**STACK, "positions": positions}}
        for positions in ("sinusoidal", "learned", "relative", "rotary", "alibi", "none")
    },
}
every_model = pytest.mark.parametrize("name", MODELS)


def make(name: str) -> Model:
    settings = ModelSettings.model_validate({"kind": "language_model", "embedding": 12, "dropout": 0.0, **MODELS[name]})
    model = build_model(settings, source_size=VOCABULARY, target_size=VOCABULARY, seed=3)
    return model.double().eval()


TOKENS = st.lists(st.integers(3, 9), max_size=4)


@given(st.lists(st.tuples(TOKENS, TOKENS), min_size=1, max_size=5))
def test_behind_against_a_plain_loop(rows: list[tuple[list[int], list[int]]]) -> None:
    source = Ragged.of([prompt for prompt, _ in rows])
    inputs = Ragged.of([[BEGIN, *tokens] for _, tokens in rows])
    whole, indices = prepend_prompts(source, inputs)
    expected, expected_indices = [], []
    for prompt, tokens in rows:
        start = len(expected)
        expected += [BEGIN, *prompt, *tokens]
        expected_indices += [start + len(prompt) + index for index in range(len(tokens) + 1)]
    assert whole.values.tolist() == expected
    assert whole.lengths.tolist() == [1 + len(prompt) + len(tokens) for prompt, tokens in rows]
    assert indices.tolist() == expected_indices


@every_model
def test_states_are_those_of_the_joined_text(name: str) -> None:
    model = make(name)
    source, target = Ragged.of(PROMPTS), Ragged.of(ANSWERS)
    states = model.hidden_states(source, target.shifted(BEGIN)).states.split()
    logits = target.like(model(source, target.shifted(BEGIN)).logits_NV).split()
    for row, (prompt, answer) in enumerate(zip(PROMPTS, ANSWERS, strict=True)):
        joined = Ragged.of([[*prompt, *answer]]).shifted(BEGIN)
        empty = Ragged.of([[]])
        torch.testing.assert_close(states[row], model.hidden_states(empty, joined).states.values[len(prompt) :])
        torch.testing.assert_close(logits[row], model(empty, joined).logits_NV[len(prompt) :])


@every_model
def test_stepping_through_the_prompt_says_the_same(name: str) -> None:
    """What a search does: the prompt is given, then the answer goes on."""
    model = make(name)
    target = Ragged.of(ANSWERS)
    logits = target.like(model(Ragged.of(PROMPTS), target.shifted(BEGIN)).logits_NV).split()
    for row, (prompt, answer) in enumerate(zip(PROMPTS, ANSWERS, strict=True)):
        memory = model.encode(Ragged.of([[]]))
        state = model.start(memory)
        steps = []
        for token in [BEGIN, *prompt, *answer[:-1]]:
            logits_RV, state, _ = model.step(torch.tensor([token]), state, memory)
            steps.append(logits_RV[0])
        torch.testing.assert_close(logits[row], torch.stack(steps[len(prompt) :]))


@every_model
def test_the_loss_is_of_the_answer_alone(name: str) -> None:
    model = make(name)
    loss = batch_loss(model, Batch(Ragged.of(PROMPTS), Ragged.of(ANSWERS)), smoothing=0.1)
    likely = even = 0.0
    for prompt, answer in zip(PROMPTS, ANSWERS, strict=True):
        joined = [*prompt, *answer]
        logits_NV = model(Ragged.of([[]]), Ragged.of([joined]).shifted(BEGIN)).logits_NV.detach()
        for index in range(len(prompt), len(joined)):
            log_V = logits_NV[index].log_softmax(-1)
            likely -= float(log_V[joined[index]])
            even -= float(log_V.mean())
    assert float(loss.negative_log_likelihood) == pytest.approx(likely)
    assert float(loss.smoothed.detach()) == pytest.approx(0.9 * likely + 0.1 * even)


@every_model
def test_gradients_reach_what_only_the_prompt_says(name: str) -> None:
    model = make(name).train()
    only_asked = sorted(set(chain.from_iterable(PROMPTS)) - set(chain.from_iterable(ANSWERS)))
    assert only_asked == [8, 9, 10]
    batch_loss(model, Batch(Ragged.of(PROMPTS), Ragged.of(ANSWERS))).smoothed.backward()
    embedding = model.embedding if hasattr(model, "embedding") else model.target_embedding
    gradient_VE = embedding.weight_VE.grad
    assert gradient_VE is not None
    assert all(float(gradient_VE[token].abs().sum()) > 0 for token in only_asked)


@every_model
def test_no_prompts_are_no_prompts(name: str) -> None:
    model = make(name)
    inputs = Ragged.of(ANSWERS).shifted(BEGIN)
    plain = model(Ragged.of([[] for _ in ANSWERS]), inputs).logits_NV
    beside = model(Ragged.of([[], [], [4], []]), inputs).logits_NV
    rows = inputs.layout.row_ids != 2
    torch.testing.assert_close(plain[rows], beside[rows])
    assert not torch.allclose(plain[~rows], beside[~rows])
