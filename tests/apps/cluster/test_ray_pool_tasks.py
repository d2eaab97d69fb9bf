"""How blocks are divided among actors, without Ray."""

from __future__ import annotations

import pytest

from weft.apps.cluster.blocks import BlockTask, FileBlock
from weft.apps.cluster.ray_pool import GPU_BLOCKS, Pool, actors_of, make_tasks
from weft.errors import DataError


def work(blocks: int) -> list[BlockTask]:
    return [BlockTask(FileBlock("a", number, 0, 0, 0, 1), str(number)) for number in range(blocks)]


@pytest.mark.parametrize(
    ("blocks", "actors", "on_gpu", "sizes"),
    [
        (5, 2, False, [1] * 5),
        (3, 2, True, [1] * 3),
        (24, 2, True, [3] * 8),
        (26, 2, True, [3] * 8 + [2]),
        (100, 1, True, [GPU_BLOCKS] * 6 + [4]),
    ],
)
def test_tasks(blocks: int, actors: int, on_gpu: bool, sizes: list[int]) -> None:
    tasks = make_tasks(work(blocks), actors, on_gpu=on_gpu)
    assert [len(task) for task in tasks] == sizes
    assert [one for task in tasks for one in task] == work(blocks)


def test_the_number_of_actors() -> None:
    resources = {"CPU": 6.0, "GPU": 2.0}
    assert actors_of(Pool("local"), resources) == 6
    assert actors_of(Pool("auto", gpus=0.5), resources) == 4
    assert actors_of(Pool("auto", 3, gpus=1), resources) == 3
    assert actors_of(Pool("auto", gpus=1), {"CPU": 6.0}) == 1  # a cluster may grow
    with pytest.raises(DataError, match=r"^--gpus 1: this machine has 0 GPUs that Ray can see$"):
        actors_of(Pool("local", 1, 1), {"CPU": 6.0})
