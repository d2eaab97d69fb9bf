"""Training speed of another toolkit's encoder-decoder on the CPU, by its own training loop.

    $RIVALS/opennmt/bin/python train.py --rival opennmt --model transformer --data $RIVALS/data --seconds 60

Runs inside the toolkit's own virtual environment (see README.md) and prints one line of JSON. The toolkit reads the
text, makes the batches, trains and updates with its own code; here we only write its configuration and note, whenever
a step begins, the time and how many tokens that step holds (only Hugging Face's loop is ours: toolkits/hf.py). A step
therefore lasts until the next one begins, so batching and the optimizer are counted. Nothing is validated or saved
while the clock runs.

Tokens are real ones: pads and the start symbol are not counted, the end symbol of the target is. "cores" is CPU time
over wall time, "window_cores" the same window by window: with two threads and a quiet machine it is close to 2; when it
is below 1.8, somebody else was working and the figures mean little. On a busy machine only `--threads 1` and tokens per
second of CPU time can be compared, because two threads that wait for each other burn CPU time too.
"""

import argparse
import contextlib
import importlib
import importlib.metadata
import json
import os
import sys
import tempfile
from pathlib import Path

from meter import Meter, TimeUpError
from workload import DEFAULTS, Workload

RIVALS = {  # its package, the models it has
    "opennmt": ("OpenNMT-py", ("rnn", "transformer")),
    "fairseq": ("fairseq", ("rnn", "transformer")),
    "joey": ("joeynmt", ("rnn", "transformer")),
    "hf": ("transformers", ("transformer",)),
    "hf-compiled": ("transformers", ("transformer",)),  # the same model through torch.compile
    "eole": ("eole", ("transformer",)),
    "sockeye": ("sockeye", ("transformer",)),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rival", choices=RIVALS, required=True)
    parser.add_argument("--model", choices=DEFAULTS, required=True)
    parser.add_argument("--attention", choices=("general", "additive"), default="general", help="of the rnn")
    parser.add_argument("--data", type=Path, required=True, help="folder with {train,val}.bpe.{en,de}")
    parser.add_argument("--seconds", type=float, default=60, help="of measurement, after warming up")
    parser.add_argument("--window", type=float, default=15, help="seconds of one window")
    parser.add_argument("--warmup", type=int, default=20, help="steps before the clock starts")
    parser.add_argument("--tokens", type=int, default=2048, help="of a batch, as the toolkit counts them")
    parser.add_argument("--layers", type=int, help="1 (rnn) or 3 (transformer) unless given")
    parser.add_argument("--label-smoothing", type=float, help="0 (rnn) or 0.1 (transformer) unless given")
    parser.add_argument("--matmul", choices=("highest", "medium"), default="highest", help="as in ../train.py")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--workers", type=int, default=0, help="processes that prepare batches beside the trainer")
    args = parser.parse_args()
    package, models = RIVALS[args.rival]
    if args.model not in models:
        parser.error(f"--rival {args.rival} has no --model {args.model}")
    chosen = {name: getattr(args, name) for name in ("layers", "label_smoothing") if getattr(args, name) is not None}
    workload = Workload(
        model=args.model,
        data=args.data.resolve(),
        attention=args.attention if args.model == "rnn" else None,
        tokens=args.tokens,
        workers=args.workers,
        **{**DEFAULTS[args.model], **chosen},
    )

    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # fairseq's --cpu uses a GPU in part
    os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(args.threads)
    import torch

    torch.set_num_threads(args.threads)
    torch.set_float32_matmul_precision(args.matmul)
    meter = Meter(args.warmup, args.seconds, args.window)
    with (
        tempfile.TemporaryDirectory(prefix="rival-") as folder,
        contextlib.redirect_stdout(sys.stderr),
        contextlib.suppress(TimeUpError),
    ):
        name, _, variant = args.rival.partition("-")
        toolkit = importlib.import_module(f"toolkits.{name}")
        toolkit.train(workload, Path(folder), meter, **({variant: True} if variant else {}))
    result = {
        "rival": args.rival,
        "version": importlib.metadata.version(package),
        "torch": torch.__version__,
        "model": workload.model,
        "attention": workload.attention,
        **meter.report(),
        "layers": workload.layers,
        "tokens": workload.tokens,
        "label_smoothing": workload.label_smoothing,
        "threads": args.threads,
        "matmul": args.matmul,
        "workers": workload.workers,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
