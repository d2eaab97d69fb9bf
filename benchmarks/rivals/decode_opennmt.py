"""OpenNMT-py: one step of training makes a checkpoint, its own inference engine reads it and searches."""

import os
from collections.abc import Callable
from pathlib import Path

from toolkits.opennmt import model
from workload import SEED, Workload, joint_vocabulary


def checkpoint(workload: Workload, folder: Path) -> Path:
    import yaml
    from onmt.bin.train import _get_parser, train

    pieces = "".join(f"{piece}\t{n}\n" for piece, n in joint_vocabulary(workload))
    (folder / "vocabulary.txt").write_text(pieces, encoding="utf-8")
    source, target = workload.text("val", "en"), workload.text("val", "de")
    config = {
        "data": {"train": {"path_src": str(source), "path_tgt": str(target)}},
        "src_vocab": str(folder / "vocabulary.txt"),
        "share_vocab": True,
        "save_model": str(folder / "model"),
        "seed": SEED,
        **model(workload),
        "layers": workload.layers,
        "dropout": [0.0],
        "attention_dropout": [0.0],
        "batch_size": 8,
        "bucket_size": 1000,  # by default it would read the text until it has 262,144 lines
        "num_workers": 0,
        "train_steps": 1,
        "valid_steps": 10,
        "save_checkpoint_steps": 1,
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    given, _ = _get_parser().parse_known_args(["-config", str(folder / "config.yaml")])
    train(given)
    return folder / "model_step_1.pt"


def engine(model_file: Path, *, beam: int, batch: int, length: int, device: str = "cpu", precision: str = "fp32"):
    """Its inference engine, for outputs of exactly ``length`` tokens."""
    from onmt.bin.translate import _get_parser
    from onmt.inference_engine import InferenceEnginePY
    from onmt.utils.parse import ArgumentParser

    given = _get_parser().parse_args(
        [
            *["-model", str(model_file), "-src", "unused", "-output", str(model_file.parent / "found.txt")],
            *["-beam_size", str(beam), "-batch_size", str(batch), "-batch_type", "sents"],
            *["-gpu", "0" if device == "cuda" else "-1", "-precision", precision],
            *["-min_length", str(length), "-max_length", str(length), "-max_length_ratio", "0"],
        ]
    )
    ArgumentParser.validate_translate_opts(given)
    ArgumentParser._get_all_transform_translate(given)
    ArgumentParser._validate_transforms_opts(given)
    ArgumentParser.validate_translate_opts_dynamic(given)
    os.environ["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] = "1"  # its checkpoints hold Python objects
    return InferenceEnginePY(given)


def searcher(workload: Workload, folder: Path, *, beam: int, batch: int, length: int) -> Callable:
    made = engine(checkpoint(workload, folder), beam=beam, batch=batch, length=length)

    def search(lines: list[str]) -> list[int]:
        _, found = made.infer_list(lines)
        return [len(best[0].split()) for best in found]

    return search
