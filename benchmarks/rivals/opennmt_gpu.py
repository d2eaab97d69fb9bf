"""Decoding speed of OpenNMT-py's recurrent model on one GPU, by its own search: one line of JSON for each case.

    $RIVALS/opennmt/bin/python opennmt_gpu.py --data $RIVALS/data

The workload is that of ../recurrent_gpu.py, which runs this file in OpenNMT-py's own environment. By text: its
inference engine (`infer_list`) from lines of text to lines of text; by ids: `translate_batch` for batches that are on
the GPU already, up to its lists of predictions. `--device cpu` is for trying out the script.
"""

import argparse
import contextlib
import importlib.metadata
import itertools
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from workload import DEFAULTS, SEED, Workload

BATCHES = 16
"""A case has at most so many batches."""


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options shared with the script for weft."""
    parser.add_argument("--data", type=Path, required=True, help="folder with {train,val}.bpe.{en,de}")
    parser.add_argument("--sentences", type=int, default=30_000)
    parser.add_argument("--length", type=int, default=20, help="tokens of every output")
    parser.add_argument("--beams", type=int, nargs="+", default=[5, 1], help="1: greedy")
    parser.add_argument("--batches", type=int, nargs="+", default=[64, 512, 2048], help="sentences per batch")
    parser.add_argument("--repeats", type=int, default=2, help="the fastest counts")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")


def read(data: Path, sentences: int) -> list[str]:
    """The first lines of val.bpe.en and train.bpe.en."""
    lines = [line for name in ("val", "train") for line in (data / f"{name}.bpe.en").read_text("utf-8").splitlines()]
    return lines[:sentences]


def fastest(search: Callable[[], list[int]], *, length: int, repeats: int, device: str) -> float:
    """Seconds of the fastest pass; ``search`` returns the numbers of tokens found."""
    import torch

    wait = torch.cuda.synchronize if device == "cuda" else (lambda: None)
    times = []
    for _ in range(repeats):
        wait()
        began = time.perf_counter()
        lengths = search()
        wait()
        times.append(time.perf_counter() - began)
        assert set(lengths) == {length}, f"outputs of {min(lengths)} to {max(lengths)} tokens"
    return min(times)


def result(toolkit: str, version: str, case: dict, *, sentences: int, length: int, seconds: float) -> dict:
    import torch

    speed = {"sentences_per_second": round(sentences / seconds, 1)}
    speed["tokens_per_second"] = round(sentences * length / seconds)
    return {"toolkit": toolkit, "version": version, "torch": torch.__version__, **case, **speed, "sentences": sentences}


def allow_tf32(precision: str) -> None:
    import torch

    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"


def cases(given: argparse.Namespace, model_file: Path) -> Iterator[dict]:
    """The result of every case; those that fail are reported on stderr."""
    lines = read(given.data, given.sentences)
    version = importlib.metadata.version("OpenNMT-py")
    for beam, batch, precision in itertools.product(given.beams, given.batches, given.precisions):
        allow_tf32(precision)
        chosen = lines[: BATCHES * batch]
        timed = searches(given, model_file, {"beam": beam, "batch": batch, "precision": precision}, chosen)
        for level, search in timed.items():
            case = {"level": level, "beam": beam, "batch": batch, "precision": precision}
            try:
                search(2)
                seconds = fastest(search, length=given.length, repeats=given.repeats, device=given.device)
            except (RuntimeError, ValueError, TypeError, AssertionError) as error:
                print(f"failed: {case}: {error}", file=sys.stderr, flush=True)
                continue
            yield result("opennmt", version, case, sentences=len(chosen), length=given.length, seconds=seconds)


def searches(given: argparse.Namespace, model_file: Path, case: dict, lines: list[str]) -> dict[str, Callable]:
    """By level: what is timed, for the first batches or all. Both return the lengths of the outputs."""
    from decode_opennmt import engine
    from onmt.constants import CorpusTask
    from onmt.inputters.dynamic_iterator import build_dynamic_dataset_iter

    kind = "fp16" if case["precision"] == "fp16" else "fp32"
    sizes = {"beam": case["beam"], "batch": case["batch"], "length": given.length}
    made = engine(model_file, **sizes, device=given.device, precision=kind)
    batches = build_dynamic_dataset_iter(
        made.opt, made.transforms_cls, made.vocabs, task=CorpusTask.INFER, src=lines, device_id=made.device_id
    )
    ready = [tensors for tensors, _ in batches]

    def by_text(batches: int = BATCHES) -> list[int]:
        return [len(best[0].split()) for best in made.infer_list(lines[: batches * case["batch"]])[1]]

    def by_ids(batches: int = BATCHES) -> list[int]:
        found = [made.translator.translate_batch(tensors, False)["predictions"] for tensors in ready[:batches]]
        return [len(best[0]) for rows in found for best in rows]

    return {"text": by_text, "ids": by_ids}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options(parser)
    parser.add_argument("--precisions", choices=["fp32", "tf32", "fp16"], nargs="+", default=["fp32", "tf32", "fp16"])
    given = parser.parse_args()
    import torch

    torch.manual_seed(SEED)
    workload = Workload(model="rnn", data=given.data.resolve(), attention="general", **DEFAULTS["rnn"])
    with tempfile.TemporaryDirectory(prefix="rival-") as folder:
        with contextlib.redirect_stdout(sys.stderr):
            from decode_opennmt import checkpoint

            model_file = checkpoint(workload, Path(folder))
            found = cases(given, model_file)
        while True:
            with contextlib.redirect_stdout(sys.stderr):
                line = next(found, None)
            if line is None:
                return
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
