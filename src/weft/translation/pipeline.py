"""From texts to translations in three stages: tokenization, search, postprocessing.

One stage follows the other, since on a CPU the search alone keeps all cores busy. On a GPU they overlap
(`weft.fast.overlap.pipeline`): the results are the same, and come in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.errors import ColumnCountError, InputTooLongError
from weft.runtime.replaceable import replaceable
from weft.search.interface import HypothesisArrays, PendingHypotheses
from weft.text.id_rows import IdRows
from weft.translation.engines.interface import Engine, SearchedBatch, TranslationRequest, searched_batches
from weft.translation.inputs import check_lengths
from weft.translation.results import Translation, empty_translation
from weft.translation.word_alignment import Sentences

if TYPE_CHECKING:
    import torch

    from weft.translation.text_processor import TextProcessor

REQUEST_SOURCES = 16_384
"""Sources that are tokenized at a time when the stages overlap."""
FEW_SOURCES = 256
"""With at most this many sources, the stages do not overlap."""
BLOCK_SOURCES = 256
"""Sources between two pauses of the caller's thread."""
WINDOW_LINES = 4096
"""Lines of a file that are sorted by length together: a window."""
WINDOW_CHARACTERS = 2**19
"""A window ends earlier if it has this many characters; an eighth of that if attention is returned."""
GPU_WINDOWS = 4
"""On a GPU, where batches are larger, a window is this many times as large."""

Pause = Callable[[], None]
Searched = Iterator[SearchedBatch]
Outcome = list[Translation] | InputTooLongError | ColumnCountError
"""The translations of a request, or why it has none."""


def windows_of(lines: Iterable[Any], *, return_attention: bool, large: bool = False) -> Iterator[list[Any]]:
    """Consecutive lines that are sorted by length together; ``large``: on a GPU, where several windows are one."""
    from weft.data.reading.lines import chunk_lines

    characters = WINDOW_CHARACTERS // 8 if return_attention else WINDOW_CHARACTERS
    windows = chunk_lines(lines, max_lines=WINDOW_LINES, max_characters=characters)
    if not large:
        return windows
    groups = iter(lambda: list(islice(windows, GPU_WINDOWS)), [])
    return (list(chain.from_iterable(group)) for group in groups)


def no_pause() -> None:
    """The pause between blocks where the stages do not overlap: none."""


def blocks(count: int) -> Iterator[slice]:
    """Slices of `BLOCK_SOURCES` items that together cover ``count`` items; at least one."""
    return (slice(start, start + BLOCK_SOURCES) for start in range(0, max(count, 1), BLOCK_SOURCES))


@dataclass(frozen=True)
class Pipeline:
    """The three stages of one model."""

    text: TextProcessor
    engine: Engine
    device: torch.device
    """The engine's device."""

    def tokenize(self, request: TranslationRequest, pause: Pause = no_pause) -> TranslationRequest:
        """The first stage: the request with the ids of its texts. ``pause``: called between blocks of a large one."""
        settings, text = request.settings, self.text
        prompts = text.source_role == "prompt"
        frame = text.frame(settings.source_language, settings.target_language)
        encoded = []
        for block in blocks(len(request.texts)):
            pause()
            encoded.append(text.encode_sources(request.texts[block]))
        ids = IdRows.concatenate(encoded)
        if not prompts:
            ids = ids.framed(frame.source_before, frame.source_after)
        check_lengths(ids, training_limit=text.max_training_length)
        return replace(
            request,
            sources=ids,
            return_attention=(request.return_attention or settings.replace_unknown) and not prompts,
            frame=frame,
            prompts=prompts,
            decoders=text.decoders(Sentences(request.texts, ids, frame)),
        )

    def postprocess(self, request: TranslationRequest, batches: Searched, pause: Pause = no_pause) -> list[Translation]:
        """The last stage: one translation for every source. ``pause``: as for `tokenize`."""
        sentences = Sentences(request.texts, IdRows.of(request.sources), request.frame)
        replace_unknown = request.settings.replace_unknown and not request.prompts
        results: list[Translation | None] = [None] * len(sentences)
        for batch in batches:
            rows, hypotheses = np.asarray(batch.rows, dtype=np.int64), batch.hypotheses
            pause()
            hypotheses = hypotheses.arrays if isinstance(hypotheses, PendingHypotheses) else hypotheses
            for block in blocks(len(rows)):
                pause()
                part = hypotheses.part(block) if isinstance(hypotheses, HypothesisArrays) else hypotheses[block]
                translations = self.text.batch(sentences.select(rows[block]), part, replace_unknown=replace_unknown)
                for row, translation in zip(rows[block].tolist(), translations, strict=True):
                    results[row] = translation
        return [
            empty_translation(text) if result is None else result
            for text, result in zip(request.texts, results, strict=True)
        ]

    @replaceable
    def overlaps(self) -> bool:
        """Whether the stages of several requests overlap."""
        return False

    def search_all(self, request: TranslationRequest) -> list[Translation]:
        """The translations of one request, in parts if it is large and the stages overlap."""
        if not self.overlaps() or len(request.texts) <= FEW_SOURCES or request.observer is not None:
            tokenized = self.tokenize(request)
            return self.postprocess(tokenized, search(tokenized, partial(searched_batches, self.engine)))
        results: list[Translation] = []
        for outcome in self.search_each(request.parts(REQUEST_SOURCES)):
            if not isinstance(outcome, list):
                raise outcome
            results += outcome
        return results

    @replaceable
    def search_each(self, requests: Iterable[TranslationRequest]) -> Iterator[Outcome]:
        """The translations of each request, in order, or an error that only some of its sources cause.

        Any other error is raised where the translations of its request would have been.
        """
        for request in requests:
            try:
                yield self.search_all(request)
            except (InputTooLongError, ColumnCountError) as error:
                yield error


def search(request: TranslationRequest, begin: Callable[[TranslationRequest], Searched]) -> Searched:
    """The second stage: the hypotheses of the sources that have tokens. ``begin``: what searches."""
    rows = np.flatnonzero(IdRows.of(request.sources).lengths_B)
    if len(rows) == len(request.sources):
        return begin(request)
    batches = begin(request.select(rows))
    return (SearchedBatch(rows[np.asarray(batch.rows, dtype=np.int64)], batch.hypotheses) for batch in batches)
