"""From texts to translations in three stages: tokenization, search, postprocessing.

On a GPU they overlap: a thread searches (`weft.translation.engines.background`) while the caller's thread tokenizes the
requests that follow and makes text of what was found. On a CPU one stage follows the other, since the search alone
keeps all cores busy. The results are the same, and come in order; at most `AHEAD` requests are searched, or wait to be
searched, before the results of the first of them were taken.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from weft.errors import ColumnCountError, InputTooLongError
from weft.translation.engines.interface import EngineRequest, SearchedBatch, searched_batches
from weft.translation.inputs import TranslationRequest, check_lengths
from weft.translation.results import Translation, empty_translation
from weft.translation.word_alignment import Sentence, framed_sentence

if TYPE_CHECKING:
    from weft.translation.translator import Translator

AHEAD = 2
"""Requests that are tokenized, and searched, before the results of the one before them are taken."""
REQUEST_SOURCES = 16_384
"""Sources that are tokenized at a time when the stages overlap …"""
FEW_SOURCES = 256
"""… and so few that they do not."""

Search = Callable[[EngineRequest], Iterator[SearchedBatch]]
Outcome = list[Translation] | InputTooLongError | ColumnCountError
"""The translations of a request, or why it has none."""


class TokenizedRequest(NamedTuple):
    """Sources as an engine searches them."""

    sentences: list[Sentence]
    """All sources; those without tokens are not searched."""
    rows: list[int]
    """The sentences that are searched."""
    engine_request: EngineRequest
    replace_unknown: bool


def tokenize(translator: Translator, request: TranslationRequest) -> TokenizedRequest:
    """The first stage."""
    sources, settings = request.sources, request.settings
    prompts = translator.source_role == "prompt"
    frame = translator.tokenizers.with_languages(settings.source_language, settings.target_language).frame
    encoded = translator.encode_sources(sources)
    if not prompts:
        encoded = [frame.source(ids) if ids else [] for ids in encoded]
    check_lengths(encoded, training_limit=translator.recipe.data.max_length)
    sentences = [framed_sentence(text, ids, frame) for text, ids in zip(sources, encoded, strict=True)]
    rows = [row for row, ids in enumerate(encoded) if ids]
    replace_unknown = settings.replace_unknown and not prompts
    engine_request = EngineRequest(
        [encoded[row] for row in rows],
        [request.prefixes[row] for row in rows] if request.prefixes else [[]] * len(rows),
        settings,
        n_best=request.n_best,
        return_attention=(request.return_attention or replace_unknown) and not prompts,
        return_trace=request.return_trace,
        start=frame.start,
        prompts=prompts,
        length_limits=translator.length_limits,
        decoders=translator.decoders(sentences[row] for row in rows),
        observer=request.observer,
        traced_candidates=request.traced_candidates,
    )
    return TokenizedRequest(sentences, rows, engine_request, replace_unknown)


def postprocess(
    translator: Translator, request: TokenizedRequest, batches: Iterable[SearchedBatch]
) -> list[Translation]:
    """The last stage: one translation for every source."""
    results: list[Translation | None] = [None] * len(request.sentences)
    for batch in batches:
        rows = [request.rows[row] for row in batch.rows]
        sentences = [request.sentences[row] for row in rows]
        translations = translator.postprocessor.batch(
            sentences, batch.hypotheses, replace_unknown=request.replace_unknown
        )
        for row, translation in zip(rows, translations, strict=True):
            results[row] = translation
    return [
        empty_translation(sentence.text) if result is None else result
        for sentence, result in zip(request.sentences, results, strict=True)
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
    from weft.translation.engines.background import BackgroundSearch

    waiting: deque[Callable[[], Outcome]] = deque()
    with BackgroundSearch(translator.engine) as background:
        begin = partial(_begin, translator, iter(requests), background.search)
        while (finish := begin()) is not None:
            waiting.append(finish)
            if len(waiting) > AHEAD:
                yield waiting.popleft()()
        while waiting:
            yield waiting.popleft()()


def _begin(
    translator: Translator, requests: Iterator[TranslationRequest], search: Search
) -> Callable[[], Outcome] | None:
    """Tokenize the next request and begin to search it: a function that waits for its results; None after the last."""
    try:
        request = next(requests)
        tokenized = tokenize(translator, request)
    except StopIteration:
        return None
    except Exception as error:
        return partial(_fail, error)
    batches = search(tokenized.engine_request)

    def finish() -> Outcome:
        try:
            return postprocess(translator, tokenized, batches)
        except Exception as error:
            return _fail(error)

    return finish


def _fail(error: Exception) -> Outcome:
    if isinstance(error, InputTooLongError | ColumnCountError):
        return error
    raise error
