"""The state between two steps: inputs, histories, and the sentences that are left."""

from __future__ import annotations

import torch

from fixtures.search_requests import request
from weft.search.constraints import NoRepeatNgrams
from weft.search.interface import NO_TOKEN
from weft.search.loop import SearchInputs, SearchState, history_window

MEMORY = (torch.arange(6).view(3, 2), None)


def start() -> SearchState:
    given = request(
        MEMORY, [4, 7, 5], min_lengths=[0, 2, 0], prefixes=[[], [5, 6], [7]], constraints=(NoRepeatNgrams(2),)
    )
    return SearchState.start(given, torch.arange(6), rows=2)


def test_before_the_first_token() -> None:
    state = start()
    assert state.tokens_R.tolist() == [1] * 6 and state.length_1.tolist() == [0]
    assert state.memory is state.inputs.memory and state.limits is state.inputs.limits
    assert state.limits.max_lengths_B.tolist() == [4, 7, 5]
    assert state.limits.prefixes_BP is not None
    assert state.limits.prefixes_BP.tolist() == [[NO_TOKEN] * 3, [5, 6, NO_TOKEN], [7, NO_TOKEN, NO_TOKEN]]
    assert state.history_RW is not None and state.history_RW.shape == (6, 7)


def test_the_history_follows_the_parents() -> None:
    state = start().advance(torch.arange(6), None, torch.tensor([3, 4, 5, 6, 7, 8]))
    state = state.advance(torch.arange(6), torch.tensor([1, 1, 2, 3, 5, 4]), torch.tensor([9] * 6))
    assert state.history_RW is not None and state.history_RW[:, -2].tolist() == [4, 4, 5, 6, 8, 7]
    assert state.history_RW[:, -1].tolist() == [9] * 6 and state.length_1.tolist() == [2]
    assert state.model_state.tolist() == [1, 1, 2, 3, 5, 4]


def test_sentences_are_kept_with_all_they_have() -> None:
    state = start().keep_sentences(torch.tensor([2, 0]))
    assert state.sentences_B.tolist() == [2, 0] and state.model_state.tolist() == [4, 5, 0, 1]
    assert state.memory[0].tolist() == [[4, 5], [0, 1]] and state.memory[1] is None
    assert state.limits.max_lengths_B.tolist() == [5, 4]


def test_inputs_have_what_a_search_needs() -> None:
    given = request(MEMORY, [4, 7, 5], source_lengths=[2, 1, 2])
    inputs = SearchInputs.of(given)
    assert inputs.rng_keys_B is None and inputs.source_lengths_B is None and inputs.limits.min_lengths_B is None
    inputs = SearchInputs.of(given, draws=True, covers=True)
    assert inputs.rng_keys_B is not None and inputs.rng_keys_B.tolist() == [0, 1, 2]
    assert inputs.source_lengths_B is not None and inputs.source_lengths_B.tolist() == [2, 1, 2]
    assert history_window(given) == 0
