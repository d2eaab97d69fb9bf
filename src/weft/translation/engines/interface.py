"""The two ends of an engine: the request that it searches, the hypotheses it returns. A `Translator` is given one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from threading import Event
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from weft.errors import SearchError
from weft.models.interface import HasMaxTargetLength, Model
from weft.recipe.search import SearchSettings
from weft.runs.length_limits import SMALLEST, LengthLimits
from weft.search.interface import TRACED_CANDIDATES, Hypothesis
from weft.text.frames import DEFAULT_FRAME, Frame
from weft.text.id_rows import IdRows
from weft.translation.inputs import describe

if TYPE_CHECKING:
    from weft.search.loop import StepObserver

Value = TypeVar("Value")
OBSERVED_CANDIDATES = 100
"""Candidates of a step of greedy search or sampling that an observer sees."""
COMPLETION_LENGTH = 100
"""The least number of tokens by which a text may be continued, where nothing else limits it."""

FIELDS_BY_TEXT = ("texts", "shown", "prefixes", "required", "terms")
"""Fields of a request that have an item for each text, or are empty."""


@dataclass(frozen=True, kw_only=True)
class TranslationRequest:
    """Sources to translate, checked, and what to return for each.

    `Translator.request` makes one of texts, the pipeline adds their ids, and an engine searches it in batches, each of
    which is a `weft.search.interface.SearchRequest`. Engines read nothing of the texts.
    """

    settings: SearchSettings
    texts: Sequence[str] = ()
    sources: Sequence[Sequence[int]] = ()
    """The token ids of the texts as the model reads them, in their frame unless they are prompts; empty: the texts have
    not been tokenized."""
    prefixes: Sequence[Sequence[int]] = ()
    """The token ids that the outputs of each source must begin with; empty: none."""
    required: Sequence[Sequence[Sequence[Sequence[int]]]] = ()
    """The terms that the output of each source contains, each as token ids of its variants; empty: none."""
    terms: Sequence[Sequence[tuple[str, ...]]] = ()
    """The variants of these terms as texts, and of those that cannot be required; empty: none."""
    shown: Sequence[str] = ()
    """The texts as they were given, if the model reads more: terms, or a similar translation; empty: the texts."""
    n_best: int = 1
    return_attention: bool = False
    return_trace: bool = False
    """Whether to keep a record of every step of the search."""
    observer: StepObserver | None = None
    """Sees every step of the search; its sentences are the sources of this request."""
    frame: Frame = DEFAULT_FRAME
    """Special tokens around sources and outputs."""
    prompts: bool = False
    """Whether the sources are prompts that a language model continues."""
    length_limits: LengthLimits = SMALLEST
    """Limits that apply where the settings do not limit the length."""
    decoders: Sequence[Callable[[Sequence[int]], str]] = ()
    """A decoder for each source, whose ids may be valid for its outputs only; empty: the tokenizer decodes all."""

    @property
    def start(self) -> tuple[int, ...]:
        """The decoder inputs before the first token of an output."""
        return self.frame.start

    @property
    def traced_candidates(self) -> int:
        """Candidates of a step of greedy search or sampling that a trace contains."""
        return TRACED_CANDIDATES if self.observer is None else OBSERVED_CANDIDATES

    def without_texts(self) -> TranslationRequest:
        """The request as an engine reads it, without texts that would be selected for every batch."""
        return replace(self, sources=IdRows.of(self.sources), texts=(), shown=(), terms=())

    def parts(self, size: int) -> Iterator[TranslationRequest]:
        """The texts of the request in parts of at most ``size``."""
        for start in range(0, len(self.texts), size):
            part = slice(start, start + size)
            yield replace(self, **{name: getattr(self, name)[part] for name in FIELDS_BY_TEXT})

    def reading(self, texts: Sequence[str]) -> TranslationRequest:
        """The request for a model that reads these texts, which have terms or similar translations added."""
        return replace(self, texts=texts, shown=self.shown or self.texts)

    def select(self, rows: Iterable[int]) -> TranslationRequest:
        """The request for some of the sources."""
        indices = rows if isinstance(rows, np.ndarray) else list(rows)
        sources = self.sources
        by_text: dict[str, Any] = {name: _of_rows(getattr(self, name), indices) for name in FIELDS_BY_TEXT}
        return replace(
            self,
            observer=None if self.observer is None else _RowsObserver(self.observer, [int(row) for row in indices]),
            **by_text,
            sources=sources.select(indices) if isinstance(sources, IdRows) else _of_rows(sources, indices),
            decoders=_of_rows(self.decoders, indices),
        )

    def max_lengths(self, model: Model) -> list[int]:
        """The most tokens that each output may have."""

        def limit(source: int, prefix: int) -> int:
            start = len(self.start)
            return max_output_length(
                model, self.settings, self.length_limits, source=source, prefix=prefix, start=start
            )

        sources = self._source_lengths().tolist()
        if not any(self.prefixes):
            limits = {source: limit(source, 0) for source in set(sources)}
            return list(map(limits.__getitem__, sources))
        pairs = list(zip(sources, map(len, self.prefixes), strict=True))
        limits_of_pairs = {pair: limit(*pair) for pair in set(pairs)}
        return [limits_of_pairs[pair] for pair in pairs]

    def min_lengths(self) -> list[int]:
        """The tokens that each output must have before it may end; empty: none."""
        settings = self.settings
        if not settings.min_length and not settings.min_ratio:
            return []
        return [
            max(settings.min_length, int(settings.min_ratio * max(length - 1, 0)))
            for length in self._source_lengths().tolist()
        ]

    def _source_lengths(self) -> NDArray[np.int64]:
        """The lengths of the sources as if each had an end token; of arrays, whose bytes say nothing, that alone."""
        sources = IdRows.of(self.sources)
        return np.ones_like(sources.lengths_B) if sources.are_arrays else sources.lengths_B + self.prompts


def max_output_length(
    model: Model,
    settings: SearchSettings,
    limits: LengthLimits = SMALLEST,
    *,
    source: int,
    prefix: int = 0,
    start: int = 1,
) -> int:
    """The most tokens of an output for a source of ``source`` tokens, its end token included.

    As `search.max_length`, `max_ratio` and `max_extra` say and, where these are not set, the limits; but at least one
    token after the prefix, and no more than the model has positions for, of which the start takes some.
    """
    ratio, extra = settings.max_ratio, settings.max_extra
    limit = settings.max_length or limits.limit(max(source - 1, 0), max_ratio=ratio, max_extra=extra)
    limit = max(limit, prefix + 1)
    longest = model.max_target_length(source) if isinstance(model, HasMaxTargetLength) else None
    return max(limit if longest is None else min(limit, longest - start + 1), prefix, 1)


def completion_limit(settings: SearchSettings, limits: LengthLimits, *, prefix: int, length: int | None) -> int:
    """The most tokens of a text that continues a prefix, the prefix included; ``length``: tokens after it, if given."""
    if length is None and settings.max_length:
        return settings.max_length
    return prefix + (max(COMPLETION_LENGTH, limits.max_extra) if length is None else length)


def as_count(value: Any, name: str) -> int:
    """A whole number of at least 1."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise SearchError(f"{name}: {describe(value)} was given, expected a whole number of at least 1")
    if (number := value.__index__()) < 1:
        raise SearchError(f"{name}: {number} was given, expected at least 1")
    return int(number)


def _of_rows(values: Sequence[Value], rows: Iterable[int]) -> Sequence[Value]:
    """The values of some of the sources; none if there are none."""
    return [values[row] for row in rows] if len(values) else ()


class _RowsObserver:
    """Passes steps on to the observer of a request of which some rows were selected."""

    def __init__(self, observer: StepObserver, rows: Sequence[int]) -> None:
        self.observer = observer
        self.rows = rows

    def on_step(self, sentences: Sequence[int], record: Any) -> None:
        self.observer.on_step([self.rows[sentence] for sentence in sentences], record)

    def is_abandoned(self, sentence: int) -> bool:
        return self.observer.is_abandoned(self.rows[sentence])


class Engine(Protocol):
    """Searches for the most probable outputs of a model."""

    name: str
    precision: str
    """Precision of its matrix products: fp32, bf16 or int8."""

    def search(self, request: TranslationRequest) -> Sequence[list[Hypothesis]]:
        """The hypotheses of every source, best first."""
        ...


class SearchedBatch(NamedTuple):
    """The hypotheses of some of the sources of a request."""

    rows: Sequence[int] | NDArray[np.int64]
    hypotheses: Sequence[list[Hypothesis]]
    """Hypotheses of every row, best first."""


@runtime_checkable
class BatchEngine(Protocol):
    """An engine that returns the results of a request batch by batch."""

    def batches(self, request: TranslationRequest) -> Iterator[SearchedBatch]:
        """All sources of the request, each of them once, in any order."""
        ...


class PreparableSearch(Protocol):
    """A search whose first batch can be encoded while another search still runs."""

    def prepare(self) -> None:
        """Encode the first batch. An error is raised when the results are read."""
        ...

    def batches(self, on_last_batch: Callable[[], None]) -> Iterator[SearchedBatch]:
        """The results. ``on_last_batch``: called while the device takes the first steps of the last batch."""
        ...


@runtime_checkable
class OverlappingEngine(Protocol):
    """An engine whose host can do other work while its device searches."""

    def begin(self, request: TranslationRequest) -> PreparableSearch | None:
        """A search that can be prepared before its turn; None: nothing is gained by that."""
        ...

    def idle_event(self) -> Event | None:
        """Set while a search waits for the device; None: no search does."""
        ...


@runtime_checkable
class HasSteppingEngine(Protocol):
    """An engine that cannot show its steps, and has another one that can."""

    def stepping_engine(self) -> Engine: ...


class AutoEngine:
    """One engine for few sources, and where attention is returned; another, which takes a while to start, for many."""

    name = "auto"

    def __init__(self, for_few: Engine, for_many: Engine, *, min_sources: int) -> None:
        """``min_sources``: the fewest for which the other engine pays off."""
        self.for_few = for_few
        self.for_many = for_many
        self.min_sources = min_sources
        self.precision = for_few.precision

    def stepping_engine(self) -> Engine:
        return self.for_few

    def search(self, request: TranslationRequest) -> Sequence[list[Hypothesis]]:
        is_few = len(request.sources) < self.min_sources or request.return_attention
        return (self.for_few if is_few else self.for_many).search(request)


def searched_batches(engine: Engine, request: TranslationRequest) -> Iterator[SearchedBatch]:
    """The results of a request: batch by batch, if the engine can."""
    if isinstance(engine, BatchEngine):
        yield from engine.batches(request)
    else:
        yield SearchedBatch(range(len(request.sources)), engine.search(request))
