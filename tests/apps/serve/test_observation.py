"""Events of the steps of a search: the probability of all tokens that are not listed."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from weft.apps.serve.observation import StreamObserver
from weft.search.paths import PathCandidates, PathRecord


def draws(probabilities: list[float], vocabulary: int) -> list[Any]:
    """What is sent of a step of greedy search with these candidates."""
    events: list[dict[str, Any]] = []
    observer = StreamObserver(lambda _, data: events.append(data), lambda: False, str, end=2, vocabulary=vocabulary)
    listed_BKC = torch.tensor([[probabilities]])
    candidates = PathCandidates(
        tokens_BKC=torch.arange(len(probabilities))[None, None],
        probabilities_BKC=listed_BKC,
        log_probs_BKC=listed_BKC.log(),
        kept_BKC=torch.ones_like(listed_BKC, dtype=torch.bool),
        mass_BK=listed_BKC.sum(-1),
        count_BK=torch.tensor([[len(probabilities)]]),
    )
    record = PathRecord(
        tokens_BK=torch.tensor([[0]]),
        log_probs_BK=candidates.log_probs_BKC[..., 0],
        active_BK=torch.tensor([[True]]),
        scores_BK=None,
        attention_BKS=None,
        candidates=candidates,
    )
    observer.on_step([0], record)
    return [data["draws"] for data in events]


def test_the_rest_of_the_vocabulary() -> None:
    [[draw]] = draws([0.5, 0.25], 11)
    assert draw["tokens"] == ["0", "1"] and draw["chosen"] == 0
    assert draw["rest"] == {"count": 9, "probability": pytest.approx(0.25)}


def test_the_rest_is_never_negative() -> None:
    """By rounding, the listed probabilities may sum to more than one."""
    [[draw]] = draws([0.75, 0.2501], 2)
    assert draw["rest"] == {"count": 0, "probability": 0.0}
