"""From texts to translations in three stages: tokenization, search, postprocessing.

On a GPU they overlap: a thread searches (`weft.translation.engines.background`) while the caller's thread tokenizes the
requests that follow and decodes finished ones, a block at a time whenever the search waits. On a CPU one stage follows
the other, since the search alone keeps all cores busy. The results are the same, and come in order; at most `AHEAD`
requests are searched, or wait to be searched, before the results of the first of them are taken.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.errors import ColumnCountError, InputTooLongError
from weft.search.interface import HypothesisArrays, PendingHypotheses
from weft.text.id_rows import IdRows
from weft.translation.engines.interface import EngineRequest, SearchedBatch, searched_batches
from weft.translation.inputs import TranslationRequest, check_lengths
from weft.translation.results import Translation, empty_translation
from weft.translation.word_alignment import Sentences

if TYPE_CHECKING:
    from weft.translation.engines.background import BackgroundSearch
    from weft.translation.translator import Translator

AHEAD = 2
"""Requests that are tokenized, and searched, before the results of the one before them are taken."""
REQUEST_SOURCES = 16_384
"""Sources that are tokenized at a time when the stages overlap."""
FEW_SOURCES = 256
"""With at most this many sources, the stages do not overlap."""
BLOCK_SOURCES = 256
"""Sources between two pauses of the caller's thread."""

Pause = Callable[[], None]
Outcome = list[Translation] | InputTooLongError | ColumnCountError
"""The translations of a request, or why it has none."""


class TokenizedRequest(NamedTuple):
    """Sources as an engine searches them."""

    sentences: Sentences
    """All sources; those without tokens are not searched."""
    rows: NDArray[np.int64]
    """The sentences that are searched."""
    engine_request: EngineRequest
    replace_unknown: bool


def no_pause() -> None:
    """The pause between blocks where the stages do not overlap: none."""


def blocks(count: int) -> Iterator[slice]:
    """Slices of `BLOCK_SOURCES` items that together cover ``count`` items; at least one."""
    return (slice(start, start + BLOCK_SOURCES) for start in range(0, max(count, 1), BLOCK_SOURCES))


def tokenize(translator: Translator, request: TranslationRequest, pause: Pause = no_pause) -> TokenizedRequest:
    """The first stage. ``pause``: called between the blocks of a large request."""
    settings = request.settings
    prompts = translator.source_role == "prompt"
    frame = translator.tokenizers.with_languages(settings.source_language, settings.target_language).frame
    encoded = []
    for block in blocks(len(request.sources)):
        pause()
        encoded.append(translator.encode_sources(request.sources[block]))
    ids = IdRows.concatenate(encoded)
    if not prompts:
        ids = ids.framed(frame.source_before, frame.source_after)
    check_lengths(ids, training_limit=translator.recipe.data.max_length)
    sentences = Sentences(request.sources, ids, frame)
    rows = np.flatnonzero(ids.lengths_B)
    replace_unknown = settings.replace_unknown and not prompts
    engine_request = EngineRequest(
        ids if len(rows) == len(ids) else ids.select(rows),
        [request.prefixes[row] for row in rows.tolist()] if request.prefixes else (),
        settings,
        n_best=request.n_best,
        return_attention=(request.return_attention or replace_unknown) and not prompts,
        return_trace=request.return_trace,
        start=frame.start,
        prompts=prompts,
        length_limits=translator.length_limits,
        decoders=translator.decoders(sentences[row] for row in rows.tolist()),
        observer=request.observer,
        traced_candidates=request.traced_candidates,
    )
    return TokenizedRequest(sentences, rows, engine_request, replace_unknown)


def postprocess(
    translator: Translator, request: TokenizedRequest, batches: Iterable[SearchedBatch], pause: Pause = no_pause
) -> list[Translation]:
    """The last stage: one translation for every source. ``pause``: as for `tokenize`."""
    results: list[Translation | None] = [None] * len(request.sentences)
    for batch in batches:
        rows = request.rows[np.asarray(batch.rows, dtype=np.int64)]
        pause()
        hypotheses = batch.hypotheses.arrays if isinstance(batch.hypotheses, PendingHypotheses) else batch.hypotheses
        for block in blocks(len(rows)):
            pause()
            part = hypotheses.part(block) if isinstance(hypotheses, HypothesisArrays) else hypotheses[block]
            translations = translator.postprocessor.batch(
                request.sentences.select(rows[block]), part, replace_unknown=request.replace_unknown
            )
            for row, translation in zip(rows[block].tolist(), translations, strict=True):
                results[row] = translation
    if len(request.rows) == len(results):
        return results  # type: ignore[return-value]
    return [
        empty_translation(text) if result is None else result
        for text, result in zip(request.sentences.texts, results, strict=True)
    ]


def overlaps(translator: Translator) -> bool:
    """Whether stages overlap: where the search leaves the processor alone."""
    return translator.device.type == "cuda"


def search_all(translator: Translator, request: TranslationRequest) -> list[Translation]:
    """The translations of one request, in parts if it is large and the stages overlap."""
    if not overlaps(translator) or len(request.sources) <= FEW_SOURCES or request.observer is not None:
        tokenized = tokenize(translator, request)
        return postprocess(translator, tokenized, searched_batches(translator.engine, tokenized.engine_request))
    results: list[Translation] = []
    for outcome in search_each(translator, request.parts(REQUEST_SOURCES)):
        if not isinstance(outcome, list):
            raise outcome
        results += outcome
    return results


def search_each(translator: Translator, requests: Iterable[TranslationRequest]) -> Iterator[Outcome]:
    """The translations of each request, in order, or an error that only some of its sources cause; stages overlap.

    Any other error is raised where the translations of its request would have been.
    """
    from weft.garbage_collection import existing_objects_exempt
    from weft.translation.engines.background import BackgroundSearch

    waiting: deque[Callable[[], Outcome]] = deque()
    with existing_objects_exempt(), BackgroundSearch(translator.engine) as background:
        begin = partial(_begin, translator, iter(requests), background)
        while (finish := begin()) is not None:
            waiting.append(finish)
            if len(waiting) > AHEAD:
                yield waiting.popleft()()
        while waiting:
            yield waiting.popleft()()


def _begin(
    translator: Translator, requests: Iterator[TranslationRequest], background: BackgroundSearch
) -> Callable[[], Outcome] | None:
    """Tokenize the next request and begin to search it: a function that waits for its results; None after the last."""
    try:
        request = next(requests)
        tokenized = tokenize(translator, request, background.give_way)
    except StopIteration:
        return None
    except Exception as error:
        return partial(_fail, error)
    batches = background.search(tokenized.engine_request)

    def finish() -> Outcome:
        try:
            return postprocess(translator, tokenized, batches, background.give_way)
        except Exception as error:
            return _fail(error)

    return finish


def _fail(error: Exception) -> Outcome:
    if isinstance(error, InputTooLongError | ColumnCountError):
        return error
    raise error
