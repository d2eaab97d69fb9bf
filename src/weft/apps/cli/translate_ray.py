"""``weft translate --ray ADDRESS|local FILES… --output DIR``: files translated on a Ray cluster."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from weft.errors import DataError, plural
from weft.runtime.activity import activity

if TYPE_CHECKING:
    from weft.apps.cli.commands.translate import TranslationJob
    from weft.apps.cluster.blocks import Source, SourceWindow, Translate, WindowOutput

SourceFiles = Annotated[
    list[str] | None,
    typer.Argument(metavar="FILE", help="One source per line; - is standard input. Several with --ray only."),
]
RayAddress = Annotated[
    str | None,
    typer.Option("--ray", metavar="ADDRESS|local", help="Translate FILEs on a Ray cluster, into the folder --output."),
]
RayWorkers = Annotated[
    int | None,
    typer.Option("--workers", min=1, help="--ray: actors that hold the model; by default one per core or --gpus."),
]
RayGpus = Annotated[float | None, typer.Option("--gpus", min=0.0, help="--ray: GPUs of each actor, such as 1 or 0.5.")]
RayColumn = Annotated[
    str, typer.Option("--column", help="--ray: the field or column of the source in JSON lines and Parquet.")
]


class RayOptions(NamedTuple):
    """--ray, --workers, --gpus and --column."""

    address: str
    workers: int | None
    gpus: float | None
    column: str


def one_file(files: Sequence[str] | None, ray: str | None) -> str:
    """The one file of a command that is not given to a cluster; the first of several that are."""
    given = files or ["-"]
    if ray is None and len(given) > 1:
        raise DataError(f"{given[1]}: a second file; only --ray translates several files")
    if ray is not None and "-" in given:
        raise DataError("--ray: needs files; the workers of a cluster cannot read standard input")
    return given[0]


class MakeTranslate:
    """Loads the model in an actor, and translates blocks with it as the command does."""

    def __init__(self, job: TranslationJob) -> None:
        self.job = job

    def __call__(self) -> Translate:
        from weft.apps.cli.commands.translate import format_window
        from weft.apps.cluster.blocks import WindowOutput

        os.environ.setdefault("OMP_NUM_THREADS", "1")
        model, job = self.job.load(), self.job

        def translate(windows: Iterable[SourceWindow]) -> Iterator[WindowOutput]:
            read: deque[SourceWindow] = deque()

            def sources() -> Iterator[list[Source]]:
                for window in windows:
                    read.append(window)
                    yield window.sources

            for lines, results in job.search.translate(model, sources()):
                window = read.popleft()
                of_file = job._replace(file=window.file)
                translations, content = format_window(of_file, lines, results, window.first_line)
                yield WindowOutput([translation.text for translation in translations.values()], content)

        return translate


def translate_on_ray(job: TranslationJob, files: Sequence[str], output: Path | None, options: RayOptions) -> None:
    """Translate files block by block; a rerun continues where the last one ended."""
    from weft.apps.cluster.blocks import BlockTask
    from weft.apps.cluster.job import ClusterJob
    from weft.apps.cluster.ray_pool import Pool, translate_blocks
    from weft.runs.layout import RunFolder

    if output is None:
        raise DataError(f"--ray {options.address}: needs --output DIR, the folder of the outputs")
    if job.bad_lines.skips:
        raise DataError("--bad-lines skip: not with --ray, which does not count skipped lines; use --part")
    cluster_job = ClusterJob.make(files, output)
    made_by: dict[str, Any] = {
        "weights": [RunFolder(run).content_hash() for run in job.arguments.runs],
        "search settings": job.settings,
        "format": list(job.format),
        "column": options.column,
    }
    cluster_job.prepare(made_by)
    blocks = cluster_job.find_blocks()
    unfinished = cluster_job.unfinished(blocks)
    total = sum(block.lines for of_file in blocks.values() for block in of_file)
    left = sum(block.lines for block in unfinished)
    if left < total:
        print(f"weft: {plural(total - left, 'line')} done; continuing", file=sys.stderr)
    run, *more = (one.resolve() for one in job.arguments.runs)
    job = job._replace(arguments=job.arguments._replace(run=run, more=more))
    if unfinished:
        work = [BlockTask(block, str(cluster_job.block_path(block))) for block in unfinished]
        pool = Pool(options.address, options.workers, options.gpus or 0.0)
        with activity("translating", "lines", total=left) as translating:
            for lines in translate_blocks(work, MakeTranslate(job), pool, column=options.column):
                translating.done += lines
    cluster_job.finish(blocks)
    print(f"weft: {plural(len(files), 'file')} in {output}", file=sys.stderr)
