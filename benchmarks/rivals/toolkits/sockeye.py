"""Sockeye 3: Transformers only."""

import sys
from pathlib import Path

from meter import Meter, before
from workload import FEED_FORWARD, FOREVER, HEADS, SEED, WIDTH, Workload


def train(workload: Workload, folder: Path, meter: Meter) -> None:
    from sockeye import constants
    from sockeye.train import main as run
    from sockeye.training import EarlyStoppingTrainer

    def note(trainer, batch):
        source, label = batch.source[:, :, 0], batch.labels[constants.TARGET_LABEL_NAME]
        words = int((source != constants.PAD_ID).sum())
        target = int((label != constants.PAD_ID).sum())
        meter.step(trainer.sockeye_model, target, words, source.numel() + label.numel(), len(source))

    before(EarlyStoppingTrainer, "_step", note)
    texts = {
        "--source": ("train", "en"),
        "--target": ("train", "de"),
        "--validation-source": ("val", "en"),
        "--validation-target": ("val", "de"),
    }
    dropout = str(workload.dropout)
    sys.argv = [
        *["sockeye-train", "--output", str(folder / "model"), "--use-cpu", "--seed", str(SEED), "--no-logfile"],
        *[word for option, which in texts.items() for word in (option, str(workload.text(*which)))],
        *["--shared-vocab", "--weight-tying-type", "src_trg_softmax"],
        *["--num-layers", str(workload.layers), "--num-embed", str(WIDTH), "--transformer-model-size", str(WIDTH)],
        *["--transformer-attention-heads", str(HEADS), "--transformer-feed-forward-num-hidden", str(FEED_FORWARD)],
        *["--embed-dropout", dropout, "--transformer-dropout-prepost", dropout],
        *["--transformer-dropout-attention", "0", "--transformer-dropout-act", "0"],
        *["--batch-type", "max-word", "--batch-size", str(workload.tokens)],
        *["--optimizer", "adam", "--initial-learning-rate", str(workload.learning_rate)],
        *["--learning-rate-scheduler-type", "none", "--label-smoothing", str(workload.label_smoothing)],
        *["--gradient-clipping-type", "norm", "--gradient-clipping-threshold", str(workload.clip)],
        *["--checkpoint-interval", str(FOREVER), "--max-updates", str(FOREVER), "--decode-and-evaluate", "0"],
    ]
    run()
