"""Input feeding with its gradient written out gives what the decoder gives step by step."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from weft.attention import Attention
from weft.attention.scores import make_score
from weft.kernels.cpu.input_feeding import Weights, feed_inputs
from weft.models.bridge import Copy
from weft.models.encoders import Encoded
from weft.models.interface import HiddenStates
from weft.models.recurrent import RecurrentStack
from weft.models.recurrent_decoder import RecurrentDecoder
from weft.ragged import Ragged

EMBEDDING, SIZE, STATE = 3, 7, 5
SOURCES, TARGETS = [4, 1, 6, 3], [3, 7, 1, 5]


def decoder(score: str, dropout: float = 0.0) -> RecurrentDecoder:
    torch.manual_seed(3)
    stack = RecurrentStack("lstm", inputs=EMBEDDING + SIZE, hidden=STATE, layers=1)
    attention = Attention(make_score(score, queries=STATE, keys=STATE, size=2))
    return RecurrentDecoder(
        stack,
        Copy(),
        embedding=EMBEDDING,
        size=SIZE,
        attention=attention,
        context=STATE,
        input_feeding=True,
        dropout=dropout,
    ).double()


def ragged(lengths: list[int], width: int) -> Ragged:
    values = torch.randn(sum(lengths), width, dtype=torch.float64, requires_grad=True)
    return Ragged(values, Ragged.of([[0] * length for length in lengths]).layout)


def run(made: RecurrentDecoder, way: str, *, return_attention: bool = False) -> tuple[HiddenStates, list[Tensor]]:
    """What a decoder says one way or the other, and everything that gets a gradient."""
    torch.manual_seed(4)
    source, embedded = ragged(SOURCES, STATE), ragged(TARGETS, EMBEDDING)
    initial = [torch.randn(len(TARGETS), STATE, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    encoded = Encoded(source, ((initial[0], initial[1]),))
    assert made._feeds_quickly(embedded)
    if way == "slow":
        made._feeds_quickly = lambda embedded: False  # type: ignore[method-assign]
    hidden = made(embedded, encoded, return_attention=return_attention)
    return hidden, [source.values, embedded.values, *initial, *made.parameters()]


@pytest.mark.parametrize("score", ["dot", "general", "scaled_general", "parameter_free"])
def test_states_and_gradients_are_those_of_step_by_step(score: str) -> None:
    grads = []
    for way in ("quick", "slow"):
        decoded, given = run(decoder(score), way)
        values = decoded.states.values
        shares = torch.linspace(-1, 2, values.numel(), dtype=torch.float64).view(values.shape)
        grads.append((values, torch.autograd.grad((values * shares).sum(), given)))
    torch.testing.assert_close(grads[0], grads[1])


def test_weights_are_those_of_step_by_step() -> None:
    with torch.no_grad():
        quick, slow = (
            run(decoder("general"), way, return_attention=True)[0].attention[0].weights_BHTS[:, 0]
            for way in ("quick", "slow")
        )
    for row, length in enumerate(TARGETS):
        torch.testing.assert_close(quick[row, :length], slow[row, :length])


def test_what_dropout_takes_gets_no_gradient_and_is_not_fed() -> None:
    made = decoder("general", dropout=0.5).train()
    decoded, _ = run(made, "quick")
    values = decoded.states.values
    assert 0.2 < (values == 0).double().mean() < 0.8
    dropped = (values * (values.detach() == 0)).sum()
    assert made.readout is not None
    [found] = torch.autograd.grad(dropped, [made.readout.weight])
    assert not found.any()


def test_gradcheck_with_dropout() -> None:
    torch.manual_seed(6)
    made, counts = decoder("general"), [2, 2, 1]
    assert made.readout is not None
    layer = made.stack.weights(0)
    kept_NO = (torch.rand(sum(counts), SIZE, dtype=torch.float64) > 0.5) * 2.0
    bias_BS = torch.zeros(2, 3, dtype=torch.float64)
    bias_BS[1, 2] = float("-inf")

    def outputs(
        of_embedded_NG: Tensor, state_BD: Tensor, memory_BD: Tensor, keys_BSD: Tensor, *weights: Tensor
    ) -> Tensor:
        return feed_inputs(
            of_embedded_NG,
            Weights(*weights),
            state_BD=state_BD,
            memory_BD=memory_BD,
            keys_BSD=keys_BSD,
            values_BSC=keys_BSD * 2,
            bias_BS=bias_BS,
            kept_NO=kept_NO,
            counts=counts,
        ).outputs_NO

    shapes = ((sum(counts), 4 * STATE), (2, STATE), (2, STATE), (2, 3, STATE))
    given = [torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    feed_GO = layer.input_GD[:, EMBEDDING:].detach().requires_grad_()
    weights = (feed_GO, layer.state_GD, made.readout.weight, made.readout.bias)
    torch.autograd.gradcheck(outputs, (*given, *weights), fast_mode=True)


@pytest.mark.parametrize("score", ["scaled_dot", "additive", "cosine"])
def test_other_scores_go_step_by_step(score: str) -> None:
    assert not decoder(score)._feeds_quickly(ragged(TARGETS, EMBEDDING))
