"""``weft translate``."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from weft.activity import Activity, activity
from weft.cli.arguments import (
    Changes,
    Device,
    Engine,
    Json,
    Precision,
    Run,
    RunArguments,
    Search,
    With,
    check_file,
    in_one_line,
    search_changes,
)

if TYPE_CHECKING:
    from weft.translation.results import Translation
    from weft.translation.translator import Translator


class OutputFormat(NamedTuple):
    """--n-best, --align and --json: how translations are written."""

    n_best: int
    align: bool
    as_json: bool

    def lines(self, translation: Translation) -> str:
        """The line or lines of one source line."""
        from weft.evaluation.alignment import write_pharaoh

        if self.as_json:
            return json.dumps(record(translation), ensure_ascii=False) + "\n"
        text = ""
        for hypothesis in (translation, *translation.alternatives):
            columns = [in_one_line(hypothesis.text)]
            columns += [f"{hypothesis.score:.4f}"] if self.n_best > 1 else []
            columns += [write_pharaoh(hypothesis.links)] if self.align else []
            text += "\t".join(columns) + "\n"
        return text


class Job(NamedTuple):
    """What to translate, with what, and how."""

    file: str
    arguments: RunArguments
    settings: dict[str, Any]
    format: OutputFormat

    def load(self) -> Translator:
        from weft.errors import SearchError

        model = self.arguments.load()
        if self.format.align and not model.recipe.model.attends:
            raise SearchError(
                f"--align: {self.arguments.run} has no attention (model.attention.score = 'none'), so it has no links"
            )
        return model

    def identity(self, model: Translator) -> dict[str, Any]:
        """What must be the same when the output is resumed; the batch size need not be."""
        search = model.search_settings(self.settings).model_dump()
        del search["batch_tokens"]
        return {
            "weights": [_fingerprint(run) for run in self.arguments.runs],
            **{f"search.{name}": value for name, value in search.items()},
            "--n-best": self.format.n_best,
            "--align": self.format.align,
            "--json": self.format.as_json,
            "--precision": self.arguments.precision,
            "--engine": self.arguments.engine,
        }


def command(
    run: Run,
    file: Annotated[str, typer.Argument(metavar="[FILE]", help="One source per line; - is standard input.")] = "-",
    output: Annotated[
        Path | None, typer.Option("--output", help="Write to this file, which appears once it is complete.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume an --output that was interrupted.")] = False,
    search: Search = None,
    n_best: Annotated[int, typer.Option("--n-best", min=1, help="Hypotheses per line, each with its score.")] = 1,
    align: Annotated[bool, typer.Option("--align", help="Add a column of word links (Pharaoh format).")] = False,
    as_json: Json = False,
    more: With = None,
    precision: Precision = None,
    engine: Engine = None,
    changes: Changes = None,
    device: Device = "auto",
) -> None:
    """Translate lines: one line in, one line out, in order.

    With --n-best N, each line gives N lines of output, tab, score; with --json, one JSON object.

    Files of any size are translated in bounded memory. With --output FILE, the finished lines are in FILE.part; if the
    command is interrupted, the same command with --resume continues from there.
    """
    output = None if output == Path("-") else output
    if resume:
        _check_resume(file, output)
    arguments = RunArguments(run, more, device, precision, engine)
    arguments.check()
    settings = search_changes(run, search, changes)
    check_file(file)
    from weft.data.reading.lines import stream_lines

    job = Job(file, arguments, settings, OutputFormat(n_best, align, as_json))
    if output is None:
        _translate(job.load(), job, stream_lines(file), _to_stdout)
    else:
        _translate_to_file(job, output, resume=resume)


def _translate_to_file(job: Job, output: Path, *, resume: bool) -> None:
    """Translate into a file that survives an interruption."""
    from weft.data.reading.lines import stream_lines
    from weft.translation.resumable_output import ResumableOutput

    resumable = ResumableOutput(output, resume=resume)
    weights = [run / "model.safetensors" for run in job.arguments.runs]
    if resume and resumable.is_complete(since=[Path(job.file), *weights]):
        resumable.remove_progress()
        print(f"weft: {output} is complete; to translate again, omit --resume", file=sys.stderr)
        return
    with resumable:
        model = job.load()
        stream = stream_lines(job.file)
        resumable.begin(job.identity(model), stream)
        if resumable.lines:
            print(f"weft: {resumable.lines:,} lines are done; continuing", file=sys.stderr)
        try:
            _translate(model, job, stream, resumable.add)
        except KeyboardInterrupt:
            if resumable.lines and job.file != "-":
                print(f"weft: {resumable.lines:,} lines are done; continue with --resume", file=sys.stderr)
            raise
        resumable.finish()


def _translate(
    model: Translator, job: Job, stream: Iterator[str | None], write: Callable[[Sequence[str], bytes], None]
) -> None:
    """Window by window: read, translate, write."""
    from weft.cli.length_limit import warn_of_cut_off, warn_of_unproven
    from weft.data.reading.lines import chunk_lines
    from weft.translation.translator import WINDOW_CHARACTERS, WINDOW_LINES

    attention = job.format.align or job.format.as_json
    outputs = cut_off = unproven = 0
    characters = WINDOW_CHARACTERS // 8 if attention else WINDOW_CHARACTERS
    with _counting(job.file):
        for window in chunk_lines(stream, max_lines=WINDOW_LINES, max_characters=characters):
            translations = model.translate(window, n_best=job.format.n_best, return_attention=attention, **job.settings)
            write(window, "".join(map(job.format.lines, translations)).encode("utf-8"))
            outputs += len(translations)
            cut_off += sum(translation.ended_by_length for translation in translations)
            unproven += sum(bool(translation.token_scores) and not translation.proven for translation in translations)
    search = model.search_settings(job.settings)
    warn_of_cut_off(cut_off, outputs, search)
    warn_of_unproven(unproven, outputs, search)


def _to_stdout(_: Sequence[str], content: bytes) -> None:
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


def _check_resume(file: str, output: Path | None) -> None:
    """Fail if there is no output to resume, or the source cannot be read again."""
    from weft.data.reading.lines import display_name
    from weft.errors import DataError

    if output is None:
        raise DataError("--resume: needs --output FILE, the output to resume")
    check_file(file)
    if file == "-" or not Path(file).is_file():
        raise DataError(f"--resume: {display_name(file)} is not a regular file, so it cannot be read again")


def _fingerprint(run: Path) -> str:
    """A hash of the recipe and the weights."""
    import hashlib

    digest = hashlib.blake2b(digest_size=8)
    for name in ("recipe.toml", "model.safetensors"):
        with (run / name).open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def _counting(file: str) -> AbstractContextManager[Activity]:
    """The activity whose lines are counted, unless somebody is typing them."""
    if file == "-" and sys.stdin is not None and sys.stdin.isatty():
        return nullcontext(Activity("translating"))
    return activity("translating" if file == "-" else f"translating {file}", "lines")


def record(translation: Translation) -> dict[str, Any]:
    """A translation for ``--json``."""
    result: dict[str, Any] = {
        "source": translation.source,
        "text": translation.text,
        "score": translation.score,
        "log_probability": translation.log_probability,
        "tokens": translation.tokens,
        "token_scores": translation.token_scores,
        "source_tokens": translation.source_tokens,
        "attention": None if translation.attention is None else translation.attention.round(6).tolist(),
        "links": translation.links,
        "ended": translation.ended,
        "proven": translation.proven,
    }
    if translation.alternatives:
        result["alternatives"] = [record(hypothesis) for hypothesis in translation.alternatives]
    return result
