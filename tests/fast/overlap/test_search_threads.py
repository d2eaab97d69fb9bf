"""Shares of a batch on one core each: the results are those of the whole batch."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import torch

from weft.fast.overlap.search_threads import MIN_HYPOTHESES, search_in_threads, shares
from weft.models.build import build_model
from weft.recipe import ModelSettings, SearchSettings
from weft.text.tokenizer import learn
from weft.text.vocabulary import LearningOptions
from weft.translation.engines.interface import TranslationRequest
from weft.translation.engines.torch import TorchEngine

WORDS = learn("word", ["a b c d e f g"], LearningOptions(size=13))


@pytest.fixture(autouse=True)
def two_cores() -> Iterator[None]:
    cores = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(cores)


def test_shares_have_all_rows_and_are_not_too_small() -> None:
    rows = list(range(11))
    assert shares(rows, hypotheses=5, threads=2) == [rows[::2], rows[1::2]]
    assert shares(rows, hypotheses=5, threads=7) == [rows[::3], rows[1::3], rows[2::3]]
    assert shares(rows, hypotheses=1, threads=2) == [rows]
    assert shares([3, 4], hypotheses=99, threads=5) == [[3], [4]], "none is empty"
    assert 3 * MIN_HYPOTHESES <= 11 * 5 < 4 * MIN_HYPOTHESES


def test_parts_are_searched_two_at_a_time_and_come_in_order() -> None:
    together = threading.Barrier(2, timeout=60)

    def search(rows: list[int]) -> tuple[int, int]:
        together.wait()
        return sum(rows), torch.get_num_threads()

    parts = [[1, 2], [3], [4, 5], [6], [7], [8]]
    assert list(search_in_threads(search, parts, threads=2)) == [(rows, (sum(rows), 1)) for rows in parts]
    assert torch.get_num_threads() == 2


def test_a_suspended_search_leaves_its_caller_all_cores() -> None:
    results = search_in_threads(lambda rows: torch.get_num_threads(), [[1], [2], [3]], threads=2)
    assert next(results) == ([1], 1)
    seen = [torch.get_num_threads()]
    thread = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert seen == [2, 2], "of the caller, and of threads that it starts"
    results.close()
    assert torch.get_num_threads() == 2
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("weft-search")]


def test_an_error_ends_the_search() -> None:
    searched = []

    def search(rows: list[int]) -> None:
        searched.append(rows)
        if rows == [1]:
            raise ValueError("of the search")

    with pytest.raises(ValueError, match="of the search"):
        list(search_in_threads(search, ([number] for number in range(100)), threads=2))
    assert len(searched) < 10 and torch.get_num_threads() == 2


@pytest.mark.parametrize("kind", ["transformer", "lstm"])
@pytest.mark.parametrize("settings", [{"kind": "beam", "size": 3}, {"kind": "greedy"}])
def test_the_results_are_those_of_one_thread(kind: str, settings: dict[str, object]) -> None:
    stack = {"kind": kind, "hidden": 16, "layers": 1}
    model = build_model(ModelSettings(embedding=16, encoder=stack, decoder=stack), source_size=13, target_size=13)
    random = torch.Generator().manual_seed(1)
    lengths = torch.randint(1, 9, (41,), generator=random).tolist()
    sources = [[*torch.randint(4, 13, (length,), generator=random).tolist(), 2] for length in lengths]
    request = TranslationRequest(sources=sources, settings=SearchSettings(batch_tokens=120, **settings))
    engine = TorchEngine(model, WORDS)
    assert engine.execution.threads(request) == 2
    found = engine.search(request)
    torch.set_num_threads(1)
    assert engine.execution.threads(request) == 1
    expected = engine.search(request)
    assert [one[0].tokens for one in found] == [one[0].tokens for one in expected]
    assert [one[0].score for one in found] == pytest.approx([one[0].score for one in expected], abs=1e-5)


def test_a_model_of_somebody_else_is_searched_by_one_thread() -> None:
    class Theirs(torch.nn.Linear):
        pass

    request = TranslationRequest(sources=[[4, 2]] * 99, settings=SearchSettings())
    engine = TorchEngine(Theirs(2, 2), WORDS)  # type: ignore[arg-type]
    assert engine.execution.threads(request) == 1


@torch.no_grad()
def test_fewer_sentences_than_cores() -> None:
    """Of which each has hypotheses enough for several."""
    torch.set_num_threads(3)
    settings = ModelSettings.model_validate({"encoder": {"kind": "rnn"}})
    model = build_model(settings, source_size=13, target_size=13)
    search = SearchSettings(size=3 * MIN_HYPOTHESES, max_length=3)
    sources = [[3, 4, 2], [5, 2]]
    for count in (1, 2):
        found = TorchEngine(model, WORDS).search(TranslationRequest(sources=sources[:count], settings=search))
        assert [len(hypotheses) for hypotheses in found] == [1] * count
