"""``weft translate``."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from weft.cli.arguments import (
    Changes,
    Device,
    Engine,
    Json,
    Precision,
    Run,
    Search,
    With,
    load_run,
    search_changes,
)

if TYPE_CHECKING:
    from weft.translation.results import Translation
    from weft.translation.translator import Translator

BLANKS = str.maketrans("\t\r\n", "   ")
"""What would be taken for the end of a column or a line."""


class Form(NamedTuple):
    """How a translation is written."""

    n_best: int
    align: bool
    as_json: bool

    def lines(self, found: Translation) -> str:
        """One line, or all lines, for one source line."""
        from weft.evaluation.alignment import write_pharaoh

        if self.as_json:
            return json.dumps(record(found), ensure_ascii=False) + "\n"
        text = ""
        for one in (found, *found.alternatives):
            columns = [one.text.translate(BLANKS)]
            columns += [f"{one.score:.4f}"] if self.n_best > 1 else []
            columns += [write_pharaoh(one.links)] if self.align else []
            text += "\t".join(columns) + "\n"
        return text


def command(
    run: Run,
    file: Annotated[str, typer.Argument(metavar="[FILE]", help="One source a line; - is standard input.")] = "-",
    output: Annotated[
        Path | None, typer.Option("--output", help="Write to this file, which appears when all is done.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an --output that was stopped.")] = False,
    search: Search = None,
    n_best: Annotated[int, typer.Option("--n-best", min=1, help="Outputs a line; tab-separated with scores.")] = 1,
    align: Annotated[bool, typer.Option("--align", help="Add a column of word links (Pharaoh format).")] = False,
    as_json: Json = False,
    more: With = None,
    precision: Precision = None,
    engine: Engine = None,
    changes: Changes = None,
    device: Device = "auto",
) -> None:
    """Translate lines: one line in, one line out, in order.

    With --n-best N: N lines for each, as output, tab, score. With --json: one object a line.

    Files of any size go through in bounded memory. With --output FILE what is done so far stands in FILE.part, whole
    lines only; if it is stopped, the same command with --resume goes on from there.
    """
    from weft.data.reading.lines import stream_lines
    from weft.translation.resumable_output import ResumableOutput

    output = None if output == Path("-") else output
    if resume:
        _check_resume(file, output)
    form = Form(n_best, align, as_json)
    settings = search_changes(search, changes)
    runs = [run, *(more or ())]

    def load() -> Translator:
        model = load_run(run, more, device=device, precision=precision, engine=engine)
        model.search_settings(settings)  # refused before anything is read
        _check(model, form, run)
        return model

    if output is None:
        _translate(load(), form, settings, stream_lines(file), _to_stdout)
        return
    resumable = ResumableOutput(output, resume=resume)
    if resume and resumable.is_complete(since=[Path(file), *(one / "model.safetensors" for one in runs)]):
        resumable.remove_progress()
        print(f"weft: {output} is complete; to translate again, leave --resume out", file=sys.stderr)
        return
    with resumable:
        model = load()
        made_by = {
            "weights": [_fingerprint(one) for one in runs],
            **{f"search.{name}": value for name, value in model.search_settings(settings).model_dump().items()},
            **{"--n-best": n_best, "--align": align, "--json": as_json, "--precision": precision, "--engine": engine},
        }
        del made_by["search.batch_tokens"]  # whoever ran out of memory may go on with smaller batches
        stream = stream_lines(file)
        resumable.begin(made_by, stream)
        if resumable.lines:
            print(f"weft: {resumable.lines:,} lines are done; going on", file=sys.stderr)
        try:
            _translate(model, form, settings, stream, resumable.add)
        except KeyboardInterrupt:
            if resumable.lines and file != "-":
                print(f"weft: {resumable.lines:,} lines are done; --resume goes on from there", file=sys.stderr)
            raise
        resumable.finish()


def _translate(
    model: Translator,
    form: Form,
    settings: dict[str, Any],
    stream: Iterator[str | None],
    write: Callable[[Sequence[str], bytes], None],
) -> None:
    """Window by window: read, translate, write."""
    from weft.data.reading.lines import chunk_lines
    from weft.translation.translator import WINDOW_CHARACTERS, WINDOW_LINES

    attention = form.align or form.as_json
    characters = WINDOW_CHARACTERS // 8 if attention else WINDOW_CHARACTERS
    with _meter(shown=write is not _to_stdout or not sys.stdout.isatty()) as passed:
        for window in chunk_lines(stream, max_lines=WINDOW_LINES, max_characters=characters):
            found = model.translate(window, n_best=form.n_best, return_attention=attention, **settings)
            write(window, "".join(map(form.lines, found)).encode("utf-8"))
            passed(len(window), sum(len(one.ids) for one in found))


def _to_stdout(_: Sequence[str], content: bytes) -> None:
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


def _check(model: Translator, form: Form, run: Path) -> None:
    from weft.errors import SearchError

    if form.align and not model.recipe.model.attends:
        raise SearchError(f"--align: {run} has no attention (model.attention.score = 'none'), so it has no links")


def _check_resume(file: str, output: Path | None) -> None:
    """Refuse --resume where nothing can be gone on with."""
    from weft.data.reading.lines import display_name
    from weft.errors import DataError

    if output is None:
        raise DataError("--resume: say what to go on with: --output FILE")
    if file != "-" and not Path(file).exists():
        raise DataError(f"{file}: no such file")
    if file == "-" or not Path(file).is_file():
        raise DataError(f"--resume: {display_name(file)} is no regular file, so it cannot be read again; give one")


def _fingerprint(run: Path) -> str:
    """What tells a run from another, or from what it was before it was trained further."""
    import hashlib

    digest = hashlib.blake2b(digest_size=8)
    for name in ("recipe.toml", "model.safetensors"):
        with (run / name).open("rb") as file:
            while part := file.read(1 << 20):
                digest.update(part)
    return digest.hexdigest()


@contextmanager
def _meter(*, shown: bool) -> Iterator[Callable[[int, int], None]]:
    """Lines and tokens a second on stderr, if that is a terminal; to be told of lines and tokens."""
    if not shown or not sys.stderr.isatty():
        yield lambda lines, tokens: None
        return
    from rich.console import Console

    begun = time.monotonic()
    total = [0, 0]
    with Console(stderr=True, highlight=False).status("translating") as status:

        def passed(lines: int, tokens: int) -> None:
            total[0] += lines
            total[1] += tokens
            seconds = max(time.monotonic() - begun, 1e-9)
            status.update(f"{total[0]:,} lines  {total[0] / seconds:,.0f} lines/s  {total[1] / seconds:,.0f} tokens/s")

        yield passed


def record(found: Translation) -> dict[str, Any]:
    """A translation for ``--json``."""
    result: dict[str, Any] = {
        "source": found.source,
        "text": found.text,
        "score": found.score,
        "log_probability": found.log_probability,
        "tokens": found.tokens,
        "token_scores": found.token_scores,
        "source_tokens": found.source_tokens,
        "attention": None if found.attention is None else found.attention.round(6).tolist(),
        "links": found.links,
        "ended": found.ended,
        "proven": found.proven,
    }
    if found.alternatives:
        result["alternatives"] = [record(one) for one in found.alternatives]
    return result
