"""OpenNMT-py."""

from pathlib import Path

from meter import Meter, before
from workload import DECODER, EMBEDDING, FEED_FORWARD, FOREVER, HEADS, SEED, WIDTH, Workload, joint_vocabulary


def model(workload: Workload) -> dict:
    if workload.model == "transformer":
        return {
            "encoder_type": "transformer",
            "decoder_type": "transformer",
            "position_encoding": True,
            "word_vec_size": WIDTH,
            "hidden_size": WIDTH,
            "heads": HEADS,
            "transformer_ff": FEED_FORWARD,
            "share_embeddings": True,
            "share_decoder_embeddings": True,
        }
    return {
        "encoder_type": "brnn",
        "decoder_type": "rnn",
        "rnn_type": "LSTM",
        "word_vec_size": EMBEDDING,
        "hidden_size": DECODER,  # of the decoder, and of both directions of the encoder together
        "input_feed": 1,
        "global_attention": {"general": "general", "additive": "mlp"}[workload.attention],
    }


def train(workload: Workload, folder: Path, meter: Meter) -> None:
    import yaml
    from onmt.bin.train import _get_parser
    from onmt.bin.train import train as run
    from onmt.trainer import Trainer

    pieces = "".join(f"{piece}\t{n}\n" for piece, n in joint_vocabulary(workload))
    (folder / "vocabulary.txt").write_text(pieces, encoding="utf-8")
    source, target = workload.text("train", "en"), workload.text("train", "de")
    config = {
        "data": {"train": {"path_src": str(source), "path_tgt": str(target)}},
        "src_vocab": str(folder / "vocabulary.txt"),
        "share_vocab": True,
        "save_model": str(folder / "model"),
        "seed": SEED,
        **model(workload),
        "layers": workload.layers,
        "dropout": [workload.dropout],
        "attention_dropout": [0.0],
        # batches: sorted within the whole corpus, at most so many places in the longer of the two sides
        "batch_type": "tokens",
        "batch_size": workload.tokens,
        "normalization": "tokens",
        "bucket_size": sum(1 for _ in source.open("rb")),
        "num_workers": workload.workers,
        # training
        "optim": "adam",
        "learning_rate": workload.learning_rate,
        "max_grad_norm": workload.clip,
        "label_smoothing": workload.label_smoothing,
        "train_steps": FOREVER,
        "valid_steps": FOREVER,
        "save_checkpoint_steps": FOREVER,
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")

    def note(trainer, batches, *_):
        pad = trainer.train_loss.padding_idx
        target = sum(int((batch["tgt"][:, 1:] != pad).sum()) for batch in batches)
        source = sum(int(batch["srclen"].sum()) for batch in batches)
        slots = sum(len(batch["src"]) * (batch["src"].size(1) + batch["tgt"].size(1) - 1) for batch in batches)
        meter.step(trainer.model, target, source, slots, sum(len(batch["src"]) for batch in batches))

    before(Trainer, "_gradient_accumulation", note)
    options, _ = _get_parser().parse_known_args(["-config", str(folder / "config.yaml")])
    run(options)
