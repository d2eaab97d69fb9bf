"""Training speed of weft on the workloads of benchmarks/rivals, measured in the same way: one line of JSON.

    python benchmarks/train.py --model rnn --attention general --data $RIVALS/data --seconds 60
    python benchmarks/train.py --model transformer --data $RIVALS/data --seconds 60

Data: {train,val}.bpe.{en,de} as benchmarks/rivals/prepare.py writes them. Sizes, dropout, label smoothing and clipping
are those of benchmarks/rivals/workload.py; Adam, fp32, batches of "2048 tokens". Any setting of the recipe may be
changed: `--set NAME=VALUE`. The whole loop is timed: batches, forward, backward, clipping, optimizer.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

MATMUL = "torch.set_float32_matmul_precision: medium allows bf16 products of fp32 matrices where a CPU has them"


def recurrent(attention: str) -> dict[str, Any]:
    """One bidirectional LSTM, 2 × 256; one LSTM of 512 with input feeding; nothing tied."""
    return {
        "model": {
            "embedding": 256,
            "dropout": 0.2,
            "encoder": {"kind": "lstm", "hidden": 512},
            "decoder": {"kind": "lstm", "hidden": 512, "input_feeding": True},
            "attention": {"score": attention},
        },
        "training": {"clip": 5.0, "label_smoothing": 0.0},
    }


def transformer() -> dict[str, Any]:
    """3 + 3 layers, 256 wide, all embeddings and the output tied."""
    side = {"kind": "transformer", "layers": 3, "hidden": 256, "heads": 4, "feed_forward": 1024}
    return {
        "model": {"embedding": 256, "tie": "all", "dropout": 0.1, "encoder": side, "decoder": dict(side)},
        "training": {"clip": 1.0, "label_smoothing": 0.1, "learning_rate": 3e-4},
    }


def recipe_tree(given: argparse.Namespace) -> dict[str, Any]:
    tree = transformer() if given.model == "transformer" else recurrent(given.attention)
    text = {"source": "train.bpe.en", "target": "train.bpe.de"}
    training = {
        "steps": 1_000_000,
        "batch_tokens": 2048,
        "optimizer": "adam",
        "schedule": "constant",
        "validate_every": 0,
        "save_every": 0,
        "device": "cpu",
    }
    return {
        "name": f"{given.model}-speed",
        "data": {"folder": str(given.data), "train": text},
        "tokenizer": {"kind": "word", "size": 100_000, "split_punctuation": False, "joint": True},
        "model": tree["model"],
        "training": {**training, **tree["training"]},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=["rnn", "transformer"], required=True)
    parser.add_argument("--attention", choices=["general", "additive"], default="general", help="of the rnn")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--window", type=float, default=15.0)
    parser.add_argument("--warmup", type=int, default=20, help="steps that are not counted")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--matmul", choices=["highest", "medium"], default="highest", help=MATMUL)
    parser.add_argument("--set", metavar="NAME=VALUE", action="append", default=[], help="change the recipe")
    given = parser.parse_args()

    import torch

    import weft
    from weft.training.events import Started, Step

    torch.set_num_threads(given.threads)
    torch.set_float32_matmul_precision(given.matmul)
    recipe = weft.make_recipe(recipe_tree(given), given.set)
    windows: list[float] = []
    window_cores: list[float] = []
    totals = {"source": 0, "target": 0, "steps": 0, "seconds": 0.0, "cpu": 0.0}
    parameters = 0
    with tempfile.TemporaryDirectory() as folder:
        since, cpu, target, source, steps = 0.0, 0.0, 0, 0, 0
        for event in weft.train(recipe, Path(folder) / "run"):
            if isinstance(event, Started):
                parameters = event.parameters
            if not isinstance(event, Step):
                continue
            if event.step == given.warmup:
                since, cpu = time.monotonic(), cpu_seconds()
                continue
            if event.step < given.warmup:
                continue
            target, source, steps = target + event.target_tokens, source + event.source_tokens, steps + 1
            passed = time.monotonic() - since
            if passed >= given.window:
                used = cpu_seconds() - cpu
                windows.append(round(target / passed, 1))
                window_cores.append(round(used / passed, 2))
                for name, amount in zip(totals, (source, target, steps, passed, used), strict=True):
                    totals[name] += amount
                since, cpu, target, source, steps = time.monotonic(), cpu_seconds(), 0, 0, 0
                if totals["seconds"] >= given.seconds:
                    break
    print(
        json.dumps(
            {
                "rival": "weft",
                "version": weft.__version__,
                "torch": torch.__version__,
                "model": given.model,
                "attention": given.attention if given.model == "rnn" else None,
                "parameters": parameters,
                "target_tokens_per_second": round(totals["target"] / totals["seconds"], 1),
                "windows": windows,
                "source_tokens_per_second": round(totals["source"] / totals["seconds"], 1),
                "target_tokens_per_cpu_second": round(totals["target"] / totals["cpu"], 1),
                "pads": 0.0,
                "steps": totals["steps"],
                "cores": round(totals["cpu"] / totals["seconds"], 2),
                "window_cores": window_cores,
                "threads": given.threads,
                "matmul": given.matmul,
                "set": given.set,
            }
        )
    )


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
