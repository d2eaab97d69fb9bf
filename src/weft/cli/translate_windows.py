"""``weft translate``: windows of lines, each translated together, and what is written for them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from weft.cli.bad_lines import process_each
from weft.errors import DataError

if TYPE_CHECKING:
    from weft.cli.translate import Job
    from weft.data.reading.lines import BadLine
    from weft.translation.inputs import TranslationRequest
    from weft.translation.results import Translation
    from weft.translation.translator import Translator


def translated_windows(
    model: Translator, job: Job, stream: Iterator[str | BadLine | None]
) -> Iterator[tuple[list[str | BadLine], list[Translation | DataError]]]:
    """Every window with the results of its lines that can be read.

    On a GPU the next windows of a file are tokenized and searched before the results of one are taken; where more lines
    may come later, in a pipe, a window is written before the next one is waited for.
    """
    from weft.data.reading.lines import is_seekable
    from weft.translation.pipeline import overlaps

    if overlaps(model) and not is_seekable(job.file):
        for window in job.windows(stream):
            yield window, _each_line(model, job, _readable(window))
    else:
        yield from search_windows(model, job, job.windows(stream, large=overlaps(model)))


def search_windows(
    model: Translator, job: Job, windows: Iterable[list[str | BadLine]]
) -> Iterator[tuple[list[str | BadLine], list[Translation | DataError]]]:
    """Every window with the results of its lines that can be read; on a GPU, windows are read ahead."""
    from weft.translation.pipeline import overlaps, search_each

    if not overlaps(model):
        for window in windows:
            yield window, _each_line(model, job, _readable(window))
        return
    waiting: deque[list[str | BadLine]] = deque()

    def requests() -> Iterator[TranslationRequest]:
        for window in windows:
            waiting.append(window)
            request = model.request(_readable(window), **job.settings)
            yield replace(request, n_best=job.format.n_best, return_attention=job.needs_attention)

    for outcome in search_each(model, requests()):
        window = waiting.popleft()
        if isinstance(outcome, list):
            yield window, list(outcome)
        else:
            yield window, _each_line(model, job, _readable(window))


def _readable(window: Sequence[str | BadLine]) -> list[str]:
    from weft.data.reading.lines import BadLine

    return [line for line in window if not isinstance(line, BadLine)]


def _each_line(model: Translator, job: Job, lines: Sequence[str]) -> list[Translation | DataError]:
    """The translations of lines; a line that cannot be translated gives an error instead."""

    def translate(lines: Sequence[str]) -> list[Translation]:
        return model.translate(lines, n_best=job.format.n_best, return_attention=job.needs_attention, **job.settings)

    return process_each(lines, translate)


def format_window(
    job: Job, window: Sequence[str | BadLine], results: Sequence[Translation | DataError], first_line: int
) -> tuple[list[Translation], str]:
    """The translations of the lines that are not skipped, and the output of all of them."""
    from weft.data.reading.lines import BadLine, display_name

    remaining = iter(results)
    translations: list[Translation] = []
    content: list[str] = []
    for number, line in enumerate(window, first_line):
        result = line if isinstance(line, BadLine) else next(remaining)
        if isinstance(result, BadLine | DataError):
            location = f"{display_name(job.file)}:{number}: "
            message = result.message if isinstance(result, BadLine) else f"{location}{result}"
            job.bad_lines.report(message)
            content.append(job.format.skipped(message))
        else:
            translations.append(result)
            content.append(job.format.lines(result))
    return translations, "".join(content)
