"""Linear probes: what they tell of made-up states, and the states of an encoder."""

from __future__ import annotations

import pytest
import torch

from weft.apps.labs import short_sentences
from weft.apps.labs.probes import linear_probe, source_states
from weft.apps.labs.training import train_model


def made_up(count: int, signal: float) -> tuple[list[torch.Tensor], list[int]]:
    generator = torch.Generator().manual_seed(3)
    labels = [index % 2 for index in range(count)]
    noise_ND = torch.randn(count, 5, generator=generator)
    noise_ND[:, 2] += signal * torch.tensor(labels)
    return list(noise_ND), labels


def test_what_is_there_is_told() -> None:
    assert linear_probe(*made_up(400, 20.0)) == 100.0


def test_what_is_not_there_is_not() -> None:
    assert 35 < linear_probe(*made_up(400, 0.0)) < 65


def test_against_least_squares() -> None:
    """Far more texts than dimensions: the penalty is negligible, and the solution that of least squares."""
    states, labels = made_up(400, 1.0)
    inputs_ND = torch.stack(states).double()
    fitted_ND = torch.cat([inputs_ND[:200], torch.ones(200, 1)], 1)
    targets_N = torch.tensor(labels).double() * 2 - 1
    weights_D = torch.linalg.lstsq(fitted_ND, targets_N[:200, None]).solution[:, 0]
    right_N = (torch.cat([inputs_ND[200:], torch.ones(200, 1)], 1) @ weights_D).sign() == targets_N[200:]
    assert linear_probe(states, labels) == pytest.approx(100 * right_N.double().mean().item(), abs=1.5)


def test_states_of_an_encoder() -> None:
    layer = {"kind": "gru", "hidden": 8}
    model = {"encoder": layer, "decoder": layer, "attention": {"score": "dot"}}
    run = train_model(short_sentences.settings(model, steps=1), seed=1)
    sources = [pair.source for pair in short_sentences.pairs("test", 2, seed=1)]
    states = source_states(run, sources)
    assert [len(rows) for rows in states] == [len(source.split()) + 1 for source in sources]
    assert states[0].shape[1] == 8
