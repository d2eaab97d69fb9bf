"""`weft translate --ray local`: lines per second of 1, 2, 4, … workers, or of one GPU beside plain `weft translate`.

    python benchmarks/ray_scaling.py --workers 1 2 4 8          a random Transformer, one CPU core per worker
    python benchmarks/ray_scaling.py --run RUN --file FILE --gpus 1 --lines 280000

The rate is that of the blocks in the middle, by the times at which their outputs were written: without the start of Ray
and of the workers, and without the end, when some of them have run out of blocks. The random Transformer is that of
ctranslate2_engine.py (3 + 3 layers, 256 wide, outputs of about 14 tokens), searched greedily by PyTorch on one core.
With --gpus, the times at which `weft translate` writes its windows to a pipe are taken too; ``seconds`` is the
whole command in both cases.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import NamedTuple

COMMAND = (sys.executable, "-m", "weft", "translate")


class Rate(NamedTuple):
    """The speed of one command."""

    lines_per_second: float
    seconds: float
    """From the start to the end of the process."""


def rate_between(written: list[tuple[float, int]], *, skip: int, skip_end: int) -> float:
    """Lines per second, from (time, lines) of outputs, after the first ``skip`` of them and before the last ones."""
    written = sorted(written)[skip - 1 : len(written) - skip_end]
    return sum(lines for _, lines in written[1:]) / (written[-1][0] - written[0][0])


def save_random_run(folder: Path) -> None:
    from ctranslate2_engine import make_run

    from weft.files import save_text
    from weft.recipe.toml import write_toml
    from weft.runs.layout import RunFolder
    from weft.runs.weights import WeightsOrigin, model_tensors

    made = make_run()

    def fill(run: RunFolder) -> None:
        save_text(run.recipe, write_toml(made.recipe))
        made.tokenizers.save(run.path)
        run.write_model(model_tensors(made.model), WeightsOrigin("imported", (0,)))

    RunFolder.create(folder, fill)


def on_ray(run: Path, file: Path, *, workers: int, gpus: float, block_lines: int) -> Rate:
    """Do what the command does, except merging the blocks, whose times are read."""
    from weft.apps.cli.arguments import RunArguments
    from weft.apps.cli.bad_lines import BadLinePolicy
    from weft.apps.cli.commands.translate import TranslationJob
    from weft.apps.cli.translate_ray import MakeTranslate
    from weft.apps.cluster import blocks
    from weft.apps.cluster.job import ClusterJob
    from weft.apps.cluster.ray_pool import Pool, translate_blocks
    from weft.translation.output_format import OutputFormat

    arguments = RunArguments(run.resolve(), None, "auto" if gpus else "cpu", None, "torch")
    settings = {} if gpus else {"kind": "greedy"}
    job = TranslationJob(str(file), arguments, settings, OutputFormat(1, False, False), BadLinePolicy("error"))
    blocks.BLOCK_LINES = block_lines
    start = time.time()
    with tempfile.TemporaryDirectory() as folder:
        cluster_job = ClusterJob.make([str(file)], Path(folder) / "out")
        cluster_job.prepare({})
        of_file = cluster_job.find_blocks()[str(file.resolve())]
        paths = [cluster_job.block_path(block) for block in of_file]
        work = [blocks.BlockTask(block, str(path)) for block, path in zip(of_file, paths, strict=True)]
        for _ in translate_blocks(work, MakeTranslate(job), Pool("local", workers, gpus), column="source"):
            pass
        seconds = time.time() - start
        written = [(path.stat().st_mtime_ns / 1e9, block.lines) for path, block in zip(paths, of_file, strict=True)]
    skip = len(written) // 3 if gpus else 2 * workers
    return Rate(rate_between(written, skip=skip, skip_end=1 if gpus else workers), seconds)


def plain(run: Path, file: Path) -> Rate:
    start, written = time.time(), []
    with subprocess.Popen([*COMMAND, str(run), str(file)], stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdout is not None
        while content := process.stdout.read(1 << 24):
            written.append((time.time(), content.count(b"\n")))
    total = sum(lines for _, lines in written)
    skip, lines = 1, written[0][1]
    while lines < total // 3:
        lines += written[skip][1]
        skip += 1
    return Rate(rate_between(written, skip=skip, skip_end=1), time.time() - start)


def random_lines(count: int) -> str:
    random = Random(1)
    sources = ([f"w{random.randrange(7_997)}" for _ in range(random.randint(8, 20))] for _ in range(count))
    return "".join(" ".join(source) + "\n" for source in sources)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--run", type=Path)
    parser.add_argument("--file", type=Path, help="repeated until it has --lines")
    parser.add_argument("--lines", type=int, default=1_200, help="of each worker; with --gpus, of all")
    parser.add_argument("--block", type=int, default=60, help="lines of a block, on a CPU")
    parser.add_argument("--gpus", type=float, default=0.0)
    parser.add_argument("--task-blocks", type=int, default=16, help="the most blocks that an actor with a GPU is given")
    parser.add_argument("--rounds", type=int, default=1)
    given = parser.parse_args()
    from weft.apps.cluster import ray_pool

    ray_pool.GPU_BLOCKS = given.task_blocks
    with tempfile.TemporaryDirectory() as folder:
        run, source = given.run or Path(folder) / "run", Path(folder) / "source.txt"
        if given.run is None:
            save_random_run(run)
        for _ in range(given.rounds):
            for workers in given.workers:
                lines = given.lines if given.gpus else given.lines * workers
                if given.file is None:
                    source.write_text(random_lines(lines), "utf-8")
                else:
                    text = given.file.read_text("utf-8").removesuffix("\n").split("\n")
                    repeated = (text * (lines // len(text) + 1))[:lines]
                    source.write_text("\n".join(repeated) + "\n", "utf-8")
                record = {"workers": workers, "gpus": given.gpus}
                if given.gpus:
                    rate = plain(run, source)
                    record |= {"plain lines/s": round(rate.lines_per_second), "plain seconds": round(rate.seconds, 1)}
                block = 4096 if given.gpus else given.block
                rate = on_ray(run, source, workers=workers, gpus=given.gpus, block_lines=block)
                record |= {"lines/s": round(rate.lines_per_second, 1), "seconds": round(rate.seconds, 1)}
                print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main()
