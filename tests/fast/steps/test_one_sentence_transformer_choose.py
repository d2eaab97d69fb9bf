"""The steps that a search takes: faster ones find the same outputs as the model's own."""

from __future__ import annotations

import pytest
import torch

from fixtures.search_requests import beam, greedy
from fixtures.search_requests import request as request_for
from fixtures.small_networks import neural
from fixtures.table_model import Table, table
from weft.fast.steps.one_sentence_transformer import find_one_sentence_steps, is_one_sentence_on_cpu, one_sentence_steps
from weft.ragged import Ragged
from weft.runtime.replaceable import plain_only
from weft.search.interface import StepModel
from weft.search.loop import steps_for
from weft.translation.engines.torch import StartedModel


@pytest.mark.parametrize("start", [(), (5, 7)])
@torch.no_grad()
def test_searches_of_one_sentence_find_the_same(start: tuple[int, ...]) -> None:
    network = neural("transformer", vocabulary=11)
    model: StepModel = StartedModel(network, start) if start else network
    memory = network.encode(Ragged.of([[3, 7, 5]]))
    for search in (beam, greedy):
        [found] = search(model, memory, [9])
        with plain_only():
            [expected] = search(model, memory, [9])
        assert found[0].tokens == expected[0].tokens
        assert found[0].token_scores == pytest.approx(expected[0].token_scores, abs=1e-5)


@torch.no_grad()
def test_which_models_have_faster_steps() -> None:
    network, recurrent = neural("transformer", vocabulary=11), neural("feeding", vocabulary=11)
    request = request_for(network.encode(Ragged.of([[3, 7, 5]])), [9])
    one = {"rows": 1, "return_attention": False}
    assert is_one_sentence_on_cpu(network, request, **one)
    assert steps_for(network, request, **one) is not network
    started = steps_for(StartedModel(network, (5,)), request, **one)
    assert isinstance(started, StartedModel) and started.model is not network and started.tokens == (5,)
    with plain_only():
        assert steps_for(network, request, **one) is network
    two = request_for(network.encode(Ragged.of([[3, 7, 5], [4]])), [9, 9])
    assert steps_for(network, two, **one) is network
    assert not is_one_sentence_on_cpu(network, request_for((), [9], device=torch.device("cuda")), **one)
    memory = recurrent.encode(Ragged.of([[3, 7, 5]]))
    assert find_one_sentence_steps(StartedModel(recurrent, (5,)), memory, **one) is None
    own = Table()
    assert one_sentence_steps(own, request_for(table(1, 9, seed=1), [5]), **one) is own
