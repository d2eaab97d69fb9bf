"""Data-parallel training in several processes ("workers"): their ranks and their collective operations.

An update is defined by the recipe: ``training.accumulate`` batches, distributed over the workers
(data/batching/batches.py). Every worker computes the gradients of its batches, divided by the target tokens of all
batches; the gradients are summed over the workers, and every worker takes the same optimizer step. So the result does
not depend on the number of workers, except for the order of floating-point sums and, on a CPU, for dropout masks that a
single process may draw by the number of its cores (threaded_update.py).

Rank and world size come from the environment, as torchrun and other launchers set it (RANK, WORLD_SIZE, LOCAL_RANK).
Only the main process (rank 0) writes files. A single process is a `Workers` too, with a world size of 1; it calls none
of these operations.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from weft.errors import RecipeError, TrainingError

Value = TypeVar("Value")

BUCKET_ELEMENTS = 1 << 23
"""Gradient elements per all-reduce."""
COLLECTIVE_TIMEOUT = timedelta(hours=2)
"""Time that a worker waits for the others during training."""
PREPARATION_TIMEOUT = timedelta(days=7)
"""Time that the others wait for the main process to read and prepare the data."""
POLL_SECONDS = 0.02


class WorkerLostError(TrainingError):
    """Another worker has died; this one did nothing wrong."""


@dataclass(frozen=True)
class Workers:
    """The rank of this process among all that train together."""

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    """Rank among the workers of this machine: the index of its GPU."""
    is_main: bool = field(init=False)
    """Whether this is rank 0, the process that validates, writes files and reports."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_main", self.rank == 0)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Workers:
        """The worker as the launcher set it up; a single process if there is no launcher."""
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
        if "WORLD_SIZE" not in environment or "RANK" not in environment:
            return cls()
        try:
            rank, world_size, local_rank = (int(environment.get(name, "0")) for name in names)
        except ValueError:
            values = ", ".join(f"{name}={environment[name]}" for name in names if name in environment)
            raise TrainingError(f"{values}: not what a launcher sets; start the workers with torchrun") from None
        return cls(rank, world_size, local_rank)

    def device(self, requested: torch.device) -> torch.device:
        """The device of this worker: every worker of a machine has its own GPU."""
        if self.world_size == 1 or requested.type != "cuda":
            return requested
        if requested != torch.device("cuda"):
            raise RecipeError(
                f"training.device: '{requested}' is one GPU, for {self.world_size} workers; "
                "use cuda, and each has its own"
            )
        available = torch.cuda.device_count()
        if self.local_rank >= available:
            raise RecipeError(
                f"training.device: no GPU for worker {self.local_rank + 1} of this machine, which has {available}; "
                "start fewer workers, or set training.device=cpu"
            )
        device = torch.device("cuda", self.local_rank)
        torch.cuda.set_device(device)
        return device

    @contextmanager
    def connected(self) -> Iterator[Workers]:
        """Initialize the process group for the duration of the block."""
        if self.world_size == 1:
            yield self
            return
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() and dist.is_nccl_available() else "gloo"
        with _lost_worker("while connecting"):
            store, _, _ = next(dist.rendezvous("env://", self.rank, self.world_size))
            prefixed = dist.PrefixStore(_agree_on_prefix(store, self.rank, self.world_size), store)
            dist.init_process_group(
                backend, store=prefixed, rank=self.rank, world_size=self.world_size, timeout=COLLECTIVE_TIMEOUT
            )
        try:
            yield self
            self.barrier()
        finally:
            with suppress(RuntimeError):
                dist.destroy_process_group()

    def barrier(self) -> None:
        """Wait until all workers are here."""
        if self.world_size > 1:
            with _lost_worker("while waiting"):
                dist.all_reduce(torch.zeros(1))

    def signal_ready(self) -> None:
        """Called by the main process: the files it has written can be read; see `wait_for_main`."""
        if self.world_size > 1:
            _default_store().set("weft/ready", "yes")

    def wait_for_main(self) -> None:
        """Wait for `signal_ready` of the main process, which may take hours of data preparation."""
        if not self.is_main:
            with _lost_worker("while the main process prepared"):
                _default_store().wait(["weft/ready"], PREPARATION_TIMEOUT)

    def from_main(self, compute: Callable[[], Value]) -> Value:
        """Compute a value in the main process and broadcast it to all."""
        if self.world_size == 1:
            return compute()
        values = [compute() if self.is_main else None]
        with _lost_worker("while the main process worked"):
            dist.broadcast_object_list(values, src=0)
        value: Value = values[0]  # type: ignore[assignment]
        return value

    def all_reduce_gradients(self, parameters: Iterable[nn.Parameter], loss: Tensor) -> None:
        """Sum every gradient, and the scalar loss, over all workers, in place.

        A worker without a batch has no gradients and contributes zeros. A parameter without a gradient on any worker
        keeps none.
        """
        if self.world_size == 1:
            return
        every = list(parameters)
        flags = torch.cat([loss.reshape(1), loss.new_tensor([parameter.grad is not None for parameter in every])])
        with _lost_worker("while summing gradients"):
            dist.all_reduce(flags)
            loss.copy_(flags[0])
            reduced = [parameter for parameter, count in zip(every, flags[1:].tolist(), strict=True) if count]
            for parameter in reduced:
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
            for bucket in _buckets([parameter.grad for parameter in reduced if parameter.grad is not None]):
                flat = torch.cat([gradient.reshape(-1) for gradient in bucket])
                dist.all_reduce(flat)
                for gradient, part in zip(bucket, flat.split([each.numel() for each in bucket]), strict=True):
                    gradient.copy_(part.view_as(gradient))

    def maximum(self, *values: int) -> tuple[int, ...]:
        """The largest of each number over all workers."""
        if self.world_size == 1:
            return values
        largest = torch.tensor(values)
        with _lost_worker("while agreeing"):
            dist.all_reduce(largest, op=dist.ReduceOp.MAX)
        return tuple(largest.tolist())

    def all_reduce(self, value: Tensor) -> None:
        """Sum a tensor over all workers, in place."""
        if self.world_size > 1:
            with _lost_worker("while adding up"):
                dist.all_reduce(value)

    def reports_error(self) -> bool:
        """Whether this worker should report an error: only the first one that meets it does."""
        if self.world_size == 1:
            return True
        try:
            return int(_default_store().add("weft/errors", 1)) == 1
        except RuntimeError:  # no store (or not anymore): the process that hosted it has reported
            return self.is_main

    def record_run(self, path: str) -> None:
        """Record which run this launch trains, in a store that survives restarts of the workers."""
        if self.world_size > 1 and self.is_main:
            _launcher_store().set("weft/run", path)

    def was_training(self, path: str) -> bool:
        """Whether this launch trained this run before a worker died and the launcher restarted all of them."""

        def recorded() -> bool:
            store = _launcher_store()
            return bool(store.check(["weft/run"])) and store.get("weft/run").decode() == path

        return self.world_size > 1 and self.from_main(recorded)


SINGLE_PROCESS = Workers()


@contextmanager
def _lost_worker(doing: str) -> Iterator[None]:
    """Translate a failed collective operation into the loss of another worker."""
    try:
        yield
    except RuntimeError as error:
        why = str(error).strip().splitlines()[-1] if str(error).strip() else "no answer"
        raise WorkerLostError(f"lost another worker {doing} ({why})") from error


def _agree_on_prefix(store: dist.Store, rank: int, world_size: int) -> str:
    """A key prefix for this start of the workers, the same for all of them and never used before.

    A launcher's store outlives the workers and keeps the keys of those that died, and launchers on several machines may
    count restarts differently. So each worker publishes a unique token, the main process replies to it with the prefix,
    and goes on once all workers have acknowledged.
    """
    prefix, token = secrets.token_hex(8), secrets.token_hex(8)
    if rank:
        store.set(f"weft/hello/{rank}", token)
        store.wait([f"weft/reply/{token}"], PREPARATION_TIMEOUT)
        prefix = store.get(f"weft/reply/{token}").decode()
        store.set(f"weft/acknowledged/{prefix}/{rank}", "yes")
        return prefix
    missing, answered = set(range(1, world_size)), set[bytes]()
    while missing:
        for peer in sorted(missing):
            if store.check([f"weft/acknowledged/{prefix}/{peer}"]):
                missing.discard(peer)
            elif (
                store.check([f"weft/hello/{peer}"]) and (peer_token := store.get(f"weft/hello/{peer}")) not in answered
            ):
                answered.add(peer_token)
                store.set(f"weft/reply/{peer_token.decode()}", prefix)
        time.sleep(POLL_SECONDS)
    return prefix


def _default_store() -> dist.Store:
    """The key-value store of the process group."""
    store: dist.Store = dist.distributed_c10d._get_default_store()
    return store


def _launcher_store() -> dist.Store:
    """The launcher's key-value store, which survives restarts of the workers."""
    store = _default_store()
    while isinstance(store, dist.PrefixStore):
        store = store.underlying_store
    return store


def _buckets(gradients: list[Tensor]) -> Iterator[list[Tensor]]:
    """Gradients in order, grouped by type into buckets of at most `BUCKET_ELEMENTS` (or a single larger one)."""
    bucket: list[Tensor] = []
    elements = 0
    for gradient in gradients:
        if bucket and (elements + gradient.numel() > BUCKET_ELEMENTS or gradient.dtype != bucket[0].dtype):
            yield bucket
            bucket, elements = [], 0
        bucket.append(gradient)
        elements += gradient.numel()
    if bucket:
        yield bucket


def seed_rng(*key: int) -> None:
    """Make random numbers (dropout, sampling) a function of a key (seed, step, batch), not of the worker's rank."""
    torch.manual_seed(int(np.random.SeedSequence(list(key)).generate_state(1, np.uint64)[0]))


def is_sharded(tensor: Tensor) -> bool:
    """Whether each worker holds only a shard of this tensor (a DTensor)."""
    return dist.is_initialized() and hasattr(tensor, "device_mesh")


def full_tensor(tensor: Tensor) -> Tensor:
    """The whole of a tensor that may be sharded; a collective operation if it is."""
    if not is_sharded(tensor):
        return tensor
    gathered: Tensor = tensor.full_tensor()  # type: ignore[attr-defined]
    return gathered


def shard_like(tensor: Tensor, *, like: Tensor) -> Tensor:
    """This worker's shard of a tensor that all workers have, placed as ``like`` is."""
    if not is_sharded(like):
        return tensor
    from torch.distributed.tensor import DTensor, distribute_tensor

    assert isinstance(like, DTensor)
    return distribute_tensor(tensor.to(like.device), like.device_mesh, like.placements, src_data_rank=None)
