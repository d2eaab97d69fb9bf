"""The kernel for input feeding gives what the decoder gives step by step."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch
from torch import Tensor

from weft.fast.cpu.input_feeding import FeedingWeights, feed_inputs
from weft.fast.layers.recurrent_decoder import is_input_feeding_lstm
from weft.models.interface import Encoded, HiddenStates
from weft.models.recurrent_decoder import RecurrentDecoder
from weft.ragged import Ragged
from weft.recipe import ModelSettings
from weft.runtime.replaceable import plain_only

EMBEDDING, SIZE, STATE = 3, 7, 5
SOURCES, TARGETS = [4, 1, 6, 3], [3, 7, 1, 5]


def decoder(score: str, dropout: float = 0.0) -> RecurrentDecoder:
    torch.manual_seed(3)
    stack = {"kind": "lstm", "hidden": STATE}
    settings = ModelSettings.model_validate(
        {
            "embedding": EMBEDDING,
            "dropout": dropout,
            "bridge": "copy",
            "encoder": {**stack, "bidirectional": False},
            "decoder": {**stack, "input_feeding": True},
            "attention": {"score": score, "size": 2},
        }
    )
    return RecurrentDecoder(settings, size=SIZE).double()


def ragged(lengths: list[int], width: int) -> Ragged:
    values = torch.randn(sum(lengths), width, dtype=torch.float64, requires_grad=True)
    return Ragged(values, Ragged.of([[0] * length for length in lengths]).layout)


def run(module: RecurrentDecoder, way: str, *, return_attention: bool = False) -> tuple[HiddenStates, list[Tensor]]:
    """The output of a decoder with or without the kernel, and everything that gets a gradient."""
    torch.manual_seed(4)
    source, embedded = ragged(SOURCES, STATE), ragged(TARGETS, EMBEDDING)
    initial = [torch.randn(len(TARGETS), STATE, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    encoded = Encoded(source, ((initial[0], initial[1]),))
    assert is_input_feeding_lstm(module, embedded, module.build_memory(encoded), return_attention)
    with plain_only() if way == "slow" else nullcontext():
        hidden = module(embedded, encoded, return_attention=return_attention)
    return hidden, [source.values, embedded.values, *initial, *module.parameters()]


@pytest.mark.parametrize("score", ["dot", "general", "scaled_general", "parameter_free"])
def test_states_and_gradients_are_those_of_step_by_step(score: str) -> None:
    grads = []
    for way in ("fast", "slow"):
        decoded, leaves = run(decoder(score), way)
        values = decoded.states.values
        factors = torch.linspace(-1, 2, values.numel(), dtype=torch.float64).view(values.shape)
        grads.append((values, torch.autograd.grad((values * factors).sum(), leaves)))
    torch.testing.assert_close(grads[0], grads[1])


def test_weights_are_those_of_step_by_step() -> None:
    with torch.no_grad():
        fast, slow = (
            run(decoder("general"), way, return_attention=True)[0].attention[0].weights_BHTS[:, 0]
            for way in ("fast", "slow")
        )
    for row, length in enumerate(TARGETS):
        torch.testing.assert_close(fast[row, :length], slow[row, :length])


def test_what_dropout_takes_gets_no_gradient_and_is_not_fed() -> None:
    module = decoder("general", dropout=0.5).train()
    decoded, _ = run(module, "fast")
    values = decoded.states.values
    assert 0.2 < (values == 0).double().mean() < 0.8
    dropped = (values * (values.detach() == 0)).sum()
    assert module.readout is not None
    [gradient] = torch.autograd.grad(dropped, [module.readout.weight])
    assert not gradient.any()


def test_gradcheck_with_dropout() -> None:
    torch.manual_seed(6)
    module, batch_sizes = decoder("general"), [2, 2, 1]
    assert module.readout is not None
    layer = module.stack.weights(0)
    dropout_NO = (torch.rand(sum(batch_sizes), SIZE, dtype=torch.float64) > 0.5) * 2.0
    mask_BS = torch.zeros(2, 3, dtype=torch.float64)
    mask_BS[1, 2] = float("-inf")

    def outputs(input_NG: Tensor, state_BD: Tensor, cell_BD: Tensor, keys_BSD: Tensor, *weights: Tensor) -> Tensor:
        return feed_inputs(
            input_NG,
            FeedingWeights(*weights),
            state_BD=state_BD,
            cell_BD=cell_BD,
            keys_BSD=keys_BSD,
            values_BSC=keys_BSD * 2,
            mask_BS=mask_BS,
            dropout_NO=dropout_NO,
            batch_sizes=batch_sizes,
        ).states_NO

    shapes = ((sum(batch_sizes), 4 * STATE), (2, STATE), (2, STATE), (2, 3, STATE))
    leaves = [torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    feed_GO = layer.input_GD[:, EMBEDDING:].detach().requires_grad_()
    weights = (feed_GO, layer.state_GD, module.readout.weight, module.readout.bias)
    torch.autograd.gradcheck(outputs, (*leaves, *weights), fast_mode=True)


@pytest.mark.parametrize("score", ["scaled_dot", "additive", "cosine"])
def test_other_scores_go_step_by_step(score: str) -> None:
    module, source = decoder(score), ragged(SOURCES, STATE)
    memory = module.build_memory(Encoded(source, ((torch.zeros(len(TARGETS), STATE, dtype=torch.float64),) * 2,)))
    assert not is_input_feeding_lstm(module, ragged(TARGETS, EMBEDDING), memory, False)
