"""The loop that replays captured steps: on a CPU the same step is taken again each time, on a GPU it is replayed."""

from __future__ import annotations

import copy

import pytest
import torch

from fixtures.eager_loop import EagerLoop
from fixtures.search_requests import beam, draw, greedy, greedy_with_terms
from fixtures.small_networks import neural
from fixtures.table_model import BEGIN, END, Table, table
from weft.fast.recording import search as cuda_graphs
from weft.fast.recording.search import CudaGraphLoop, LoopWithCallback
from weft.models.prompted_lm import PromptedLM
from weft.ragged import Ragged
from weft.search.constraints import NoLoops, NoRepeatNgrams
from weft.search.ranking import Ranking
from weft.search.repetition import LoopLimits
from weft.search.sampling import Sampler
from weft.search.sampling_filters import SamplingFilter
from weft.translation.engines.torch import StartedModel
from weft.tree import map_tree


def loop_for(device):
    return (CudaGraphLoop if device == "cuda" else EagerLoop)(torch.device(device))


def some_terms(given):
    """Terms of every other sentence."""
    return [[[[4], [5, 4]], [[3, 5]]] if row % 2 else [] for row in range(len(given[2]))]


WITH_SOURCE = ["after", "feeding", "transformer", "copying", "copying transformer", "prefix lm"]
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
SEARCHES = {
    "beam": lambda *given, **more: beam(*given, size=3, n_best=2, **more),
    "beam with attention": lambda *given, **more: beam(*given, size=3, n_best=3, return_attention=True, **more),
    "covering": lambda *given, **more: beam(*given, size=3, ranking=Ranking(beta=0.3), **more),
    "outranked": lambda *given, **more: beam(*given, size=2, stop="outranked", **more),
    "provable": lambda *given, **more: beam(*given, size=2, stop="provable", **more),
    "diverse": lambda *given, **more: beam(*given, size=4, groups=2, n_best=4, **more),
    "constraints": lambda *given, **more: beam(
        *given, size=3, constraints=(NoLoops(LoopLimits(copies=2, tokens=3)), NoRepeatNgrams(3)), **more
    ),
    "beam with terms": lambda *given, **more: beam(*given, size=3, required=some_terms(given), **more),
    "greedy": lambda *given, **more: greedy(*given, **more),
    "greedy with terms": lambda *given, **more: greedy_with_terms(*given, required=some_terms(given), **more),
    "sample": lambda *given, **more: draw(
        *given, Sampler(SamplingFilter(top_p=0.9), seed=4), n_best=3, return_attention=True, **more
    ),
}


def same(found, expected):
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert [one.tokens for one in ours] == [one.tokens for one in theirs]
        assert [one.ended for one in ours] == [one.ended for one in theirs]
        for one, other in zip(ours, theirs, strict=True):
            assert one.score == pytest.approx(other.score, abs=1e-4)
            assert one.token_scores == pytest.approx(other.token_scores, abs=1e-3)
            assert (one.attention_TS is None) == (other.attention_TS is None)
            if one.attention_TS is not None and other.attention_TS is not None:
                width = min(one.attention_TS.shape[1], other.attention_TS.shape[1])
                torch.testing.assert_close(
                    one.attention_TS[:, :width], other.attention_TS[:, :width], rtol=1e-3, atol=1e-4
                )


@pytest.mark.parametrize("search", SEARCHES)
def test_a_table_is_searched_the_same(search):
    memory, limits = table(7, 9, seed=2, spread=1.0), [3, 70, 9, 1, 40, 33, 90]
    memory.logits[:, :, END] -= 2
    expected = SEARCHES[search](Table(), memory, limits)
    loop = loop_for("cpu")
    for _ in range(2):  # the second time with what the first has kept
        same(SEARCHES[search](Table(), memory, limits, loop=loop), expected)


@pytest.mark.parametrize("device", DEVICES)
def test_the_next_sources_have_other_lengths(device):
    """What is padding, which a coverage penalty leaves out, is that of the search at hand."""
    memory = map_tree(lambda leaf: leaf.to(device), table(3, 9, seed=4))
    loop, scores = loop_for(device), []
    for source_lengths in ([9, 9, 9], [1, 2, 9], [3, 9, 1]):
        more = {"source_lengths": source_lengths, "device": torch.device(device)}
        expected = SEARCHES["covering"](Table(), memory, [5, 5, 5], **more)
        same(SEARCHES["covering"](Table(), memory, [5, 5, 5], **more, loop=loop), expected)
        scores.append([found[0].score for found in expected])
    assert scores[0] != scores[1] != scores[2]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("kind", [*WITH_SOURCE, "lm", "plain lm", "transformer lm"])
def test_a_network_is_searched_the_same(kind, search, device):
    if kind not in WITH_SOURCE and search == "covering":
        pytest.skip("there is no source to cover")
    if device == "cpu" and kind != "transformer" and search not in ("beam with attention", "sample"):
        pytest.skip("the steps of the other networks change no shapes")
    if device == "cpu" and kind in ("plain lm", "transformer lm"):
        pytest.skip("they continue prompts below")
    model = copy.deepcopy(neural(kind, vocabulary=9)).to(device)
    sources = [[3, 7, 5], [10], [4, 4, 4, 4, 4, 4, 4, 4, 4]] if kind in WITH_SOURCE else [[], [], []]
    check(search, model, model.encode(Ragged.of(sources, device)), device)


def check(search, model, memory, device, repeats=2):
    common = {"device": torch.device(device)}
    expected = SEARCHES[search](model, memory, [7, 40, 5], **common)
    loop = loop_for(device)
    for _ in range(repeats):
        same(SEARCHES[search](model, memory, [7, 40, 5], **common, loop=loop), expected)
    assert loop.graphs, "no shape changed from step to step"


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("search", [name for name in SEARCHES if name != "covering"])
@pytest.mark.parametrize("kind", ["lm", "plain lm", "transformer lm"])
@torch.no_grad()
def test_prompts_are_continued_the_same(kind, search, device):
    """The cache begins with a prompt; prompts of similar lengths use the same graphs."""
    if device == "cpu" and search != ("sample" if kind == "lm" else "greedy"):
        pytest.skip("the steps before the search are the same")
    model = PromptedLM(copy.deepcopy(neural(kind, vocabulary=9)).to(device), BEGIN)
    prompts_BM = torch.tensor([[3, 7, 5, 4, 6], [8, 8, 8, 8, 8], [4, 5, 6, 7, 8]], device=device)
    check(search, model, model.encode(prompts_BM), device, repeats=1)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", ["feeding", "transformer", "prefix lm"])
@torch.no_grad()
def test_a_start_of_several_tokens(kind, device):
    """Such as a language token: the cache begins with what precedes it."""
    model = StartedModel(copy.deepcopy(neural(kind, vocabulary=9)).to(device), (END, 6))
    memory = model.model.encode(Ragged.of([[3, 7, 5], [10], [4, 4, 4, 4]], device))
    check("beam with attention" if kind == "transformer" else "beam", model, memory, device, repeats=1)


@torch.no_grad()
def test_graphs_are_shared_by_prompts_of_similar_lengths():
    loop = loop_for("cpu")
    network = neural("transformer lm", vocabulary=9)
    for length in (2, 5, 9, 32):
        model = PromptedLM(network, BEGIN)
        memory = model.encode(torch.full((2, length), 4))
        greedy(model, memory, [6, 6], loop=loop)
    assert len(loop.graphs) == 1


def test_sentences_that_are_left_move_into_smaller_buffers(monkeypatch):
    monkeypatch.setattr(cuda_graphs, "few_active", lambda size: size // 2)
    memory, limits = table(7, 9, seed=2, spread=1.0), [3, 70, 9, 1, 40, 33, 90]
    memory.logits[:, :, END] -= 2
    loop, worked = loop_for("cpu"), []
    loop.limit = 2.0**30
    for search in ("beam", "greedy", "constraints"):
        expected = SEARCHES[search](Table(), memory, limits)
        given = LoopWithCallback(loop, lambda: worked.append(len(loop.graphs)))
        same(SEARCHES[search](Table(), memory, limits, loop=given), expected)
    assert len({len(graph.state.done_B) for graph in loop.graphs.values()}) > 2
    assert len(worked) == 3 and worked[0] == 1  # once for each search, during its first steps


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", ["transformer", "feeding"])
@torch.no_grad()
def test_moves_into_other_buffers_are_recorded(kind, device, monkeypatch):
    """The first is made, the second is made and captured, the third is replayed: each with other sentences."""
    monkeypatch.setattr(cuda_graphs, "few_active", lambda size: size // 2)
    model, loop = copy.deepcopy(neural(kind, vocabulary=9)).to(device), loop_for(device)
    loop.limit = 2.0**30
    replayed = []
    run = cuda_graphs.Move.run
    monkeypatch.setattr(cuda_graphs.Move, "run", lambda *given: replayed.append(1) or run(*given))
    sources = [[3, 7, 5], [10], [4, 4, 4, 4, 4], [6, 6], [5, 3], [3]]
    for shift in range(4):
        memory = model.encode(Ragged.of(sources[shift:] + sources[:shift], device))
        limits = [3, 40, 9, 1, 40, 33]
        for search in ("beam", "greedy"):
            common = {"device": torch.device(device)}
            expected = SEARCHES[search](model, memory, limits, **common)
            same(SEARCHES[search](model, memory, limits, **common, loop=loop), expected)
    assert loop.moves and len(replayed) > 3
    assert len({move.target.capacity for move in loop.moves.values()}) > 1
    loop.clear()
    assert not loop.moves
