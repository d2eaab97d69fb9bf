"""Decoding speed of another toolkit's encoder-decoder on the CPU, by its own search.

    $RIVALS/opennmt/bin/python decode.py --rival opennmt --model rnn --data $RIVALS/data --beam 5

Runs inside the toolkit's own virtual environment (see README.md) and prints one line of JSON. Weights are fresh: speed
does not depend on them, because every output has exactly `--length` tokens. All toolkits are handed the same lines in
the same batches: the first `--sentences` of val.bpe.en (and train.bpe.en), sorted by length. `decode_*.py` say how a
toolkit's own search is called; what is timed starts with lines of text and ends with the tokens found. With `--batch 1`
the times of single calls are given (p50, p99, in ms).

"cores" is CPU time over wall time: with two threads and a quiet machine it is close to 2.
"""

import argparse
import contextlib
import importlib
import importlib.metadata
import json
import os
import random
import sys
import tempfile
import time
from pathlib import Path

from workload import DEFAULTS, SEED, Workload

RIVALS = {  # its package, the models it has
    "opennmt": ("OpenNMT-py", ("rnn", "transformer")),
    "fairseq": ("fairseq", ("rnn", "transformer")),
    "joey": ("joeynmt", ("rnn", "transformer")),
    "hf": ("transformers", ("transformer",)),
}


def options() -> argparse.ArgumentParser:
    """Options shared with the script for weft (../decode.py)."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=DEFAULTS, required=True)
    parser.add_argument("--attention", choices=("general", "additive"), default="general", help="of the rnn")
    parser.add_argument("--data", type=Path, required=True, help="folder with {train,val}.bpe.{en,de}")
    parser.add_argument("--beam", type=int, default=5, help="1: greedy")
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=64, help="sentences per call")
    parser.add_argument("--length", type=int, default=20, help="tokens of every output")
    parser.add_argument("--threads", type=int, default=2)
    return parser


def batches(data: Path, *, sentences: int, batch: int) -> list[list[str]]:
    """Lines sorted by length, in batches, the batches in a random order: the same for everyone."""
    lines = [line for name in ("val", "train") for line in (data / f"{name}.bpe.en").read_text("utf-8").splitlines()]
    lines = sorted(lines[:sentences], key=lambda line: len(line.split()))
    found = [lines[first : first + batch] for first in range(0, len(lines), batch)]
    random.Random(SEED).shuffle(found)
    return found


def measure(search, work: list[list[str]]) -> dict:
    """Search all batches, after one for warming up; ``search`` maps lines to the numbers of tokens found."""
    search(work[0])
    times, lengths = [], []
    since, busy = time.monotonic(), time.process_time()
    for lines in work:
        began = time.monotonic()
        lengths += search(lines)
        times.append(1000 * (time.monotonic() - began))
    passed, busy = time.monotonic() - since, time.process_time() - busy
    sentences = sum(map(len, work))
    times.sort()
    return {
        "sentences_per_second": round(sentences / passed, 2),
        "sentences_per_cpu_second": round(sentences / busy, 2),
        "p50_ms": round(times[len(times) // 2], 1),
        "p99_ms": round(times[min(len(times) * 99 // 100, len(times) - 1)], 1),
        "tokens": [min(lengths), max(lengths)],
        "sentences": sentences,
        "batch": len(work[0]),
        "cores": round(busy / passed, 2),
    }


def main() -> None:
    parser = options()
    parser.add_argument("--rival", choices=RIVALS, required=True)
    args = parser.parse_args()
    package, models = RIVALS[args.rival]
    if args.model not in models:
        parser.error(f"--rival {args.rival} has no --model {args.model}")
    attention = args.attention if args.model == "rnn" else None
    workload = Workload(
        model=args.model, data=args.data.resolve(), attention=attention, workers=0, **DEFAULTS[args.model]
    )
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # fairseq's --cpu uses a GPU in part
    os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(args.threads)
    import torch

    torch.manual_seed(SEED)
    torch.set_num_threads(args.threads)
    work = batches(workload.data, sentences=args.sentences, batch=args.batch)
    with tempfile.TemporaryDirectory(prefix="rival-") as folder, contextlib.redirect_stdout(sys.stderr):
        toolkit = importlib.import_module(f"decode_{args.rival}")
        search = toolkit.searcher(workload, Path(folder), beam=args.beam, batch=args.batch, length=args.length)
        torch.set_num_threads(args.threads)
        with torch.no_grad():
            found = measure(search, work)
    result = {
        "rival": args.rival,
        "version": importlib.metadata.version(package),
        "torch": torch.__version__,
        "model": workload.model,
        "attention": workload.attention,
        "beam": args.beam,
        **found,
        "threads": torch.get_num_threads(),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
