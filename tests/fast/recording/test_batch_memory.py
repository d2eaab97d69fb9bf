"""What a batch of recorded steps takes, and the sizes of batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from weft.fast.recording.batch_memory import capacities, is_fused, is_gpu, is_on_gpu, recorded_batch, recorded_bytes
from weft.fast.recording.buffer_sizes import padded_count
from weft.recipe import SearchSettings
from weft.text.id_rows import IdRows
from weft.translation.engines.batch_sizes import StepSize, fitting_batch, memory_slices, sentence_bytes
from weft.translation.engines.interface import TranslationRequest

GPU = torch.device("cuda")
SIZE = StepSize(vocabulary=1000, state=400, growth=300, logits=2000, memory=16 * 700, source_length=9)


def request(lengths: list[int], *, attention: bool = False, n_best: int = 1, **settings: Any) -> TranslationRequest:
    sources = IdRows.of([[5] * length for length in lengths])
    values = SearchSettings(**{"size": 4, **settings})
    return TranslationRequest(sources=sources, settings=values, return_attention=attention, n_best=n_best)


def test_the_bytes_of_a_sentence() -> None:
    """4 S m + K (17/8 (s + g T) + v + 4 s + 2000 + 200 T), S and T rounded up."""
    found = recorded_bytes(request([3, 17, 40]), SIZE, np.array([20, 90, 20]), GPU)
    of_state = {
        tokens: 17 * (400 + 300 * tokens) // 8 + 2000 + 4 * 400 + 2000 + 200 * tokens for tokens in (16, 32, 64)
    }
    assert found.tolist() == [
        4 * 16 * 700 + 4 * of_state[16],
        4 * 32 * 700 + 4 * of_state[64],
        4 * 48 * 700 + 4 * of_state[32],
    ]


def test_what_is_not_fused_takes_more() -> None:
    lengths, limits = [3, 17], np.array([20, 20])
    fused = recorded_bytes(request(lengths), SIZE, limits, GPU)
    for other in (request(lengths, n_best=2), request(lengths, banned=["a"]), request(lengths, attention=True)):
        assert (recorded_bytes(other, SIZE, limits, GPU) > fused).all()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, True), ({"kind": "greedy"}, True), ({"no_loops": True}, True), ({"size": 11}, False),
        ({"groups": 2}, False), ({"kind": "sample"}, False), ({"no_repeat_ngram": 3}, False),
        ({"required": ["a"]}, False), ({"banned_ids": [[4]]}, False), ({"coverage_penalty": 0.2}, False),
    ],
)  # fmt: skip
def test_steps_that_are_fused(changes: dict[str, Any], expected: bool) -> None:
    assert is_fused(request([3], **changes)) == expected


def test_capacities() -> None:
    assert capacities(np.array([0, 1, 16, 17, 32, 33, 64, 65])).tolist() == [16, 16, 16, 32, 32, 64, 64, 128]


def test_batches_are_of_sizes_that_buffers_have() -> None:
    """As large as possible, and never larger than what fits."""
    sizes = [recorded_batch(most, GPU) for most in range(1, 5000)]
    assert all(padded_count(size) == size <= most for most, size in enumerate(sizes, start=1))
    assert all(padded_count(most) != most or size == most for most, size in enumerate(sizes, start=1))


def test_on_a_cpu_the_plain_functions_are_used() -> None:
    given = request([3, 4])
    assert is_on_gpu(given, SIZE, np.array([9, 9]), GPU) and not is_on_gpu(given, SIZE, np.array([9, 9]), "cpu")
    assert is_gpu(5, GPU) and not is_gpu(5, "cpu") and fitting_batch(5, "cpu") == 5
    slices = memory_slices(
        given, SIZE, max_lengths=[9, 9], limit=int(sentence_bytes(given, SIZE, np.array([9]), "cpu")[0])
    )
    assert slices == [slice(1, 2), slice(0, 1)]
