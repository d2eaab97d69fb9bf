"""A pool of actors of Ray Data, each with the model, that translates blocks.

Ray restarts an actor that dies and gives its block to it again, or to another; a block's output appears in one rename,
so it does not matter how often that happens. Ray Data limits how many blocks wait for an actor. An actor with a GPU is
given several blocks at a time, so that it tokenizes the next one while it searches.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from weft.apps.cluster.blocks import BlockTask, FileBlock, Translate, translate_to_files
from weft.errors import DataError, WeftError, plural

GPU_BLOCKS = 16
"""The most blocks that an actor with a GPU is given at a time."""
TASKS = 4
"""The smallest number of tasks that an actor's share of all blocks is divided into."""
MakeTranslate = Callable[[], Translate]
"""Loads the model; called once in every actor."""


class Pool(NamedTuple):
    """The number of actors, and the resources of each."""

    address: str
    """Address of a cluster, or ``local``: one is started on this machine."""
    actors: int | None = None
    """None: as many as the cluster has cores, or GPUs for."""
    gpus: float = 0.0
    """GPUs per actor."""


class Actor:
    """Holds the model."""

    def __init__(self, make_translate: MakeTranslate, column: str) -> None:
        self.translate = make_translate()
        self.column = column

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Translate the blocks of each task; for each, its number of lines or an error in one line."""
        lines: list[int] = []
        errors: list[str] = []
        for task in batch["task"]:
            work = [BlockTask(FileBlock(*block), output) for block, output in json.loads(task)]
            try:
                translate_to_files(work, self.translate, column=self.column)
                errors.append("")
            except (WeftError, OSError) as error:
                errors.append(str(error))
            lines.append(sum(one.block.lines for one in work))
        return {"lines": lines, "error": errors}


def make_tasks(work: Sequence[BlockTask], actors: int, *, on_gpu: bool) -> list[Sequence[BlockTask]]:
    """The blocks that an actor is given at a time."""
    share = len(work) // (TASKS * actors)
    size = min(max(share, 1), GPU_BLOCKS) if on_gpu else 1
    return [work[start : start + size] for start in range(0, len(work), size)]


def translate_blocks(
    work: Sequence[BlockTask], make_translate: MakeTranslate, pool: Pool, *, column: str
) -> Iterator[int]:
    """Translate blocks; yields the number of lines of each task as it is done, in no order. The first error ends it."""
    ray = _import_ray()
    local = pool.address == "local"
    if not ray.is_initialized():
        _connect(ray, pool, local)
    for name in ("ray", "ray.data", "ray.data._internal"):  # its execution plans are of no interest to the user
        logging.getLogger(name).setLevel(logging.ERROR)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    try:
        actors = actors_of(pool, ray.cluster_resources())
        items = [{"task": json.dumps([*task])} for task in make_tasks(work, actors, on_gpu=pool.gpus > 0)]
        dataset = ray.data.from_items(items, override_num_blocks=len(items)).map_batches(
            Actor,
            fn_constructor_args=(make_translate, column),
            batch_size=1,
            compute=ray.data.ActorPoolStrategy(size=min(actors, len(items))),
            num_cpus=0 if pool.gpus else 1,
            num_gpus=pool.gpus or None,
        )
        for row in dataset.iter_rows():
            if row["error"]:
                raise DataError(row["error"])
            yield int(row["lines"])
    except ray.exceptions.RayError as error:
        cause = getattr(error, "cause", None) or error
        message = str(cause) if isinstance(cause, WeftError) else str(error).strip().splitlines()[-1]
        raise DataError(f"--ray {pool.address}: {message}") from None
    finally:
        if local:
            ray.shutdown()


def actors_of(pool: Pool, resources: Mapping[str, float]) -> int:
    """Number of actors: the requested one, or as many as the cluster has room for."""
    available, needed = (resources.get("GPU", 0.0), pool.gpus) if pool.gpus else (resources.get("CPU", 1.0), 1.0)
    if pool.address == "local" and available < needed:
        raise DataError(f"--gpus {pool.gpus:g}: this machine has {plural(int(available), 'GPU')} that Ray can see")
    return pool.actors or max(int(available / needed), 1)


def _import_ray() -> Any:
    try:
        import ray
        import ray.data
    except ImportError:
        raise DataError("--ray: Ray is not installed; pip install 'weft-seq2seq[ray]'") from None
    return ray


def _connect(ray: Any, pool: Pool, local: bool) -> None:
    """Start a cluster on this machine, or connect to one."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    try:
        if local:
            ray.init(address="local", num_cpus=pool.actors, include_dashboard=False, **options)
        else:
            ray.init(address=pool.address, **options)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise DataError(f"--ray {pool.address}: cannot connect: {str(error).strip().splitlines()[0]}") from None
