"""Several processes that train one model: who they are, and what they do together.

An update is defined by the recipe: ``training.accumulate`` batches, shared out among the workers
(data/batching/prefetch.py). Every worker makes the gradients of its own batches, already divided by the tokens of all;
they are summed, and every worker makes the same step. So the result does not depend on the number of workers, but for
the order of floating-point sums.

Who a worker is stands in the environment, as torchrun and other launchers write it (RANK, WORLD_SIZE, LOCAL_RANK).
Only the first worker writes files. One process alone is a `Workers` too, for which everything here does nothing.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from weft.errors import RecipeError, TrainingError

Value = TypeVar("Value")

BUCKET = 1 << 23
"""Numbers that are summed in one go."""
PATIENCE = timedelta(hours=2)
"""How long a worker waits for the others in the midst of training, at most."""
PREPARING = timedelta(days=7)
"""How long the first may take to read and prepare all."""


class WorkerLostError(TrainingError):
    """Another worker is gone: nothing that this one did wrong."""


@dataclass(frozen=True)
class Workers:
    """This process among all that train together."""

    rank: int = 0
    count: int = 1
    local: int = 0
    """Its place among those of its machine: the number of its GPU."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Workers:
        """As the launcher says; alone where there is none."""
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
        if "WORLD_SIZE" not in environment or "RANK" not in environment:
            return cls()
        try:
            rank, count, local = (int(environment.get(name, "0")) for name in names)
        except ValueError:
            given = ", ".join(f"{name}={environment[name]}" for name in names if name in environment)
            raise TrainingError(f"{given}: not what a launcher sets; start the workers with torchrun") from None
        return cls(rank, count, local)

    @property
    def leads(self) -> bool:
        """Whether this is the one that writes and speaks."""
        return self.rank == 0

    def device(self, chosen: torch.device) -> torch.device:
        """The device of this worker: on a machine with GPUs each has its own."""
        if self.count == 1 or chosen.type != "cuda":
            return chosen
        if chosen != torch.device("cuda"):
            raise RecipeError(
                f"training.device: '{chosen}' is one GPU, for {self.count} workers; use cuda, and each has its own"
            )
        there = torch.cuda.device_count()
        if self.local >= there:
            raise RecipeError(
                f"training.device: no GPU for worker {self.local + 1} of this machine, which has {there}; "
                "start so many workers, or set training.device=cpu"
            )
        device = torch.device("cuda", self.local)
        torch.cuda.set_device(device)
        return device

    @contextmanager
    def joined(self) -> Iterator[Workers]:
        """Connected to the others while the block lasts."""
        if self.count == 1:
            yield self
            return
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() and dist.is_nccl_available() else "gloo"
        with _others("while connecting"):
            store, _, _ = next(dist.rendezvous("env://", self.rank, self.count))
            met = dist.PrefixStore(_meet(store, self.rank, self.count), store)
            dist.init_process_group(backend, store=met, rank=self.rank, world_size=self.count, timeout=PATIENCE)
        try:
            yield self
            self.wait()
        finally:
            with suppress(RuntimeError):
                dist.destroy_process_group()

    def wait(self) -> None:
        """Go on when all are here."""
        if self.count > 1:
            with _others("while waiting"):
                dist.all_reduce(torch.zeros(1))

    def ready(self) -> None:
        """The first one says that files can be read that it has written; see `wait_for_first`."""
        if self.count > 1:
            _store().set("weft/ready", "yes")

    def wait_for_first(self) -> None:
        """Wait until the first one is `ready`, which may be after hours of preparing data."""
        if not self.leads:
            with _others("while the first one prepared"):
                _store().wait(["weft/ready"], PREPARING)

    def from_first(self, make: Callable[[], Value]) -> Value:
        """What the first one makes, for all."""
        if self.count == 1:
            return make()
        box = [make() if self.leads else None]
        with _others("while the first one worked"):
            dist.broadcast_object_list(box, src=0)
        found: Value = box[0]  # type: ignore[assignment]
        return found

    def sum_gradients(self, parameters: Iterable[nn.Parameter], measured: Tensor) -> None:
        """Every gradient, and a number that was measured, become their sums over all workers.

        A worker without a batch has no gradients: it adds zeros. A parameter that nobody has a gradient of has none.
        """
        if self.count == 1:
            return
        every = list(parameters)
        told = torch.cat([measured.reshape(1), measured.new_tensor([one.grad is not None for one in every])])
        with _others("while summing gradients"):
            dist.all_reduce(told)
            measured.copy_(told[0])
            having = [one for one, count in zip(every, told[1:].tolist(), strict=True) if count]
            for one in having:
                if one.grad is None:
                    one.grad = torch.zeros_like(one)
            for bucket in _buckets([one.grad for one in having if one.grad is not None]):
                flat = torch.cat([gradient.reshape(-1) for gradient in bucket])
                dist.all_reduce(flat)
                for gradient, part in zip(bucket, flat.split([one.numel() for one in bucket]), strict=True):
                    gradient.copy_(part.view_as(gradient))

    def sum(self, measured: Tensor) -> None:
        """A number becomes its sum over all workers."""
        if self.count > 1:
            with _others("while adding up"):
                dist.all_reduce(measured)

    def speaks(self) -> bool:
        """Whether it falls to this worker to tell of an error: to the first that comes to it."""
        if self.count == 1:
            return True
        try:
            return int(_store().add("weft/errors", 1)) == 1
        except RuntimeError:  # no store, or no longer: the one who kept it has spoken
            return self.leads

    def remember_run(self, path: str) -> None:
        """Note, over restarts of the workers, which run this launch trains."""
        if self.count > 1 and self.leads:
            _launch_store().set("weft/run", path)

    def remembers(self, path: str) -> bool:
        """Whether this launch trained this run before one of its workers died and it started all of them anew."""

        def noted() -> bool:
            store = _launch_store()
            return bool(store.check(["weft/run"])) and store.get("weft/run").decode() == path

        return self.count > 1 and self.from_first(noted)


ALONE = Workers()


@contextmanager
def _others(doing: str) -> Iterator[None]:
    """What goes wrong in talking to the others is the loss of one of them."""
    try:
        yield
    except RuntimeError as error:
        why = str(error).strip().splitlines()[-1] if str(error).strip() else "no answer"
        raise WorkerLostError(f"lost another worker {doing} ({why})") from error


def _meet(store: dist.Store, rank: int, count: int) -> str:
    """A name for this start of the workers, the same for all of them and never used before.

    A launcher's store outlives the workers, with what those who died have left in it; and launchers on several machines
    do not count restarts alike. So each worker leaves a number nobody else has, the first one answers to it, and goes
    on once all have taken its answer.
    """
    name, said = secrets.token_hex(8), secrets.token_hex(8)
    if rank:
        store.set(f"weft/hello/{rank}", said)
        store.wait([f"weft/answer/{said}"], PREPARING)
        name = store.get(f"weft/answer/{said}").decode()
        store.set(f"weft/met/{name}/{rank}", "yes")
        return name
    missing, answered = set(range(1, count)), set()
    while missing:
        for one in sorted(missing):
            if store.check([f"weft/met/{name}/{one}"]):
                missing.discard(one)
            elif store.check([f"weft/hello/{one}"]) and (heard := store.get(f"weft/hello/{one}")) not in answered:
                answered.add(heard)
                store.set(f"weft/answer/{heard.decode()}", name)
        time.sleep(0.02)
    return name


def _store() -> dist.Store:
    """Where the workers leave notes for each other."""
    found: dist.Store = dist.distributed_c10d._get_default_store()
    return found


def _launch_store() -> dist.Store:
    """Where notes outlive the workers: the launcher keeps it."""
    store = _store()
    while isinstance(store, dist.PrefixStore):
        store = store.underlying_store
    return store


def _buckets(gradients: list[Tensor]) -> Iterator[list[Tensor]]:
    """Gradients in their order, of one type and together of a size that is worth sending."""
    bucket: list[Tensor] = []
    held = 0
    for gradient in gradients:
        if bucket and (held + gradient.numel() > BUCKET or gradient.dtype != bucket[0].dtype):
            yield bucket
            bucket, held = [], 0
        bucket.append(gradient)
        held += gradient.numel()
    if bucket:
        yield bucket


def seed_draws(*key: int) -> None:
    """Make what is drawn next (dropout, sampling) a function of a key: seed, step and batch, not of who draws."""
    torch.manual_seed(int(np.random.SeedSequence(list(key)).generate_state(1, np.uint64)[0]))


def whole(tensor: Tensor) -> Tensor:
    """All of a tensor that may be divided over the workers; then they must all ask for it."""
    if not is_divided(tensor):
        return tensor
    found: Tensor = tensor.full_tensor()  # type: ignore[attr-defined]
    return found


def spread(tensor: Tensor, *, like: Tensor) -> Tensor:
    """This worker's part of a tensor that all have, divided as another one is."""
    if not is_divided(like):
        return tensor
    from torch.distributed.tensor import DTensor, distribute_tensor

    assert isinstance(like, DTensor)
    return distribute_tensor(tensor.to(like.device), like.device_mesh, like.placements, src_data_rank=None)


def is_divided(tensor: Tensor) -> bool:
    """Whether each worker has a part of it."""
    return dist.is_initialized() and hasattr(tensor, "device_mesh")
