"""Joey NMT."""

from pathlib import Path

from meter import Meter, before
from workload import DECODER, EMBEDDING, ENCODER, FEED_FORWARD, FOREVER, HEADS, SEED, WIDTH, Workload, joint_vocabulary


def model(workload: Workload) -> dict:
    dropout = workload.dropout
    if workload.model == "transformer":
        side = {
            "type": "transformer",
            "num_layers": workload.layers,
            "num_heads": HEADS,
            "embeddings": {"embedding_dim": WIDTH, "scale": True, "dropout": dropout},
            "hidden_size": WIDTH,
            "ff_size": FEED_FORWARD,
            "dropout": dropout,
            "layer_norm": "pre",
        }
        return {"tied_embeddings": True, "tied_softmax": True, "encoder": side, "decoder": side}
    embeddings = {"embedding_dim": EMBEDDING, "scale": False, "dropout": dropout}
    rnn = {"type": "recurrent", "rnn_type": "lstm", "num_layers": workload.layers, "dropout": dropout}
    return {
        "tied_embeddings": False,
        "tied_softmax": False,
        "encoder": {**rnn, "embeddings": embeddings, "hidden_size": ENCODER, "bidirectional": True},
        "decoder": {
            **rnn,
            "embeddings": embeddings,
            "hidden_size": DECODER,
            "hidden_dropout": dropout,
            "init_hidden": "last",
            "input_feeding": True,
            "attention": {"general": "luong", "additive": "bahdanau"}[workload.attention],
        },
    }


def train(workload: Workload, folder: Path, meter: Meter) -> None:
    from joeynmt.training import TrainManager
    from joeynmt.training import train as run

    vocabulary = [piece for piece, _ in joint_vocabulary(workload)]
    special = ["<unk>", "<pad>", "<s>", "</s>"]
    (folder / "vocabulary.txt").write_text("\n".join(special + vocabulary) + "\n", encoding="utf-8")
    (folder / "model").mkdir()
    side = {"level": "word", "lowercase": False, "voc_file": str(folder / "vocabulary.txt")}
    config = {
        "name": workload.model,
        "model_dir": str(folder / "model"),
        "use_cuda": False,
        "random_seed": SEED,
        "num_workers": workload.workers,
        "data": {
            "train": str(workload.data / "train.bpe"),
            "dev": str(workload.data / "val.bpe"),
            "dataset_type": "plain",
            "src": {"lang": "en", **side},
            "trg": {"lang": "de", **side},
        },
        "model": {"initializer": "xavier_uniform", **model(workload)},
        "training": {
            "batch_type": "token",
            "batch_size": workload.tokens,
            "normalization": "tokens",
            "shuffle": True,
            "optimizer": "adam",
            "learning_rate": workload.learning_rate,
            "learning_rate_min": 0.0,
            "scheduling": "warmupinversesquareroot",  # "plateau" passes torch an argument it has dropped
            "learning_rate_warmup": 1000,
            "clip_grad_norm": workload.clip,
            "label_smoothing": workload.label_smoothing,
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
    run(rank=0, world_size=None, cfg=config, skip_test=True)
