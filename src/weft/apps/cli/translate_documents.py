"""``weft translate`` of documents: HTML, XML, XLIFF, Markdown, Word, subtitles, gettext, JSON, and whole texts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from weft.apps.cli.arguments import check_output
from weft.errors import DataError, nearest, plural
from weft.runtime.activity import activity

if TYPE_CHECKING:
    from weft.apps.cli.arguments import RunArguments
    from weft.apps.cli.confidence_options import ConfidenceOptions

Text = Annotated[
    bool,
    typer.Option("--text", help="Lines may have several sentences: each is translated, and the layout stays."),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="NAME",
        help="Format of FILE: lines, text, html, xml, markdown, docx, srt, vtt, po, xliff or json; by its ending.",
    ),
]
LINES = "lines"


class DocumentOptions(NamedTuple):
    """Options that decide whether a file is a document, and those that documents do not have."""

    format: str | None
    n_best: int
    align: bool
    as_json: bool
    judging: ConfidenceOptions
    bad_lines: str
    several_jobs: bool

    def format_of(self, file: str, *, text: bool) -> str | None:
        """The format of a document; None for a file of lines."""
        from weft.apps.texts.formats import FORMATS, format_of

        if self.format is not None and self.format not in (LINES, *FORMATS):
            expected = ", ".join((LINES, *FORMATS))
            raise DataError(f"--format {self.format}: expected {expected}; {nearest(self.format, (LINES, *FORMATS))}")
        if self.format is not None and text:
            raise DataError("--text and --format: choose one of them; --text is for files of lines")
        chosen = self.format or format_of(file)  # by its ending, a document with --text as well
        if chosen is None or chosen == LINES:
            return None
        given = {
            "--n-best": self.n_best > 1,
            "--align": self.align,
            "--json": self.as_json,
            "--confidence, --min-confidence and --precision-target": self.judging.given,
            "--bad-lines": self.bad_lines != "error",
            "--resume, --part, --merge and --ray": self.several_jobs,
        }
        for option in (name for name, is_given in given.items() if is_given):
            raise DataError(f"{file}: {option}: not for a document ({chosen}); --format lines translates its lines")
        return chosen


def translate_documents(
    arguments: RunArguments, file: str, format: str, output: Path | None, settings: dict[str, Any], *, flags: bool
) -> None:
    """Translate a document, to standard output or into another file, and say what was suspicious."""
    from weft.apps.texts.files import read_file, warn_of_clauses
    from weft.apps.texts.sentences import Splitter
    from weft.apps.texts.translation import LOST, translate_document
    from weft.data.reading.text_files import display_name
    from weft.files import save_bytes

    check_output(output)
    document = read_file(file, format)
    if document.archive is not None and output is None:
        raise DataError(f"{file}: a translated {format} is not printed; give --out FILE")
    run = arguments.load()
    splitter = Splitter.of_run(run)
    with activity(f"translating {display_name(file)}", "sentences") as translating:
        result = translate_document(run, document.document, splitter=splitter, **settings)
        translating.done = result.sentences
    warn_of_clauses(splitter)
    content = document.content_with(result.text)
    if output is None:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    else:
        save_bytes(output, content)
    units = plural(len(result.units), "text")
    if flags:
        print(f"weft: {plural(result.sentences, 'sentence')} in {units}", file=sys.stderr)
    for name, count in sorted(result.flags.items()):
        if flags or name in (LOST, "untranslated"):
            example = next(unit.source for unit in result.units if name in unit.flags)
            shown = repr(" ".join(example.split())[:60])
            print(f"weft: {name}: {count:,} of {units}, such as {shown}", file=sys.stderr)
