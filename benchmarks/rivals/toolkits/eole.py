"""Eole, which carries OpenNMT-py on: only its Transformer is asked for."""

from pathlib import Path

from meter import Meter, before
from workload import FEED_FORWARD, FOREVER, HEADS, SEED, WIDTH, Workload, joint_vocabulary


def train(workload: Workload, folder: Path, meter: Meter) -> None:
    from eole.bin.run.train import train as run
    from eole.config.run import TrainConfig
    from eole.trainer import Trainer

    pieces = "".join(f"{piece}\t{n}\n" for piece, n in joint_vocabulary(workload))
    (folder / "vocabulary.txt").write_text(pieces, encoding="utf-8")
    source, target = workload.text("train", "en"), workload.text("train", "de")
    config = TrainConfig(
        data={"train": {"path_src": str(source), "path_tgt": str(target)}},
        src_vocab=str(folder / "vocabulary.txt"),
        tgt_vocab=str(folder / "vocabulary.txt"),
        share_vocab=True,
        seed=SEED,
        model={
            "architecture": "transformer",
            "layers": workload.layers,
            "hidden_size": WIDTH,
            "heads": HEADS,
            "transformer_ff": FEED_FORWARD,
            "embeddings": {"word_vec_size": WIDTH, "position_encoding_type": "SinusoidalInterleaved"},
            "share_embeddings": True,
            "share_decoder_embeddings": True,
        },
        training={
            "model_path": str(folder / "model"),
            "compute_dtype": "fp32",
            "dropout": [workload.dropout],
            "attention_dropout": [0.0],
            # batches: sorted within the whole corpus, at most so many places in the longer of the two sides
            "batch_type": "tokens",
            "batch_size": workload.tokens,
            "normalization": "tokens",
            "bucket_size": sum(1 for _ in source.open("rb")),
            "num_workers": workload.workers,
            "optim": "adam",
            "learning_rate": workload.learning_rate,
            "decay_method": "none",
            "start_decay_steps": FOREVER,
            "max_grad_norm": workload.clip,
            "label_smoothing": workload.label_smoothing,
            "train_steps": FOREVER,
            "valid_steps": FOREVER,
            "save_checkpoint_steps": FOREVER,
        },
    )

    def note(trainer, batches, *_, **__):
        pad = trainer.train_loss.padding_idx
        target = sum(int((batch["tgt"][:, 1:] != pad).sum()) for batch in batches)
        source = sum(int((batch["src"] != pad).sum()) for batch in batches)
        slots = sum(len(batch["src"]) * (batch["src"].size(1) + batch["tgt"].size(1) - 1) for batch in batches)
        meter.step(trainer.model, target, source, slots, sum(len(batch["src"]) for batch in batches))

    before(Trainer, "_train_step", note)
    run(config)
