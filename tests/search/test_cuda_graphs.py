"""The loop that plays recorded steps: on a CPU with the same step taken anew each time, on a GPU as it is."""

from __future__ import annotations

import copy

import pytest
import torch

from fixtures.small_networks import neural
from fixtures.table_model import BEGIN, END, Table, table
from weft.ragged import Ragged
from weft.search import Ranking, Sampler, SamplingFilter, beam, follow, greedy
from weft.search.constraints import NoLoops, NoRepeatNgrams
from weft.search.cuda_graphs import CudaGraphLoop, Recording, size_for
from weft.tree import map_tree


class Played(Recording):
    """A recording without a GPU: what would be played is done again."""

    def __init__(self, advance, live, room, pool):
        self.advance, self.live, self.room = advance, map_tree(torch.clone, live), room
        self.make_room(*advance(self.live))
        self.going_T = torch.zeros(room, dtype=torch.int64)

    def replay(self, time):
        self.step()

    def going(self, time):
        return int(self.going_T[time])


class PlayedLoop(CudaGraphLoop):
    recording = Played


def loop_for(device):
    return (CudaGraphLoop if device == "cuda" else PlayedLoop)(torch.device(device))


DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
SEARCHES = {
    "beam": lambda *given, **more: beam(*given, size=3, n_best=2, **more),
    "beam with weights": lambda *given, **more: beam(*given, size=3, n_best=3, weights=True, **more),
    "covering": lambda *given, **more: beam(*given, size=3, ranking=Ranking(beta=0.3), **more),
    "provable": lambda *given, **more: beam(*given, size=2, stop="provable", **more),
    "diverse": lambda *given, **more: beam(*given, size=4, groups=2, n_best=4, **more),
    "constraints": lambda *given, **more: beam(
        *given, size=3, rules=[NoLoops(copies=2, tokens=3), NoRepeatNgrams(3)], **more
    ),
    "greedy": lambda *given, **more: follow(*given, greedy, **more),
    "sample": lambda *given, **more: follow(
        *given, Sampler(SamplingFilter(top_p=0.9), seed=4), paths=3, weights=True, **more
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
    common = {"begin": BEGIN, "end": END}
    expected = SEARCHES[search](Table(), memory, limits, **common)
    loop = loop_for("cpu")
    for _ in range(2):  # the second time with what the first has kept
        same(SEARCHES[search](Table(), memory, limits, **common, loop=loop), expected)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("kind", ["after", "feeding", "transformer", "lm"])
def test_a_network_is_searched_the_same(kind, search, device):
    if search == "covering" and kind == "lm":
        pytest.skip("its past grows")
    model = copy.deepcopy(neural(kind, vocabulary=9)).to(device)
    sources = [[], [], []] if kind == "lm" else [[3, 7, 5], [10], [4, 4, 4, 4, 4, 4, 4, 4, 4]]
    memory = model.encode(Ragged.of(sources, device))
    common = {"begin": BEGIN, "end": END, "device": device}
    expected = SEARCHES[search](model, memory, [7, 40, 5], **common)
    loop = loop_for(device)
    for _ in range(2):
        same(SEARCHES[search](model, memory, [7, 40, 5], **common, loop=loop), expected)


def test_sizes():
    assert [size_for(count) for count in (1, 2, 3, 4, 5, 6, 7, 9, 13, 64, 65, 97)] == [
        1, 2, 3, 4, 6, 6, 8, 12, 16, 64, 96, 128
    ]  # fmt: skip
