"""Stages that overlap: while a thread searches (`weft.fast.overlap.background`), the caller's thread tokenizes the next
requests and decodes finished ones, a block at a time whenever the search waits for the GPU.

Equal to `weft.translation.pipeline.Pipeline.search_each`; tests/fast/overlap/test_pipeline.py.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from weft.errors import ColumnCountError, InputTooLongError
from weft.fast.overlap.background import BackgroundSearch
from weft.translation.engines.interface import TranslationRequest
from weft.translation.pipeline import Outcome, Pipeline, search

PREFETCHED = 2
"""Requests that are searched, or wait to be searched, before the results of the one before them are taken."""


def is_on_gpu(pipeline: Pipeline) -> bool:
    return pipeline.device.type == "cuda"


def gpu_overlaps(pipeline: Pipeline) -> bool:
    """A search on a GPU leaves the processor to the other stages."""
    return True


def stages_overlap(pipeline: Pipeline, requests: Iterable[TranslationRequest]) -> bool:
    return pipeline.overlaps()


def search_in_background(pipeline: Pipeline, requests: Iterable[TranslationRequest]) -> Iterator[Outcome]:
    """`Pipeline.search_each` with a thread that searches."""
    waiting: deque[Callable[[], Outcome]] = deque()
    with BackgroundSearch(pipeline.engine) as background:
        begin = partial(_begin, pipeline, iter(requests), background)
        while (finish := begin()) is not None:
            waiting.append(finish)
            if len(waiting) > PREFETCHED:
                yield waiting.popleft()()
        while waiting:
            yield waiting.popleft()()


def _begin(
    pipeline: Pipeline, requests: Iterator[TranslationRequest], background: BackgroundSearch
) -> Callable[[], Outcome] | None:
    """Tokenize the next request and begin to search it: a function that waits for its results; None after the last."""
    try:
        request = next(requests)
        tokenized = pipeline.tokenize(request, background.yield_to_search)
    except StopIteration:
        return None
    except Exception as error:
        return partial(_fail, error)
    batches = search(tokenized, background.search)

    def finish() -> Outcome:
        try:
            return pipeline.postprocess(tokenized, batches, background.yield_to_search)
        except Exception as error:
            return _fail(error)

    return finish


def _fail(error: Exception) -> Outcome:
    if isinstance(error, InputTooLongError | ColumnCountError):
        return error
    raise error
