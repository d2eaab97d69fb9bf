"""Outputs of a model for many sources, written window by window; an interrupted command continues after the last one.

The file is complete once it has its name (`weft.translation.resumable_output`). Each window is translated as
``weft translate`` does it, so an interrupted file ends up as an uninterrupted one.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from weft.data.pairs import Pair
from weft.data.reading.lines import count_lines
from weft.errors import DataError
from weft.runtime.activity import activity
from weft.translation.resumable_output import ResumableOutput
from weft.translation.windows import WindowSearch

if TYPE_CHECKING:
    from weft.translation.results import Translation
    from weft.translation.translator import Translator


class SourceText(NamedTuple):
    """A text to translate."""

    text: str
    """The source as the model reads it."""
    pair: Pair
    """The original pair, as it stands in its corpus."""


class OutputJob(NamedTuple):
    """The search for outputs and the format in which they are written."""

    search: Mapping[str, Any]
    """Changes of search settings."""
    n_best: int
    rows: Callable[[SourceText, list[str]], list[str]]
    """The lines of an item and its usable outputs, best first; there is at least one output."""
    made_by: Mapping[str, Any]
    """Everything that must match for an unfinished file to be continued."""


class WrittenOutputs(NamedTuple):
    """A complete file of outputs."""

    path: Path
    rows: int
    left_out: int = 0
    """Items without a row: too long, without an output, or with one that was cut off at the length limit."""
    seconds: float = 0.0
    """0: it was complete before."""


def write_outputs(
    model: Callable[[], Translator], items: Callable[[], Iterator[SourceText]], path: Path, job: OutputJob
) -> WrittenOutputs:
    """Write the outputs of a model for all items, unless the file is complete; ``model``, ``items``: called if not."""
    output = ResumableOutput(path, resume=True)
    if output.is_complete():
        output.remove_progress()
        return WrittenOutputs(path, count_lines(path))
    start_time = time.monotonic()
    path.parent.mkdir(parents=True, exist_ok=True)
    waiting: deque[SourceText] = deque()

    def stream_texts() -> Iterator[str]:
        for item in items():
            waiting.append(item)
            yield item.text

    with output:
        translator = model()
        stream = stream_texts()
        output.begin(job.made_by, stream)
        waiting.clear()
        for window, results in _translated(translator, stream, job, output.lines):
            rows = [job.rows(item, texts) if texts else [] for item, texts in _outputs(waiting, results)]
            content = "".join(f"{row}\n" for lines in rows for row in lines)
            output.add(window, content.encode("utf-8"), skipped=sum(not lines for lines in rows))
        if not output.bytes:
            raise DataError(f"{path}: no pairs: {'no output could be used' if output.lines else 'there is no source'}")
        left_out = output.skipped
        output.finish()
    return WrittenOutputs(path, count_lines(path), left_out, time.monotonic() - start_time)


def _translated(
    model: Translator, stream: Iterator[str], job: OutputJob, done: int
) -> Iterator[tuple[Sequence[str], Sequence[Translation | DataError]]]:
    """Every window of the texts with its results; ``done``: texts before the first of them."""
    search = WindowSearch(dict(job.search), job.n_best)
    with activity("translating", "lines") as translating:
        translating.done = done
        windows = search.windows(stream, large=model.pipeline.overlaps())
        for window, results in search.translate(model, windows):
            yield [line for line in window if isinstance(line, str)], results


def _outputs(
    waiting: deque[SourceText], results: Sequence[Translation | DataError]
) -> Iterator[tuple[SourceText, list[str]]]:
    """The items of a window, each with its usable outputs."""
    for result in results:
        yield waiting.popleft(), usable_texts(result)


def usable_texts(result: Translation | DataError) -> list[str]:
    """The different outputs for a text, best first, without those that are blank or were cut off."""
    if isinstance(result, DataError):
        return []
    hypotheses = [result, *result.alternatives]
    texts = [one.text for one in hypotheses if one.text.strip() and not one.ended_by_length]
    return list(dict.fromkeys(texts))
