"""A pool of actors of Ray Data, each with the model, that translates blocks.

Ray restarts an actor that dies and gives its block to it again, or to another; a block's output appears in one rename,
so it does not matter how often that happens. Ray Data limits how many blocks wait for an actor.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from weft.cluster.blocks import Block, Translate, translate_block
from weft.errors import DataError, WeftError

MakeTranslate = Callable[[], Translate]
"""Loads the model; called once in every actor."""


class Pool(NamedTuple):
    """How many actors, and what each is given."""

    address: str
    """Of a cluster, or ``local``: one is started on this machine."""
    actors: int
    gpus: float = 0.0
    """Of each actor."""


class Work(NamedTuple):
    """A block, and where its output goes."""

    block: Block
    output: str


class Actor:
    """Holds the model."""

    def __init__(self, make_translate: MakeTranslate, column: str) -> None:
        self.translate = make_translate()
        self.column = column

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Translate the blocks of a batch; for each, its number of lines or an error in one line."""
        lines: list[int] = []
        errors: list[str] = []
        for item in batch["work"]:
            *block, output = json.loads(item)
            try:
                translate_block(Block(*block), Path(output), self.translate, column=self.column)
                errors.append("")
            except (WeftError, OSError) as error:
                errors.append(str(error))
            lines.append(Block(*block).lines)
        return {"lines": lines, "error": errors}


def translate_blocks(work: Sequence[Work], make_translate: MakeTranslate, pool: Pool, *, column: str) -> Iterator[int]:
    """Translate blocks; yields the number of lines of each as it is done, in no order. The first error ends it."""
    ray = _import_ray()
    local = pool.address == "local"
    if not ray.is_initialized():
        _connect(ray, pool, local)
    for name in ("ray", "ray.data", "ray.data._internal"):  # what it says of its plans is not for the user
        logging.getLogger(name).setLevel(logging.ERROR)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    items = [{"work": json.dumps([*one.block, one.output])} for one in work]
    dataset = ray.data.from_items(items, override_num_blocks=len(items)).map_batches(
        Actor,
        fn_constructor_args=(make_translate, column),
        batch_size=1,
        compute=ray.data.ActorPoolStrategy(size=min(pool.actors, len(items))),
        num_cpus=0 if pool.gpus else 1,
        num_gpus=pool.gpus or None,
    )
    try:
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


def _import_ray() -> Any:
    try:
        import ray
        import ray.data
    except ImportError:
        raise DataError("--ray: Ray is not installed; pip install 'weft[ray]'") from None
    return ray


def _connect(ray: Any, pool: Pool, local: bool) -> None:
    """Start a cluster on this machine, or connect to one."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    try:
        if local:
            ray.init(address="local", num_cpus=max(pool.actors, 1), include_dashboard=False, **options)
        else:
            ray.init(address=pool.address, **options)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise DataError(f"--ray {pool.address}: cannot connect: {str(error).strip().splitlines()[0]}") from None
