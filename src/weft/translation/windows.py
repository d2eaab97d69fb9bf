"""Windows: consecutive lines of a file that are sorted by length and searched together.

    window   what is read, searched and written at a time, in bounded memory: `Translator.translate_lines`
    part     several windows, by line numbers: the share of one of N jobs (`weft.translation.parts`)
    block    as much as a window, by bytes or rows, where any process can begin to read (`weft.apps.cluster.blocks`)

Parts and blocks have outputs that are merged in their order. Parts consist of whole windows, so that the merged output
is that of one job.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from weft.data.reading.lines import BadLine, is_seekable
from weft.errors import ColumnCountError, DataError, InputTooLongError
from weft.translation import pipeline

if TYPE_CHECKING:
    from weft.data.reading.glossary import Glossary
    from weft.data.reading.translation_memory import TranslationMemory
    from weft.translation.engines.interface import TranslationRequest
    from weft.translation.results import Translation
    from weft.translation.translator import Translator

Item = TypeVar("Item")
Result = TypeVar("Result")
Line = str | BadLine
TranslatedWindow = tuple[list[Line], "list[Translation | DataError]"]
"""The lines of a window, and the results of those that can be read."""


def large_window_sizes(sizes: Sequence[int]) -> list[int]:
    """The sizes of the large windows that windows of these sizes are joined to."""
    count = pipeline.GPU_WINDOWS
    return [sum(sizes[start : start + count]) for start in range(0, len(sizes), count)]


class WindowSearch(NamedTuple):
    """The search for the windows of a file."""

    settings: dict[str, Any]
    """Changes of search settings."""
    n_best: int = 1
    return_attention: bool = False
    translate_lines: Callable[..., list[Translation]] | None = None
    """Translates lines in place of `Translator.translate`: those that have several sentences each."""
    glossary: Glossary | None = None
    memory: TranslationMemory | None = None

    @property
    def options(self) -> dict[str, Any]:
        """Arguments of `Translator.translate` and, without a memory, of `request`."""
        given = {"glossary": self.glossary, "translation_memory": self.memory}
        return self.settings | {name: value for name, value in given.items() if value is not None}

    def windows(self, lines: Iterable[Line | None], *, large: bool = False) -> Iterator[list[Line]]:
        return pipeline.windows_of(lines, return_attention=self.return_attention, large=large)

    def translate_stream(
        self, model: Translator, stream: Iterator[Line | None], *, file: str
    ) -> Iterator[TranslatedWindow]:
        """Every window of a stream, with the results of its lines.

        On a GPU the next windows of a file are tokenized and searched before the results of one are taken; where more
        lines may come later, in a pipe, a window is written before the next one is waited for.
        """
        in_turn = self.translate_lines is not None or self.memory is not None
        if in_turn or (model.pipeline.overlaps() and not is_seekable(file)):
            for window in self.windows(stream):
                yield window, self._each_line(model, _readable(window))
        else:
            yield from self.translate(model, self.windows(stream, large=model.pipeline.overlaps()))

    def translate(self, model: Translator, windows: Iterable[list[Line]]) -> Iterator[TranslatedWindow]:
        """Every window with the results of its lines; on a GPU, windows are read ahead."""
        if not model.pipeline.overlaps():
            for window in windows:
                yield window, self._each_line(model, _readable(window))
            return
        waiting: deque[list[Line]] = deque()

        def requests() -> Iterator[TranslationRequest]:
            for window in windows:
                waiting.append(window)
                request = model.request(_readable(window), **self.options)
                yield replace(request, n_best=self.n_best, return_attention=self.return_attention)

        for outcome in model.pipeline.search_each(requests()):
            window = waiting.popleft()
            if isinstance(outcome, list):
                yield window, list(outcome)
            else:
                yield window, self._each_line(model, _readable(window))

    def _each_line(self, model: Translator, lines: Sequence[str]) -> list[Translation | DataError]:
        """The translations of lines; a line that cannot be translated gives an error instead."""

        def translate(lines: Sequence[str]) -> list[Translation]:
            if self.translate_lines is not None:
                return self.translate_lines(model, lines, **self.options)
            return model.translate(lines, n_best=self.n_best, return_attention=self.return_attention, **self.options)

        return process_each(lines, translate)


def _readable(window: Sequence[Line]) -> list[str]:
    return [line for line in window if not isinstance(line, BadLine)]


def process_each(
    items: Sequence[Item], process: Callable[[Sequence[Item]], Sequence[Result]]
) -> list[Result | DataError]:
    """The results of all items; an item that is too long, or has the wrong number of columns, gives an error instead.

    All are processed together; if that fails, in halves, so that a few such items cost little.
    """
    if not items:
        return []
    try:
        return list(process(items))
    except (InputTooLongError, ColumnCountError) as error:
        if len(items) == 1:
            return [error]
    half = len(items) // 2
    return [*process_each(items[:half], process), *process_each(items[half:], process)]
