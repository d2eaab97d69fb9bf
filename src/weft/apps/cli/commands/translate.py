"""``weft translate``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from weft.apps.cli.arguments import (
    Adapter,
    Changes,
    Device,
    Engine,
    Json,
    Precision,
    Run,
    RunArguments,
    Search,
    SourceLanguage,
    TargetLanguage,
    With,
    check_file,
    search_changes,
)
from weft.apps.cli.bad_lines import BadLinePolicy, BadLines
from weft.apps.cli.confidence_options import (
    Below,
    ConfidenceOptions,
    JudgedOutputs,
    MinConfidence,
    PrecisionTarget,
    Review,
    ShowConfidence,
    ShowFlags,
)
from weft.apps.cli.terms_and_memory import GlossaryFile, MemoryFile, TermCounts, TermsAndMemory
from weft.apps.cli.translate_documents import DocumentOptions, Format, Text, translate_documents
from weft.apps.cli.translate_parts import Merge, PartOfFile, merge_outputs, translate_part
from weft.apps.cli.translate_ray import (
    RayAddress,
    RayColumn,
    RayGpus,
    RayOptions,
    RayWorkers,
    SourceFiles,
    one_file,
    translate_on_ray,
)
from weft.errors import DataError, plural
from weft.runtime.activity import Activity, activity

if TYPE_CHECKING:
    from weft.apps.texts.sentences import Splitter
    from weft.data.reading.lines import BadLine
    from weft.translation.output_format import OutputFormat
    from weft.translation.results import Translation
    from weft.translation.resumable_output import ResumableOutput
    from weft.translation.translator import Translator
    from weft.translation.windows import WindowSearch


def _unless_standard_output(output: Path | None) -> Path | None:
    return None if output == Path("-") else output


Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "--out",
        callback=_unless_standard_output,
        help="Write to this file, which appears once it is complete; with --ray, a folder.",
    ),
]
Align = Annotated[
    bool, typer.Option("--align", help="Add word links (Pharaoh format); token links where a side is one word.")
]


class TranslationJob(NamedTuple):
    """A file to translate, the model, and the settings."""

    file: str
    arguments: RunArguments
    settings: dict[str, Any]
    format: OutputFormat
    bad_lines: BadLinePolicy
    lines: range | None = None
    """The lines to translate, counted from 0; None: all."""
    review: Path | None = None
    """Where to list the outputs that are left out for their confidence."""
    text: bool = False
    """Whether a line may have several sentences."""
    splitter: Splitter | None = None
    """Splits them; None: as the model that is loaded needs."""
    known: TermsAndMemory = TermsAndMemory()

    @property
    def first_line(self) -> int:
        """The number of its first line in the file, counted from 1."""
        return 1 if self.lines is None else self.lines.start + 1

    @property
    def search(self) -> WindowSearch:
        from weft.apps.texts.lines import translate_lines
        from weft.translation.windows import WindowSearch

        lines = partial(translate_lines, splitter=self.splitter) if self.text else None
        return WindowSearch(self.settings, self.format.n_best, self.format.needs_attention, lines, *self.known)

    def check_text(self, ray: str | None) -> None:
        """Fail on options that need single sentences."""
        given = {"--n-best": self.format.n_best > 1, "--align": self.format.align, "--ray": ray is not None}
        for option in (name for name, is_given in given.items() if self.text and is_given):
            raise DataError(f"--text: cannot be used with {option}; translate one sentence per line instead")

    def stream(self) -> Iterator[str | BadLine | None]:
        """The source lines, and None whenever there are no more of them for now."""
        from weft.data.reading.lines import BadLine, stream_lines

        lines = stream_lines(self.file, keep_bad=True, first=self.first_line - 1)
        for line in lines if self.lines is None else islice(lines, len(self.lines)):
            if isinstance(line, BadLine) and not self.bad_lines.skips:
                self.bad_lines.report(line.message)
            yield line

    def load(self) -> Translator:
        from weft.errors import SearchError

        model = self.arguments.load()
        self.known.check(model)
        search = model.search_settings(self.settings)
        _ = model.with_languages(search.source_language, search.target_language).tokenizers.frame  # refused here
        if self.format.align and not model.recipe.model.attends:
            raise SearchError(
                f"--align: {self.arguments.run} has no attention (model.attention.score = 'none'), so it has no links"
            )
        return model

    def identity(self, model: Translator) -> dict[str, Any]:
        """The settings that must be the same when the output is resumed; the batch size may change."""
        from weft.runs.layout import RunFolder

        search = model.search_settings(self.settings).model_dump()
        del search["batch_tokens"]
        for name in ("source_language", "target_language"):
            if search[name] is None:  # as before there were languages
                del search[name]
        adapter = {} if self.arguments.adapter is None else {"--adapter": self.arguments.adapter}
        _, _, _, shown, least, below, flags = self.format
        confidence = {"--confidence": shown, "--min-confidence": least, "--below": below, "--flags": flags}
        judged = confidence if shown or flags or least is not None else {}
        return {
            "weights": [RunFolder(run).content_hash() for run in self.arguments.runs],
            **adapter,
            **{f"search.{name}": value for name, value in search.items()},
            "--n-best": self.format.n_best,
            "--align": self.format.align,
            "--json": self.format.as_json,
            **judged,
            **({"--text": True} if self.text else {}),
            **self.known.identity,
            "--precision": self.arguments.precision,
            "--engine": self.arguments.engine,
        }


def command(
    run: Run,
    files: SourceFiles = None,
    output: Output = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume an --output that was interrupted.")] = False,
    part: PartOfFile = None,
    merge: Merge = False,
    ray: RayAddress = None,
    workers: RayWorkers = None,
    gpus: RayGpus = None,
    column: RayColumn = "source",
    source_language: SourceLanguage = None,
    target_language: TargetLanguage = None,
    search: Search = None,
    text: Text = False,
    format: Format = None,
    glossary: GlossaryFile = None,
    memory: MemoryFile = None,
    n_best: Annotated[int, typer.Option("--n-best", min=1, help="Hypotheses per line, each with its score.")] = 1,
    align: Align = False,
    confidence: ShowConfidence = False,
    min_confidence: MinConfidence = None,
    precision_target: PrecisionTarget = None,
    below: Below = "blank",
    review: Review = None,
    flags: ShowFlags = False,
    as_json: Json = False,
    bad_lines: BadLines = "error",
    more: With = None,
    adapter: Adapter = None,
    precision: Precision = None,
    engine: Engine = None,
    changes: Changes = None,
    device: Device = "auto",
) -> None:
    """Translate lines: one line in, one line out, in order.

    Documents (.html, .xml, .md, .srt, .vtt, .po, .xliff, .json) are translated whole, with their tags and placeholders.
    With --n-best N, each line gets up to N lines of output, tab, score; with --json, one JSON object. With --bad-lines
    skip, a line that cannot be translated becomes an empty line (with --json, an object with an "error"); exit code 3.
    Memory is bounded. With --output FILE, finished lines are in FILE.part; after an interruption, the same command with
    --resume continues. With --part I/N, one of N jobs translates its share; once all have finished, --merge joins them.
    """
    file = one_file(files, ray)
    _check_input(file, output, resume=resume)
    (arguments := RunArguments(run, more, device, precision, engine, adapter)).check()
    judging = ConfidenceOptions(confidence, min_confidence, precision_target, below, review, flags)
    judging.check(arguments, several_jobs=bool(resume or part or merge or ray))
    settings = _settings(run, search, changes, source_language=source_language, target_language=target_language)
    document = DocumentOptions(format, n_best, align, as_json, judging, bad_lines, bool(resume or part or merge or ray))
    known = TermsAndMemory.read(glossary, memory, ray)
    if (format := document.format_of(file, text=text)) is not None:
        return translate_documents(arguments, file, format, output, settings | known.options, flags=flags)
    output_format = judging.applied_to(_output_format(n_best, align, as_json), run)
    policy = BadLinePolicy(bad_lines)
    job = TranslationJob(file, arguments, settings, output_format, policy, review=review, text=text, known=known)
    job.check_text(ray)
    if ray is not None:
        return translate_on_ray(job, files or [], output, RayOptions(ray, workers, gpus, column))
    _translate_lines(job, output, resume=resume, part=part, merge=merge)


def _translate_lines(job: TranslationJob, output: Path | None, *, resume: bool, part: str | None, merge: bool) -> None:
    """Translate the lines of a file, or of a part of it, or merge parts."""
    if merge:
        merge_outputs(job, output, part=part)
    elif part is not None:
        translate_part(job, part, output, resume=resume)
    elif output is None:
        _translate(job.load(), job, job.stream(), _to_stdout)
        job.bad_lines.finish()
    else:
        translate_to_file(job, output, resume=resume)


def _settings(run: Path, search: str | None, changes: list[str] | None, **languages: str | None) -> dict[str, Any]:
    """The changes of search settings, those of languages included."""
    settings = search_changes(run, search, changes)
    return settings | {name: language for name, language in languages.items() if language is not None}


def _output_format(n_best: int, align: bool, as_json: bool) -> OutputFormat:
    from weft.translation.output_format import OutputFormat

    return OutputFormat(n_best, align, as_json)


def translate_to_file(
    job: TranslationJob, output: Path, *, resume: bool, before_finish: Callable[[ResumableOutput], None] | None = None
) -> None:
    """Translate into a file that survives an interruption; ``before_finish``: called before it gets its name."""
    from weft.translation.resumable_output import ResumableOutput

    resumable = ResumableOutput(output, resume=resume)
    weights = [run / "model.safetensors" for run in job.arguments.runs]
    if resume and resumable.is_complete(since=[Path(job.file), *weights]):
        resumable.remove_progress()
        print(f"weft: {output} is complete; to translate again, omit --resume", file=sys.stderr)
        return
    with resumable:
        model = job.load()
        stream = job.stream()
        resumable.begin(job.identity(model), stream)
        if resumable.lines:
            print(f"weft: {plural(resumable.lines, 'line')} done; continuing", file=sys.stderr)
        try:
            _translate(model, job, stream, resumable.add, first_line=resumable.lines + job.first_line)
        except KeyboardInterrupt:
            if resumable.lines and job.file != "-":
                print(f"weft: {plural(resumable.lines, 'line')} done; continue with --resume", file=sys.stderr)
            raise
        if before_finish is not None:
            before_finish(resumable)
        resumable.finish()
    job.bad_lines.finish(resumable.skipped)


def _translate(
    model: Translator,
    job: TranslationJob,
    stream: Iterator[str | BadLine | None],
    write: Callable[..., None],
    *,
    first_line: int = 1,
) -> None:
    """Window by window: read, translate, write."""
    from weft.apps.texts.files import warn_of_clauses
    from weft.apps.texts.sentences import Splitter
    from weft.translation import text_warnings
    from weft.translation.text_warnings import CHECKED_LINES, warn_of_sources, warn_of_unproven

    search = model.search_settings(job.settings)
    splitter = Splitter.of_run(model)
    job = job._replace(splitter=splitter)
    judged = JudgedOutputs(model, job.format, job.review)
    terms = TermCounts(job.known)
    outputs = cut_off = unproven = 0
    with _counting(job.file):
        for window, results in job.search.translate_stream(model, stream, file=job.file):
            translations, content = format_window(job, window, results, first_line)
            if not outputs:
                sources = [translation.source for translation in islice(translations.values(), CHECKED_LINES)]
                warn_of_sources(model, job.arguments.run, job.file, sources)
            write(window, content.encode("utf-8"), skipped=len(window) - len(translations))
            judged.add(translations)
            first_line += len(window)
            outputs += len(translations)
            cut_off += sum(translation.ended_by_length for translation in translations.values())
            terms.add(translations.values())
            if search.kind == "exact":
                unproven += sum(not one.proven and bool(one.token_scores) for one in translations.values())
    judged.finish()
    warn_of_clauses(splitter)
    terms.report()
    text_warnings.warn_of_cut_off(cut_off, outputs, search)
    warn_of_unproven(unproven, outputs, search)


def format_window(
    job: TranslationJob, window: Sequence[str | BadLine], results: Sequence[Translation | DataError], first_line: int
) -> tuple[dict[int, Translation], str]:
    """The translations of the lines that are not skipped, by their numbers, and the output of all of them."""
    from weft.data.reading.lines import BadLine
    from weft.data.reading.text_files import display_name

    remaining = iter(results)
    translations: dict[int, Translation] = {}
    content: list[str] = []
    for number, line in enumerate(window, first_line):
        result = line if isinstance(line, BadLine) else next(remaining)
        if isinstance(result, BadLine | DataError):
            location = f"{display_name(job.file)}:{number}: "
            message = result.message if isinstance(result, BadLine) else f"{location}{result}"
            job.bad_lines.report(message)
            content.append(job.format.skipped(message))
        else:
            translations[number] = result
            content.append(job.format.lines(result))
    return translations, "".join(content)


def _to_stdout(_: Sequence[str | BadLine], content: bytes, *, skipped: int = 0) -> None:
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


def _check_input(file: str, output: Path | None, *, resume: bool) -> None:
    """Fail on a file that does not exist; with --resume, if there is no output to resume or no file to read again."""
    from weft.data.reading.text_files import display_name

    if not resume or output is not None:
        check_file(file)
    if not resume:
        return
    if output is None:
        raise DataError("--resume: needs --output FILE, the output to resume")
    if file == "-" or not Path(file).is_file():
        raise DataError(f"--resume: {display_name(file)} is not a regular file, so it cannot be read again")


def _counting(file: str) -> AbstractContextManager[Activity]:
    """The activity whose lines are counted, unless they are being typed."""
    if file == "-" and sys.stdin is not None and sys.stdin.isatty():
        return nullcontext(Activity("translating"))
    return activity("translating" if file == "-" else f"translating {file}", "lines")
