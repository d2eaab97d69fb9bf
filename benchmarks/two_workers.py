"""Two gloo workers on this CPU: the update that `weft.apps.bench.cluster` predicts beside the one that is measured.

    python benchmarks/two_workers.py --rounds 12

Each worker has one thread. Measured, in turns: an update alone (both workers at a time, without messages), the sum of
two small tensors and of two large ones (the latency and the rate of the link), and an update with its gradients summed.
The prediction uses the first two. Three sizes of a Transformer; the median of all rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as processes

SIZES = {"small": (64, 2, 2000), "middle": (192, 2, 4000), "large": (256, 3, 8000)}
"""Width, layers, vocabulary."""
LINK_FLOATS = (1 << 10, 1 << 22)
TOKENS = 600


def seconds(call: Callable[[], object]) -> float:
    dist.barrier()
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def measure(name: str, workers: Any, rounds: int) -> None:
    """Print the line of one model."""
    from weft.apps.bench.cluster import DATA_PARALLEL, Interconnect, Update, predict
    from weft.models.build import build_model
    from weft.ragged import Ragged
    from weft.recipe import make_recipe

    width, layers, vocabulary = SIZES[name]
    side = {"kind": "transformer", "hidden": width, "layers": layers, "heads": 4, "feed_forward": 4 * width}
    recipe = make_recipe({"model": {"embedding": width, "encoder": side, "decoder": side}})
    model = build_model(recipe.model, source_size=vocabulary, target_size=vocabulary, seed=1).train()
    optimizer = torch.optim.Adam(model.parameters())
    rows = torch.randint(3, vocabulary, (TOKENS // 20, 20)).tolist()
    source, targets_N = Ragged.of(rows), torch.randint(3, vocabulary, (TOKENS // 20 * 20,))

    def update(sums: bool) -> None:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(source, source)[0], targets_N)
        loss.backward()
        if sums:
            workers.all_reduce_gradients(model.parameters(), loss.detach())
        optimizer.step()

    small, large = (torch.zeros(count) for count in LINK_FLOATS)
    times: dict[str, list[float]] = {"alone": [], "small": [], "large": [], "both": []}
    for number in range(rounds + 2):
        taken = {
            "alone": seconds(lambda: update(False)),
            "small": seconds(lambda: dist.all_reduce(small)),
            "large": seconds(lambda: dist.all_reduce(large)),
            "both": seconds(lambda: update(True)),
        }
        for part, value in taken.items():
            if number >= 2:
                times[part].append(value)
    middle = {part: median(values) for part, values in times.items()}
    # a sum is two messages of half of the tensor
    latency = middle["small"] / 2
    rate = 4 * LINK_FLOATS[1] / max(middle["large"] - middle["small"], 1e-9)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    link = Interconnect(per_machine=2, machine_rate=rate, network_rate=rate, latency=latency)
    predicted = predict(DATA_PARALLEL, Update(middle["alone"], TOKENS, 4 * parameters), 2, link)
    line = {
        "model": name,
        "parameters": parameters,
        "alone_ms": round(1000 * middle["alone"], 2),
        "rate_GB_per_s": round(rate / 1e9, 2),
        "latency_ms": round(1000 * latency, 3),
        "predicted_ms": round(1000 * predicted.seconds, 2),
        "measured_ms": round(1000 * middle["both"], 2),
        "predicted_over_measured": round(predicted.seconds / middle["both"], 3),
        "efficiency": [round(predicted.efficiency, 3), round(middle["alone"] / middle["both"], 3)],
    }
    if workers.is_main:
        print(json.dumps(line), flush=True)


def worker(rank: int, port: int, rounds: int) -> None:
    from weft.training.distributed import Workers

    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=2)
    workers = Workers(rank, 2, rank)
    for name in SIZES:
        measure(name, workers, rounds)
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=12)
    given = parser.parse_args()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes.spawn(worker, (port, given.rounds), nprocs=2)


if __name__ == "__main__":
    main()
