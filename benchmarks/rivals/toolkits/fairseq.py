"""fairseq: `lstm` and `transformer`."""

import contextlib
import dataclasses
import sys
from pathlib import Path

from meter import Meter, before
from workload import DECODER, EMBEDDING, ENCODER, FEED_FORWARD, FOREVER, HEADS, SEED, WIDTH, Workload, joint_vocabulary


def model(workload: Workload) -> list[str]:
    if workload.model == "transformer":
        sizes = {"embed-dim": WIDTH, "ffn-embed-dim": FEED_FORWARD, "attention-heads": HEADS}
        sides = [(side, name, size) for side in ("encoder", "decoder") for name, size in sizes.items()]
        options = [word for side, name, size in sides for word in (f"--{side}-{name}", str(size))]
        return ["--arch", "transformer", "--share-all-embeddings", *options]
    if workload.attention != "general":
        raise SystemExit("fairseq's lstm has general attention only")
    return [
        *["--arch", "lstm", "--encoder-bidirectional"],
        *["--encoder-embed-dim", str(EMBEDDING), "--encoder-hidden-size", str(ENCODER)],
        *["--decoder-embed-dim", str(EMBEDDING), "--decoder-hidden-size", str(DECODER)],
        *["--decoder-out-embed-dim", str(DECODER), "--decoder-attention", "1"],
    ]


def train(workload: Workload, folder: Path, meter: Meter) -> None:
    options = model(workload)
    with hashable_dataclasses():
        from fairseq_cli.train import cli_main
    from fairseq.trainer import Trainer

    vocabulary = "".join(f"{piece} {n}\n" for piece, n in joint_vocabulary(workload))
    for language in ("en", "de"):
        (folder / f"dict.{language}.txt").write_text(vocabulary, encoding="utf-8")
        for split, text in (("train", "train"), ("valid", "val")):
            (folder / f"{split}.en-de.{language}").symlink_to(workload.text(text, language).resolve())

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
    loss = ["--criterion", "cross_entropy"]
    if workload.label_smoothing:
        loss = ["--criterion", "label_smoothed_cross_entropy", "--label-smoothing", str(workload.label_smoothing)]
    rate = str(workload.learning_rate)
    sys.argv = [
        *["fairseq-train", str(folder), "--task", "translation", "-s", "en", "-t", "de", "--dataset-impl", "raw"],
        *["--cpu", "--seed", str(SEED), "--num-workers", str(workload.workers)],
        *[*options, "--dropout", str(workload.dropout)],
        *["--encoder-layers", str(workload.layers), "--decoder-layers", str(workload.layers)],
        *["--max-tokens", str(workload.tokens), *loss],
        *["--optimizer", "adam", "--lr", rate, "--lr-scheduler", "fixed", "--clip-norm", str(workload.clip)],
        *["--max-update", str(FOREVER), "--no-save", "--disable-validation", "--log-format", "none"],
        *["--save-dir", str(folder / "model")],
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
