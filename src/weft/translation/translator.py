"""`Translator`: a model with its tokenizers, ready to translate, score and be inspected.

run = weft.load("runs/grammar")
t = run.translate("he hit me with a pie")
t.text, t.score, t.tokens, t.attention, t.links

weft.Translator(my_model, tokenizers)       any model that has the methods of `weft.models.interface.Model`
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import torch

from weft.errors import RecipeError, SearchError, option
from weft.models.architecture import count_parameters
from weft.recipe import Recipe, make_recipe
from weft.recipe.search import SearchSettings
from weft.runs.length_limits import LengthLimits
from weft.text.id_rows import IdRows, Sentence, framed_sentence
from weft.text.tokenizer import Tokenizers
from weft.translation.engines.batch_sizes import fixed_batch_tokens
from weft.translation.engines.interface import Engine, TranslationRequest, as_count, completion_limit
from weft.translation.engines.torch import TorchEngine
from weft.translation.inputs import (
    as_pairs,
    as_source,
    as_sources,
    as_text,
    as_texts,
    checked_pairs,
    encode_prefixes,
)
from weft.translation.pipeline import Pipeline, TextProcessor, windows_of
from weft.translation.results import (
    CopiedTokens,
    HeadAttention,
    PairScore,
    Translation,
    WordAttention,
)

if TYPE_CHECKING:
    from weft.attention.edits import AttentionEdits
    from weft.data.pairs import Pair
    from weft.data.reading.glossary import Glossary
    from weft.data.reading.translation_memory import MemoryLike
    from weft.data.store.token_store import PairStore, SourceRole
    from weft.models.interface import Model
    from weft.search.loop import StepObserver
    from weft.translation.confidence import ConfidenceModel

    GlossaryLike = Glossary | Mapping[str, str] | Path | str

SMALL_VOCABULARY = 1_000
"""Models with fewer target tokens than this have `search.stop` = "outranked" in PyTorch, unless it is set."""
LANGUAGES = ("source_language", "target_language")


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
        """``recipe``: a recipe whose search settings are the defaults of every search; None: those of an empty recipe.

        ``engine``: the search engine, by default PyTorch, which moves the model to ``device``; a given engine has
        already done so. ``folder``: the folder that the model was loaded from.
        """
        self.recipe = make_recipe({}) if recipe is None else recipe
        self.engine = engine or TorchEngine(model, tokenizers.target, device=device, seed=self.recipe.seed)
        self.device = torch.device(device)
        self.model = model
        self.tokenizers = tokenizers
        self.folder = folder
        self.length_limits = LengthLimits()
        """Limits on the length and the loops of outputs where `search` sets none; `weft.load` sets those that a
        run has learned."""
        self.calibrated_folder: Path | None = None
        """The run folder that `confidence` is read from and written to; None for an ensemble and other adapters."""
        self._last_settings: tuple[SearchSettings, str, SearchSettings] | None = None
        self.text = TextProcessor(tokenizers, self.recipe)

    def __repr__(self) -> str:
        name = repr(self.recipe.name) if self.folder is None else repr(str(self.folder))
        parameters = count_parameters(self.model)
        return f"<weft.Translator {name}: {parameters:,} parameters, {self.device}, {self.engine.name}>"

    def _repr_html_(self) -> str:
        from weft.pictures.notebook import run_html

        return run_html(self)

    def with_edits(self, edits: AttentionEdits) -> Translator:
        """A translator of the same model whose attention is edited; for one source at a time. It shares all weights."""
        from weft.translation.inspection import edited_translator

        return edited_translator(self, edits) if edits else self

    def with_languages(self, source: str | None = None, target: str | None = None) -> Translator:
        """A translator between other languages, of a model that has several. It shares all weights."""
        tokenizers = self.tokenizers.with_languages(source, target)
        if tokenizers is self.tokenizers:
            return self
        other = copy(self)
        other.tokenizers, other.text = tokenizers, TextProcessor(tokenizers, self.recipe)
        other.text.confidence = self.text.confidence
        return other

    def in_languages(self, search: Mapping[str, Any]) -> tuple[Translator, dict[str, Any]]:
        """The translator between the languages among changes of search settings, and the other changes."""
        languages = {name: search[name] for name in LANGUAGES if name in search}
        others = {name: value for name, value in search.items() if name not in languages}
        if not any(languages.values()):
            return self, dict(search)
        settings = self.search_settings(languages)
        return self.with_languages(settings.source_language, settings.target_language), others

    @property
    def confidence(self) -> ConfidenceModel | None:
        """How likely its outputs are right; None if it is not calibrated: `weft.calibrate`."""
        return self.text.confidence

    @property
    def pipeline(self) -> Pipeline:
        """Tokenization, search and postprocessing."""
        return Pipeline(self.text, self.engine, self.device)

    @property
    def source_role(self) -> SourceRole:
        """The role of a source: a text to read, a prompt to continue, or none."""
        return self.text.source_role

    @property
    def source_columns(self) -> int:
        """Number of source columns. A source of several is a text with tabs between them, or a tuple of texts."""
        return self.recipe.given_columns

    def search_settings(self, changes: dict[str, Any]) -> SearchSettings:
        """The recipe's search settings with some of them changed, and what this model needs where they are not set:
        `search.stop` and `search.no_loops`."""
        settings = self._changed_settings(changes) if changes else self.recipe.search
        chosen: dict[str, Any] = {}
        if settings.stop is None:
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
        # count finished hypotheses stop at unlikely short ones. CTranslate2, where it is required, has no other stop.
        has_likely_ends = self.tokenizers.target.size < SMALL_VOCABULARY or self.recipe.model.copies
        return "outranked" if has_likely_ends and self.engine.name != "ctranslate2" else "finished"

    @overload
    def translate(
        self, source: str, *, n_best: int = 1, return_attention: bool = True, return_trace: bool = False, **search: Any
    ) -> Translation: ...

    @overload
    def translate(
        self,
        source: Iterable[str | tuple[str, ...]],
        *,
        n_best: int = 1,
        return_attention: bool = True,
        return_trace: bool = False,
        **search: Any,
    ) -> list[Translation]: ...

    def translate(
        self,
        source: str | Iterable[str | tuple[str, ...]],
        *,
        n_best: int = 1,
        return_attention: bool = True,
        return_trace: bool = False,
        glossary: GlossaryLike | None = None,
        translation_memory: MemoryLike | None = None,
        **search: Any,
    ) -> Translation | list[Translation]:
        """The best output for one source or several; in a list, a source of several columns may be a tuple of texts.

            run.translate("he hit me with a pie").text
            run.translate(["he left", "she slept"], n_best=5, size=8)

        ``search`` changes settings of [search], such as the beam ``size``; ``prefix``: the forced beginning of outputs,
        one for all sources or one for each; ``glossary``: target terms for source terms, a file or {"dog": "Hund"};
        ``translation_memory``: pairs whose targets are returned for sources that are among them, a file or pairs;
        ``return_trace``: whether to record every step of the search.
        """
        sources = [source] if isinstance(source, str) else as_sources(source, "source", columns=self.source_columns)
        request = self.request(sources, glossary=glossary, **search)
        request = replace(
            request,
            n_best=as_count(n_best, "n_best"),
            return_attention=return_attention,
            return_trace=return_trace,
        )
        if translation_memory is None:
            results = self.search(request)
        else:
            from weft.translation.translation_memory import search_with_memory

            results = search_with_memory(self, request, translation_memory)
        return results[0] if isinstance(source, str) else results

    def request(
        self,
        sources: Sequence[str],
        *,
        prefix: str | Sequence[str] = "",
        glossary: GlossaryLike | None = None,
        **search: Any,
    ) -> TranslationRequest:
        """The request that `translate` makes of its arguments: texts and all settings of the search."""
        if self.source_role == "none":
            raise SearchError("this run is a language model: it has no source to translate; use `sample`")
        settings, limits = self.search_settings(search), self.length_limits
        prefix = prefix or settings.prefix
        prefixes = encode_prefixes(prefix, sources, self.encode_target) if prefix else ()
        request = TranslationRequest(texts=sources, settings=settings, prefixes=prefixes, length_limits=limits)
        if glossary is None:
            return request
        from weft.translation.glossary import require_terms

        return require_terms(self, request, glossary)

    def search(self, request: TranslationRequest) -> list[Translation]:
        """Carry out a request whose arguments have been checked: the best output of each source."""
        return self.pipeline.search_all(request)

    def translate_lines(
        self, lines: Iterable[str], *, n_best: int = 1, return_attention: bool = False, **search: Any
    ) -> Iterator[Translation]:
        """One translation for every line, in order, with a bounded number of lines and characters in memory."""
        if isinstance(lines, str | bytes) or not isinstance(lines, Iterable):
            as_texts(lines, "lines")  # raises
        lines = (as_text(line, "lines") for line in lines)
        n_best = as_count(n_best, "n_best")
        is_large = self.pipeline.overlaps()
        windows = windows_of(lines, return_attention=return_attention, large=is_large, starts_small=is_large)
        if not is_large:
            for window in windows:
                yield from self.translate(window, n_best=n_best, return_attention=return_attention, **search)
            return
        requests = (
            replace(self.request(window, **search), n_best=n_best, return_attention=return_attention)
            for window in windows
        )
        for outcome in self.pipeline.search_each(requests):
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
        as many as are learned from the training texts, at least a hundred. ``observer``: observes the search.
        """
        if self.recipe.model.has_source:
            raise RecipeError(
                f"{self.recipe.name}: `sample` needs a language model (model.kind = 'language_model'); "
                f"this one has a source: use `translate` with {option('kind', 'sample', flag='search')}"
            )
        count, length = as_count(count, "count"), None if length is None else as_count(length, "length")
        settings = self.search_settings({"kind": "sample", **search})
        prompt = as_text(prompt, "prompt")
        prefix = self.tokenizers.target.encode(prompt)
        if not prompt:
            [prefix] = encode_prefixes(settings.prefix, [""], self.encode_target)
        longest = completion_limit(settings, self.length_limits, prefix=len(prefix), length=length)
        copies = count if settings.kind == "greedy" else 1  # greedy search finds only one
        request = TranslationRequest(
            settings=settings.model_copy(update={"max_length": longest}),
            sources=[[]],
            prefixes=[prefix],
            n_best=count // copies,
            return_attention=self.recipe.model.attends,
            return_trace=return_trace,
            observer=observer,
        )
        [hypotheses] = self.engine.search(request)
        return [self.text.translation(Sentence("", []), one) for one in hypotheses] * copies

    def sample(
        self, count: int = 1, *, prompt: str = "", length: int | None = None, seed: int | None = None, **search: Any
    ) -> list[str]:
        """Texts sampled from a language model, each of which continues the prompt."""
        return [one.text for one in self.complete(prompt, count=count, length=length, seed=seed, **search)]

    def score(self, pairs: Iterable[Pair | tuple[str, str]]) -> list[PairScore]:
        """log p(target | source) of every pair, end token included."""
        from weft.translation.forced_decoding import token_log_probabilities

        start, encoded = self.tokenizers.frame.start, self._encode(as_pairs(pairs))
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
            self.text.translation(source, hypothesis, text=pair.target)
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
        return heads_of_pair(self, source, target, search)

    def copied_tokens(self, translation: Translation) -> CopiedTokens | None:
        """The copied share of each token of a translation; None for a model that does not copy, and for an ensemble."""
        from weft.translation.inspection import copied_tokens_of

        return copied_tokens_of(self, translation)

    def tokenizers_for(self, source: str) -> Tokenizers:
        """The tokenizers that read the ids of translations of a source: if the model copies, its tokens have some."""
        return self.text.readable(Sentence(source, []))[0]

    def encoded_source(self, source: str) -> tuple[Tokenizers, Sentence]:
        """A source with its ids as the model reads them, and the tokenizers that can read them."""
        return self.text.readable(framed_sentence(source, self.source_ids(source), self.tokenizers.frame))

    def source_ids(self, source: str) -> list[int]:
        """The ids of a source as the model reads them."""
        return self.tokenizers.frame.source(self.encode_sources([source])[0])

    def _encode(self, pairs: Sequence[Pair]) -> PairStore:
        from weft.data.store.token_store import encode_pairs

        encoded = encode_pairs(pairs, self.tokenizers, sources=self.source_role, sentence_ids=self.text.sentence_ids)
        return checked_pairs(encoded, training_limit=self.recipe.longest_side)

    def encode_sources(self, sources: Sequence[str]) -> IdRows:
        """The ids of sources, without end tokens."""
        return self.text.encode_sources(sources)

    def encode_target(self, text: str, source: str) -> list[int]:
        """The ids of a target or its beginning, without an end token; of a copying model they depend on the source."""
        return self.text.encode_target(text, source)
