"""``weft translate --part I/N`` and ``--merge``: a file translated by several jobs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.apps.cli.bad_lines import BadLinePolicy
from weft.errors import DataError, plural
from weft.runtime.activity import activity
from weft.translation.parts import FilePart, PartRecord, find_parts, merge_parts

if TYPE_CHECKING:
    from weft.apps.cli.commands.translate import TranslationJob
    from weft.translation.resumable_output import ResumableOutput

PartOfFile = Annotated[
    str | None,
    typer.Option("--part", metavar="I/N", help="Translate the I-th of N parts of FILE, to OUTPUT.I-of-N."),
]
Merge = Annotated[bool, typer.Option("--merge", help="Merge all parts of an --output instead of translating.")]


def translate_part(job: TranslationJob, part: str, output: Path | None, *, resume: bool) -> None:
    """Translate one part of a file into a separate file that survives an interruption."""
    from weft.apps.cli.commands.translate import translate_to_file

    parsed = FilePart.parse(part)
    if output is None:
        name = f"FILE.{parsed.number}-of-{parsed.of}"
        raise DataError(f"--part {part}: needs --output FILE; this part is written to {name}")
    if job.file == "-" or not Path(job.file).is_file():
        raise DataError(f"--part {part}: {job.file} is not a regular file, so other jobs cannot read it")
    from weft.data.reading.lines import stream_lines
    from weft.translation.windows import large_window_sizes

    with activity(f"counting the lines of {job.file}", "lines") as counting:
        blocks = []
        for block in job.search.windows(stream_lines(job.file, keep_bad=True)):
            blocks.append(len(block))
            counting.done += len(block)
    total, lines, path = sum(blocks), parsed.lines(large_window_sizes(blocks), blocks), parsed.path(output)

    def record(resumable: ResumableOutput) -> None:
        if resumable.lines != len(lines):
            raise DataError(f"{job.file}: it had {plural(total, 'line')} and now has fewer; translate it again")
        PartRecord(
            *parsed,
            first_line=lines.start + 1,
            lines=len(lines),
            total_lines=total,
            skipped=resumable.skipped,
            bytes=resumable.bytes,
            checksum=resumable.checksum,
            made_by=resumable.made_by,
        ).save(path)

    translate_to_file(job._replace(lines=lines), path, resume=resume, before_finish=record)


def merge_outputs(job: TranslationJob, output: Path | None, *, part: str | None) -> None:
    """Put the outputs of all parts together, if they are of this source and these weights."""
    from weft.data.reading.lines import count_lines
    from weft.runs.layout import RunFolder

    if output is None or part is not None:
        problem = "there is no --output" if output is None else f"--part {part} is given too"
        raise DataError(f"--merge: {problem}; use --merge --output FILE once all parts are translated")
    first = find_parts(output)[0]
    if first.made_by.get("weights") != [RunFolder(run).content_hash() for run in job.arguments.runs]:
        raise DataError(f"{output}: its parts were made by a run other than {job.arguments.run}; name that run")
    if job.file != "-" and (total := count_lines(job.file)) != first.total_lines:
        had = plural(first.total_lines, "line")
        raise DataError(
            f"{output}: its parts are of a source of {had}, and {job.file} has {total:,}; translate it again"
        )
    records = merge_parts(output)
    total = records[0].total_lines
    print(f"weft: {plural(total, 'line')} of {plural(len(records), 'part')} in {output}", file=sys.stderr)
    BadLinePolicy("skip").finish(sum(record.skipped for record in records))
