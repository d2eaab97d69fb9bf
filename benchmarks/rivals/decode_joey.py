"""Joey NMT: a fresh model, and the search that `joeynmt translate` runs (`prediction.predict` over a stream).

`predict` reads the setting `min_output_length` but does not hand it on to the search; here it is handed on.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from toolkits.joey import model
from workload import SEED, Workload, joint_vocabulary


def searcher(workload: Workload, folder: Path, *, beam: int, batch: int, length: int) -> Callable:
    from joeynmt import prediction
    from joeynmt.config import parse_global_args
    from joeynmt.data import load_data
    from joeynmt.model import build_model

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
        "data": {
            "dataset_type": "stream",
            "test": "unused",
            "src": {"lang": "en", **side},
            "trg": {"lang": "de", **side},
        },
        "model": {"initializer": "xavier_uniform", **model(workload)},
        "training": {"batch_size": batch, "learning_rate": workload.learning_rate},
        "testing": {
            "beam_size": beam,
            "beam_alpha": 1.0,
            "batch_size": batch,
            "batch_type": "sentence",
            "min_output_length": length,
            "max_output_length": length,
            "eval_metrics": [],
        },
    }
    args = parse_global_args(config, rank=0, mode="translate")
    source_vocabulary, target_vocabulary, _, _, stream = load_data(cfg=args.data, datasets=["stream"])
    fresh = build_model(args.model, src_vocab=source_vocabulary, trg_vocab=target_vocabulary)
    fresh.loss_function = ("crossentropy", 0.0)
    prediction.search = partial(prediction.search, min_output_length=length)

    def search(lines: list[str]) -> list[int]:
        stream.reset_cache()
        for line in lines:
            stream.set_item(line)
        _, _, _, tokens, _, _ = prediction.predict(
            model=fresh,
            data=stream,
            device=args.device,
            n_gpu=0,
            normalization="none",
            args=args.test,
            autocast=args.autocast,
        )
        return [len([token for token in found if token != "</s>"]) for found in tokens]

    return search
