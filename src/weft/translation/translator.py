"""`Translator`: a model with its tokenizers, ready to translate, score and be inspected.

run = weft.load("runs/grammar")
t = run.translate("he hit me with a pie")
t.text, t.score, t.tokens, t.attention, t.links

weft.Translator(my_model, tokenizers)       any model that has the methods of `weft.models.interface.Model`
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import torch

from weft.errors import RecipeError, SearchError, option
from weft.recipe import Recipe, make_recipe
from weft.recipe.search import SearchSettings
from weft.runs.copying import sentence_ids
from weft.runs.length_limits import LengthLimits
from weft.text.id_rows import IdRows
from weft.text.tokenizer import Tokenizers
from weft.translation.engines.interface import Engine, EngineRequest, completion_limit
from weft.translation.engines.search_memory import fixed_batch_tokens
from weft.translation.engines.torch import TorchEngine
from weft.translation.inputs import (
    TranslationRequest,
    as_count,
    as_pairs,
    as_source,
    as_sources,
    as_text,
    as_texts,
    traced_candidates,
)
from weft.translation.pipeline import overlaps, search_all, search_each
from weft.translation.postprocessing import Postprocessor
from weft.translation.results import (
    CopiedTokens,
    HeadAttention,
    PairScore,
    Translation,
    WordAttention,
)
from weft.translation.word_alignment import Sentence, framed_sentence

if TYPE_CHECKING:
    from weft.attention.edits import AttentionEdits
    from weft.data.pairs import Pair
    from weft.data.store.encode import SourceRole
    from weft.data.store.token_store import PairStore
    from weft.models.interface import Model
    from weft.search.loop import StepObserver

SMALL_VOCABULARY = 1_000
"""Models with fewer target tokens than this have `search.stop` = "outranked" unless it is set."""
WINDOW_LINES = 4096
"""Lines of a file that are sorted by length together: a window."""
WINDOW_CHARACTERS = 2**19
"""A window ends earlier if it has this many characters; an eighth of that if attention is returned."""
GPU_WINDOWS = 4
"""On a GPU, where batches are larger, a window is this many times as large."""


def windows_of(lines: Iterable[Any], *, return_attention: bool, large: bool = False) -> Iterator[list[Any]]:
    """Consecutive lines that are sorted by length together; ``large``: on a GPU, where several windows are one."""
    from weft.data.reading.lines import chunk_lines

    characters = WINDOW_CHARACTERS // 8 if return_attention else WINDOW_CHARACTERS
    windows = chunk_lines(lines, max_lines=WINDOW_LINES, max_characters=characters)
    if not large:
        return windows
    groups = iter(lambda: list(islice(windows, GPU_WINDOWS)), [])
    return (list(chain.from_iterable(group)) for group in groups)


class Translator:
    """A model with its tokenizers. `weft.load` makes one from a run folder."""

    def __init__(
        self,
        model: Model,
        tokenizers: Tokenizers,
        recipe: Recipe | None = None,
        *,
        device: torch.device | str = "cpu",
        engine: Engine | None = None,
        folder: Path | None = None,
    ) -> None:
        """``recipe``: its search settings are the defaults of every search; without one, those of an empty recipe.

        ``engine``: what searches, by default PyTorch, which moves the model to ``device``; an engine that is given has
        done so. ``folder``: where the model was loaded from.
        """
        self.recipe = make_recipe({}) if recipe is None else recipe
        self.engine = engine or TorchEngine(model, tokenizers.target, device=device, seed=self.recipe.seed)
        self.device = torch.device(device)
        self.model = model
        self.tokenizers = tokenizers
        self.folder = folder
        self.length_limits = LengthLimits()
        """How long outputs may become, and whether they may loop, where `search` does not say; `weft.load` sets what a
        run has learned."""
        self._last_settings: tuple[SearchSettings, str, SearchSettings] | None = None
        self._sentence_ids = sentence_ids(self.recipe.model, tokenizers)
        self.postprocessor = Postprocessor(
            tokenizers, has_source=self.recipe.model.has_source, sentence_ids=self._sentence_ids
        )

    def __repr__(self) -> str:
        name = repr(self.recipe.name) if self.folder is None else repr(str(self.folder))
        parameters = sum(parameter.numel() for parameter in getattr(self.model, "parameters", list)())
        return f"<weft.Translator {name}: {parameters:,} parameters, {self.device}, {self.engine.name}>"

    def _repr_html_(self) -> str:
        from weft.translation.notebook import run_html

        return run_html(self)

    def with_edits(self, edits: AttentionEdits) -> Translator:
        """A translator of the same model whose attention is edited; for one source at a time. It shares all weights."""
        from weft.translation.editing import edited_translator

        return edited_translator(self, edits) if edits else self

    def with_languages(self, source: str | None = None, target: str | None = None) -> Translator:
        """A translator between other languages, of a model that has several. It shares all weights."""
        from weft.translation.languages import translator_between

        return translator_between(self, source, target)

    @property
    def source_role(self) -> SourceRole:
        """The role of a source: a text to read, a prompt to continue, or none."""
        return self.recipe.source_role

    @property
    def source_columns(self) -> int:
        """How many columns a source has. A source of several is a text with tabs between them, or a tuple of texts."""
        return self.recipe.model.sources.count

    def search_settings(self, changes: dict[str, Any]) -> SearchSettings:
        """The recipe's search settings with some of them changed, and what this model needs where they are not set:
        `search.stop` and `search.no_loops`."""
        settings = self._changed_settings(changes) if changes else self.recipe.search
        chosen: dict[str, Any] = {}
        if settings.stop is None and not settings.required:
            chosen["stop"] = self._default_stop()
        if settings.no_loops is None:
            chosen["no_loops"] = not self.length_limits.loops
        return settings.model_copy(update=chosen) if chosen else settings

    def _changed_settings(self, changes: dict[str, Any]) -> SearchSettings:
        """The recipe's search settings with some of them changed. The last ones are kept: checking them again takes as
        long as several steps of a search on a GPU."""
        own, key = self.recipe.search, repr(changes)
        if self._last_settings is None or self._last_settings[0] is not own or self._last_settings[1] != key:
            settings = make_recipe({"search": {**own.model_dump(), **changes}}).search
            self._last_settings = (own, key, settings)
        return self._last_settings[2]

    def _default_stop(self) -> str:
        # With few tokens, or with a gate, the end token is among the best extensions of most beams, and beams that
        # count finished hypotheses stop at unlikely short ones.
        few_tokens = self.tokenizers.target.size < SMALL_VOCABULARY
        return "outranked" if few_tokens or self.recipe.model.copy else "finished"

    @overload
    def translate(
        self,
        source: str,
        *,
        n_best: int = 1,
        return_attention: bool = True,
        return_trace: bool = False,
        prefix: str | Sequence[str] = "",
        **search: Any,
    ) -> Translation: ...

    @overload
    def translate(
        self,
        source: Iterable[str | tuple[str, ...]],
        *,
        n_best: int = 1,
        return_attention: bool = True,
        return_trace: bool = False,
        prefix: str | Sequence[str] = "",
        **search: Any,
    ) -> list[Translation]: ...

    def translate(
        self,
        source: str | Iterable[str | tuple[str, ...]],
        *,
        n_best: int = 1,
        return_attention: bool = True,
        return_trace: bool = False,
        prefix: str | Sequence[str] = "",
        **search: Any,
    ) -> Translation | list[Translation]:
        """The best output for one source or several; in a list, a source of several columns may be a tuple of texts.

            run.translate("he hit me with a pie").text
            run.translate(["he left", "she slept"], n_best=5, size=8)

        ``search`` changes settings of [search], such as the beam ``size``; ``prefix``: how outputs must begin, one
        for all sources or one for each; ``return_trace``: whether to record every step of the search.
        """
        sources = [source] if isinstance(source, str) else as_sources(source, "source", columns=self.source_columns)
        request = self.request(sources, prefix=prefix, **search)
        request = replace(
            request,
            n_best=as_count(n_best, "n_best"),
            return_attention=return_attention,
            return_trace=return_trace,
        )
        results = self.search(request)
        return results[0] if isinstance(source, str) else results

    def request(self, sources: Sequence[str], *, prefix: str | Sequence[str] = "", **search: Any) -> TranslationRequest:
        """What to translate, with all settings of the search: what `translate` makes of its arguments."""
        if self.source_role == "none":
            raise SearchError("this run is a language model: it has no source to translate; use `sample`")
        settings = self.search_settings(search)
        prefix = prefix or settings.prefix
        if not prefix:
            return TranslationRequest(sources, settings)
        prefixes = [prefix] * len(sources) if isinstance(prefix, str) else as_texts(prefix, "prefix")
        if len(prefixes) != len(sources):
            raise SearchError(f"prefix: {len(prefixes)} were given for {len(sources)} sources; give one for each")
        ids = [self.encode_target(text, line) if text else [] for text, line in zip(prefixes, sources, strict=True)]
        return TranslationRequest(sources, settings, ids)

    def search(self, request: TranslationRequest) -> list[Translation]:
        """Carry out a request whose arguments have been checked: the best output of each source."""
        return search_all(self, request)

    def translate_lines(
        self, lines: Iterable[str], *, n_best: int = 1, return_attention: bool = False, **search: Any
    ) -> Iterator[Translation]:
        """One translation for every line, in order, with a bounded number of lines and characters in memory."""
        if isinstance(lines, str | bytes) or not isinstance(lines, Iterable):
            as_texts(lines, "lines")  # raises
        lines = (as_text(line, "lines") for line in lines)
        n_best = as_count(n_best, "n_best")
        windows = windows_of(lines, return_attention=return_attention, large=overlaps(self))
        if not overlaps(self):
            for window in windows:
                yield from self.translate(window, n_best=n_best, return_attention=return_attention, **search)
            return
        requests = (
            replace(self.request(window, **search), n_best=n_best, return_attention=return_attention)
            for window in windows
        )
        for outcome in search_each(self, requests):
            if not isinstance(outcome, list):
                raise outcome
            yield from outcome

    def complete(
        self,
        prompt: str = "",
        *,
        count: int = 1,
        length: int | None = None,
        return_trace: bool = False,
        observer: StepObserver | None = None,
        **search: Any,
    ) -> list[Translation]:
        """Continuations of a prompt by a language model, best first; by sampling, unless ``search`` says otherwise.

        ``length``: the most tokens after the prompt; by default as `search.max_length` says or, where that is not set,
        as many as are learned from the training texts, at least a hundred. ``observer``: of the search.
        """
        if self.recipe.model.has_source:
            raise RecipeError(
                f"{self.recipe.name}: `sample` needs a language model (model.kind = 'language_model'); "
                f"this one has a source: use `translate` with {option('kind', 'sample', flag='search')}"
            )
        count, length = as_count(count, "count"), None if length is None else as_count(length, "length")
        settings = self.search_settings({"kind": "sample", **search})
        prompt = as_text(prompt, "prompt")
        prefix = self.tokenizers.target.encode(prompt or settings.prefix)
        longest = completion_limit(settings, self.length_limits, prefix=len(prefix), length=length)
        copies = count if settings.kind == "greedy" else 1  # greedy search finds only one
        request = EngineRequest(
            [[]],
            [prefix],
            settings.model_copy(update={"max_length": longest}),
            n_best=count // copies,
            return_attention=self.recipe.model.attends,
            return_trace=return_trace,
            observer=observer,
            traced_candidates=traced_candidates(observer),
        )
        [hypotheses] = self.engine.search(request)
        return [self.postprocessor.translation(Sentence("", []), one) for one in hypotheses] * copies

    def sample(
        self, count: int = 1, *, prompt: str = "", length: int | None = None, seed: int | None = None, **search: Any
    ) -> list[str]:
        """Texts sampled from a language model, each of which continues the prompt."""
        return [one.text for one in self.complete(prompt, count=count, length=length, seed=seed, **search)]

    def score(self, pairs: Iterable[Pair | tuple[str, str]]) -> list[PairScore]:
        """log p(target | source) of every pair, end token included."""
        from weft.translation.forced_decoding import token_log_probabilities

        pairs = as_pairs(pairs)
        start, encoded = self.tokenizers.frame.start, self._encode(pairs)
        scores = token_log_probabilities(self.model, encoded, start=start, device=self.device)
        return [PairScore(float(row.sum(dtype=torch.float64)), row.tolist()) for row in scores]

    def force_decode(self, pairs: Iterable[Pair | tuple[str, str]]) -> list[Translation]:
        """The targets of the pairs as if the model had produced them: with their scores, attention and links."""
        from weft.translation.forced_decoding import force_decode

        pairs = as_pairs(pairs)
        if not pairs:
            return []
        encoded, frame = self._encode(pairs), self.tokenizers.frame
        batch_tokens = fixed_batch_tokens(self.recipe.search)
        hypotheses = force_decode(self.model, encoded, start=frame.start, batch_tokens=batch_tokens, device=self.device)
        rows = np.split(encoded.source.values, encoded.source.offsets[1:-1])
        sources = [framed_sentence(pair.source, ids.tolist(), frame) for pair, ids in zip(pairs, rows, strict=True)]
        return [
            self.postprocessor.translation(source, hypothesis, text=pair.target)
            for pair, source, hypothesis in zip(pairs, sources, hypotheses, strict=True)
        ]

    def attend(
        self, source: str | tuple[str, ...], target: str | None = None, **search: Any
    ) -> tuple[Translation, WordAttention]:
        """The attention over words of the model's own translation, or of a given target."""
        from weft.translation.inspection import attention_over_words

        return attention_over_words(self, as_source(source, "source", columns=self.source_columns), target, search)

    def heads(self, source: str | tuple[str, ...], target: str | None = None, **search: Any) -> list[HeadAttention]:
        """The attention over tokens of every head of every layer, for the model's own translation or a given target.

        Of a language model without a target: for the text given as the source.
        """
        from weft.translation.inspection import heads_of_pair

        source = as_source(source, "source", columns=self.source_columns)
        target = None if target is None else as_text(target, "target")
        heads = heads_of_pair(self, source, target, search)
        if not heads:
            raise SearchError(f"{self.recipe.name}: this model has no attention: nothing to show")
        return heads

    def copied_tokens(self, translation: Translation) -> CopiedTokens | None:
        """Which tokens of a translation were copied; None for a model that does not copy, and for an ensemble."""
        from weft.translation.inspection import copied_tokens_of

        return copied_tokens_of(self, translation)

    def tokenizers_for(self, source: str) -> Tokenizers:
        """The tokenizers that read the ids of translations of a source: if the model copies, its tokens have some."""
        return self.postprocessor.readable(Sentence(source, []))[0]

    def encoded_source(self, source: str) -> tuple[Tokenizers, Sentence]:
        """A source with its ids as the model reads them, and the tokenizers that can read them."""
        return self.postprocessor.readable(framed_sentence(source, self.source_ids(source), self.tokenizers.frame))

    def source_ids(self, source: str) -> list[int]:
        """The ids of a source as the model reads them."""
        return self.tokenizers.frame.source(self.encode_sources([source])[0])

    def _encode(self, pairs: Sequence[Pair]) -> PairStore:
        from weft.data.store.encode import encode_pairs

        return encode_pairs(pairs, self.tokenizers, sources=self.source_role, sentence_ids=self._sentence_ids)

    def encode_sources(self, sources: Sequence[str]) -> IdRows:
        """The ids of sources, without end tokens."""
        encoded, own = IdRows(*self.tokenizers.source.encode_arrays(sources)), self._sentence_ids
        if own is None:
            return encoded
        return IdRows.of([own.source(text, ids) for text, ids in zip(sources, encoded, strict=True)])

    def decoders(self, sentences: Iterable[Sentence]) -> list[Callable[[Sequence[int]], str]]:
        """What decodes the outputs of each sentence; empty if the tokenizer decodes them all."""
        if self._sentence_ids is None:
            return []
        return [partial(self.postprocessor.decode, Sentence(one.text, one.ids)) for one in sentences]

    def encode_target(self, text: str, source: str) -> list[int]:
        """The ids of a target or its beginning, without an end token; of a copying model they depend on the source."""
        ids = self.tokenizers.target.encode(text)
        return ids if self._sentence_ids is None else self._sentence_ids.target(text, ids, source)
