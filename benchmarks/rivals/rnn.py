"""Training speed of another toolkit's recurrent encoder-decoder on the CPU, by its own training loop.

    /work/rivals/opennmt/bin/python rnn.py --rival opennmt --attention general --data /work/rivals/data --seconds 60

Runs inside the toolkit's own virtual environment (see README.md) and prints one line of JSON. The toolkit reads the
text, makes the batches, trains and updates with its own code; here we only write its configuration and note, whenever
a step begins, the time and how many tokens that step holds. A step therefore lasts until the next one begins, so
batching and the optimiser are counted. Nothing is validated or saved while the clock runs.

Tokens are real ones: pads and the start symbol are not counted, the end symbol of the target is. "cores" is CPU time
over wall time, "window_cores" the same window by window: with two threads and a quiet machine it is close to 2; when it
is below 1.8, somebody else was working and the figures mean little. On a busy machine only `--threads 1` and tokens per
second of CPU time can be compared, because two threads that wait for each other burn CPU time too.
"""

import argparse
import contextlib
import dataclasses
import importlib.metadata
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

EMBEDDING = 256
ENCODER = 256  # of each direction
DECODER = 512
DROPOUT = 0.2
CLIP = 5.0
LEARNING_RATE = 1e-3
SEED = 1
FOREVER = 10**6  # steps


class TimeUpError(Exception):
    """Ends the toolkit's training loop."""


class Meter:
    """Counts what passes between the beginnings of steps, in windows of some seconds, after a few steps to warm up."""

    def __init__(self, warmup: int, seconds: float, window: float):
        self.warmup, self.seconds, self.window = warmup, seconds, window
        self.steps = 0
        self.parameters = 0
        self.windows: list[tuple[float, Counter]] = []  # how long it took, what it held
        self.opened: float | None = None
        self.busy = 0.0  # CPU time when the window was opened
        self.counts: Counter = Counter()

    def step(self, model, target: int, source: int, slots: int, sentences: int) -> None:
        """A step over this many target and source tokens, in so many places of both (pads included), begins now."""
        now = time.perf_counter()
        self.parameters = sum(p.numel() for p in model.parameters())
        if self.steps == self.warmup:
            self.open(now)
        if self.opened is not None and now - self.opened >= self.window:
            self.counts["busy"] = time.process_time() - self.busy
            self.windows.append((now - self.opened, self.counts))
            self.open(now)
        if sum(length for length, _ in self.windows) >= self.seconds:
            raise TimeUpError
        self.steps += 1
        self.counts.update(target=target, source=source, slots=slots, sentences=sentences, steps=1)

    def open(self, now: float) -> None:
        self.opened, self.busy, self.counts = now, time.process_time(), Counter()

    def report(self) -> dict:
        length = sum(seconds for seconds, _ in self.windows)
        total = sum((counts for _, counts in self.windows), Counter())
        return {
            "parameters": self.parameters,
            "target_tokens_per_second": round(total["target"] / length, 1),
            "windows": [round(counts["target"] / seconds, 1) for seconds, counts in self.windows],
            "source_tokens_per_second": round(total["source"] / length, 1),
            "cores": round(total["busy"] / length, 2),
            "window_cores": [round(counts["busy"] / seconds, 2) for seconds, counts in self.windows],
            "target_tokens_per_cpu_second": round(total["target"] / total["busy"], 1),
            "pads": round(1 - (total["target"] + total["source"]) / total["slots"], 4),
            "steps": total["steps"],
            "target_tokens_per_step": round(total["target"] / total["steps"], 1),
            "sentences_per_step": round(total["sentences"] / total["steps"], 1),
        }


def before(owner: type, method: str, note: Callable) -> None:
    """Have `note` see the arguments of every call of a method first."""
    original = getattr(owner, method)

    def wrapped(*args, **kwargs):
        note(*args, **kwargs)
        return original(*args, **kwargs)

    setattr(owner, method, wrapped)


def joint_vocabulary(data: Path) -> list[tuple[str, int]]:
    counts: Counter = Counter()
    for language in ("en", "de"):
        with (data / f"train.bpe.{language}").open(encoding="utf-8") as lines:
            for line in lines:
                counts.update(line.split())
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def opennmt(args: argparse.Namespace, work: Path, meter: Meter) -> None:
    import yaml
    from onmt.bin.train import _get_parser, train
    from onmt.trainer import Trainer

    vocabulary = joint_vocabulary(args.data)
    (work / "vocabulary.txt").write_text("".join(f"{piece}\t{n}\n" for piece, n in vocabulary), encoding="utf-8")
    config = {
        "data": {"train": {"path_src": str(args.data / "train.bpe.en"), "path_tgt": str(args.data / "train.bpe.de")}},
        "src_vocab": str(work / "vocabulary.txt"),
        "share_vocab": True,
        "save_model": str(work / "model"),
        "seed": SEED,
        # the model
        "encoder_type": "brnn",
        "decoder_type": "rnn",
        "rnn_type": "LSTM",
        "layers": args.layers,
        "word_vec_size": EMBEDDING,
        "hidden_size": DECODER,  # of the decoder, and of both directions of the encoder together
        "input_feed": 1,
        "global_attention": {"general": "general", "additive": "mlp"}[args.attention],
        "dropout": [DROPOUT],
        "attention_dropout": [0.0],
        # batches: sorted within the whole corpus, at most so many places in the longer of the two sides
        "batch_type": "tokens",
        "batch_size": args.tokens,
        "normalization": "tokens",
        "bucket_size": sum(1 for _ in (args.data / "train.bpe.en").open("rb")),
        "num_workers": args.workers,
        # training
        "optim": "adam",
        "learning_rate": LEARNING_RATE,
        "max_grad_norm": CLIP,
        "label_smoothing": args.label_smoothing,
        "train_steps": FOREVER,
        "valid_steps": FOREVER,
        "save_checkpoint_steps": FOREVER,
    }
    (work / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")

    def note(trainer, batches, *_):
        pad = trainer.train_loss.padding_idx
        target = sum(int((batch["tgt"][:, 1:] != pad).sum()) for batch in batches)
        source = sum(int(batch["srclen"].sum()) for batch in batches)
        slots = sum(len(batch["src"]) * (batch["src"].size(1) + batch["tgt"].size(1) - 1) for batch in batches)
        meter.step(trainer.model, target, source, slots, sum(len(batch["src"]) for batch in batches))

    before(Trainer, "_gradient_accumulation", note)
    options, _ = _get_parser().parse_known_args(["-config", str(work / "config.yaml")])
    train(options)


def fairseq(args: argparse.Namespace, work: Path, meter: Meter) -> None:
    if args.attention != "general":
        raise SystemExit("fairseq's lstm has general attention only")
    with hashable_dataclasses():
        from fairseq_cli.train import cli_main
    from fairseq.trainer import Trainer

    vocabulary = "".join(f"{piece} {n}\n" for piece, n in joint_vocabulary(args.data))
    for language in ("en", "de"):
        (work / f"dict.{language}.txt").write_text(vocabulary, encoding="utf-8")
        for split, text in (("train", "train"), ("valid", "val")):
            (work / f"{split}.en-de.{language}").symlink_to((args.data / f"{text}.bpe.{language}").resolve())

    def note(trainer, samples, *_, **__):
        pad = trainer.task.target_dictionary.pad()
        target = source = slots = sentences = 0
        for sample in samples:
            words = sample["net_input"]["src_tokens"]
            target += int((sample["target"] != pad).sum())
            source += int((words != pad).sum())
            slots += words.numel() + sample["target"].numel()
            sentences += len(words)
        meter.step(trainer.model, target, source, slots, sentences)

    before(Trainer, "train_step", note)
    smoothing = ["--criterion", "cross_entropy"]
    if args.label_smoothing:
        smoothing = ["--criterion", "label_smoothed_cross_entropy", "--label-smoothing", str(args.label_smoothing)]
    sys.argv = [
        *["fairseq-train", str(work), "--task", "translation", "-s", "en", "-t", "de", "--dataset-impl", "raw"],
        *["--cpu", "--seed", str(SEED), "--num-workers", str(args.workers)],
        *["--arch", "lstm", "--dropout", str(DROPOUT)],
        *["--encoder-embed-dim", str(EMBEDDING), "--encoder-hidden-size", str(ENCODER), "--encoder-bidirectional"],
        *["--decoder-embed-dim", str(EMBEDDING), "--decoder-hidden-size", str(DECODER)],
        *["--decoder-out-embed-dim", str(DECODER), "--decoder-attention", "1"],
        *["--encoder-layers", str(args.layers), "--decoder-layers", str(args.layers)],
        *["--max-tokens", str(args.tokens), *smoothing],
        *["--optimizer", "adam", "--lr", str(LEARNING_RATE), "--lr-scheduler", "fixed", "--clip-norm", str(CLIP)],
        *["--max-update", str(FOREVER), "--no-save", "--disable-validation", "--log-format", "none"],
        *["--save-dir", str(work / "model")],
    ]
    cli_main()


@contextlib.contextmanager
def hashable_dataclasses():
    """Import fairseq 0.12.2 (and the hydra it wants) with Python 3.11, which refuses unhashable defaults of fields."""
    import torch  # noqa: F401  # so that torch sees the real decorator

    plain = dataclasses.dataclass

    def lenient(cls=None, **options):
        decorate = plain(**{"unsafe_hash": True, **options})
        return decorate if cls is None else decorate(cls)

    dataclasses.dataclass = lenient
    try:
        yield
    finally:
        dataclasses.dataclass = plain


def joey(args: argparse.Namespace, work: Path, meter: Meter) -> None:
    from joeynmt.training import TrainManager, train

    vocabulary = [piece for piece, _ in joint_vocabulary(args.data)]
    special = ["<unk>", "<pad>", "<s>", "</s>"]
    (work / "vocabulary.txt").write_text("\n".join(special + vocabulary) + "\n", encoding="utf-8")
    (work / "model").mkdir()
    side = {"level": "word", "lowercase": False, "voc_file": str(work / "vocabulary.txt")}
    embeddings = {"embedding_dim": EMBEDDING, "scale": False, "dropout": DROPOUT}
    rnn = {"type": "recurrent", "rnn_type": "lstm", "num_layers": args.layers, "dropout": DROPOUT}
    config = {
        "name": "rnn",
        "model_dir": str(work / "model"),
        "use_cuda": False,
        "random_seed": SEED,
        "num_workers": args.workers,
        "data": {
            "train": str(args.data / "train.bpe"),
            "dev": str(args.data / "val.bpe"),
            "dataset_type": "plain",
            "src": {"lang": "en", **side},
            "trg": {"lang": "de", **side},
        },
        "model": {
            "initializer": "xavier_uniform",
            "tied_embeddings": False,
            "tied_softmax": False,
            "encoder": {**rnn, "embeddings": embeddings, "hidden_size": ENCODER, "bidirectional": True},
            "decoder": {
                **rnn,
                "embeddings": embeddings,
                "hidden_size": DECODER,
                "hidden_dropout": DROPOUT,
                "init_hidden": "last",
                "input_feeding": True,
                "attention": {"general": "luong", "additive": "bahdanau"}[args.attention],
            },
        },
        "training": {
            "batch_type": "token",
            "batch_size": args.tokens,
            "normalization": "tokens",
            "shuffle": True,
            "optimizer": "adam",
            "learning_rate": LEARNING_RATE,
            "learning_rate_min": 0.0,
            "scheduling": "warmupinversesquareroot",  # "plateau" passes torch an argument it has dropped
            "learning_rate_warmup": 1000,
            "clip_grad_norm": CLIP,
            "label_smoothing": args.label_smoothing,
            "epochs": FOREVER,
            "logging_freq": 100,
            "validation_freq": FOREVER,
        },
        "testing": {},
    }

    def note(trainer, batch):
        slots = batch.src.numel() + batch.trg.numel()
        meter.step(trainer.model, int(batch.ntokens), int(batch.src_mask.sum()), slots, batch.nseqs)

    before(TrainManager, "_train_step", note)
    train(rank=0, world_size=None, cfg=config, skip_test=True)


RIVALS = {"opennmt": (opennmt, "OpenNMT-py"), "fairseq": (fairseq, "fairseq"), "joey": (joey, "joeynmt")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rival", choices=RIVALS, required=True)
    parser.add_argument("--attention", choices=("general", "additive"), default="general")
    parser.add_argument("--data", type=Path, required=True, help="folder with {train,val}.bpe.{en,de}")
    parser.add_argument("--seconds", type=float, default=60, help="of measurement, after warming up")
    parser.add_argument("--window", type=float, default=15, help="seconds of one window")
    parser.add_argument("--warmup", type=int, default=20, help="steps before the clock starts")
    parser.add_argument("--tokens", type=int, default=2048, help="of a batch, as the toolkit counts them")
    parser.add_argument("--layers", type=int, default=1)
    parser.add_argument("--label-smoothing", type=float, default=0.0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--workers", type=int, default=0, help="processes that prepare batches beside the trainer")
    args = parser.parse_args()

    os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(args.threads)
    import torch

    torch.set_num_threads(args.threads)
    train, package = RIVALS[args.rival]
    meter = Meter(args.warmup, args.seconds, args.window)
    with (
        tempfile.TemporaryDirectory(prefix="rival-") as work,
        contextlib.redirect_stdout(sys.stderr),
        contextlib.suppress(TimeUpError),
    ):
        train(args, Path(work), meter)
    result = {
        "rival": args.rival,
        "version": importlib.metadata.version(package),
        "torch": torch.__version__,
        "attention": args.attention,
        **meter.report(),
        "layers": args.layers,
        "tokens": args.tokens,
        "label_smoothing": args.label_smoothing,
        "threads": args.threads,
        "workers": args.workers,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
