"""From texts to translations in three stages: tokenization, search, postprocessing.

A `TextProcessor` makes ids of texts, and of hypotheses translations: text, attention over tokens and words, word
alignment. A `Pipeline` puts a search between the two. One stage follows the other, since on a CPU the search alone
keeps all cores busy. On a GPU they overlap (`weft.fast.overlap.pipeline`): the results are the same, and come in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain, islice, repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.errors import ColumnCountError, InputTooLongError, SearchError
from weft.runs.load import sentence_ids
from weft.runtime.replaceable import replaceable
from weft.search.interface import Hypothesis
from weft.search.ranking import HypothesisArrays, PendingHypotheses
from weft.text import specials
from weft.text.frames import Frame
from weft.text.id_rows import IdRows, Sentence, Sentences, decode_arrays
from weft.text.tokenizer import Tokenizers
from weft.translation import inputs
from weft.translation.engines.interface import Engine, SearchedBatch, TranslationRequest, searched_batches
from weft.translation.results import Translation, empty_translation
from weft.translation.word_alignment import align_words, merge_to_words, show_sources, split_words

if TYPE_CHECKING:
    import torch

    from weft.data.store.token_store import SourceRole
    from weft.recipe import Recipe
    from weft.translation.confidence import ConfidenceModel
    from weft.translation.lazy_fields import BatchDetails

NO_TOKEN = "∅"
"""The name of the first column of a recurrent language model's attention: before the first token there is no state."""
REQUEST_SOURCES = 16_384
"""Sources that are tokenized at a time when the stages overlap."""
FEW_SOURCES = 256
"""The number of sources up to which the stages do not overlap."""
BLOCK_SOURCES = 256
"""Sources between two pauses of the caller's thread."""
WINDOW_LINES = 4096
"""Lines of a file that are sorted by length together: a window."""
WINDOW_CHARACTERS = 2**19
"""A window ends earlier if it has this many characters; an eighth of that if attention is returned."""
GPU_WINDOWS = 4
"""The factor by which a window is larger on a GPU, where batches are larger."""

Pause = Callable[[], None]
Searched = Iterator[SearchedBatch]
Outcome = list[Translation] | InputTooLongError | ColumnCountError
"""The translations of a request, or why it has none."""


class LazyConfidences:
    """The confidences of new translations, which few callers read: removed, and computed when one is first read."""

    def __init__(self, model: ConfidenceModel, compute: Callable[[], list[float]]) -> None:
        self.model, self._compute = model, compute

    def attach(self, translations: Sequence[Translation]) -> None:
        """``translations``: those whose confidences are computed, in order."""
        for row, translation in enumerate(translations):
            values = vars(translation)
            del values["confidence"]
            values |= {"flag_rules": self.model.flag_rules, "_others": self, "_row": row}

    @cached_property
    def _confidences(self) -> list[float]:
        return self._compute()

    def compute(self, name: str, row: int) -> Any:
        if name in ("confidence", "flags_of_tokens"):
            return self._confidences[row] if name == "confidence" else None
        raise AttributeError(f"'Translation' object has no attribute {name!r}")


class TextProcessor:
    """Conversion between texts and token ids: sources become ids, hypotheses become translations."""

    def __init__(self, tokenizers: Tokenizers, recipe: Recipe) -> None:
        self.tokenizers = tokenizers
        self.source_role: SourceRole = recipe.source_role
        self.has_source = recipe.model.has_source
        """Whether attention is over a source; a language model's is over its own history."""
        self.stem = recipe.model.stem
        self.max_training_length = recipe.longest_side
        self.sentence_ids = sentence_ids(recipe.model, tokenizers)
        """Ids for tokens outside the vocabularies, for a model that copies."""
        self.confidence: ConfidenceModel | None = None
        """How likely outputs are right; None if the run is not calibrated."""

    @cached_property
    def _frame(self) -> Frame:
        return self.tokenizers.frame

    def frame(self, source_language: str | None = None, target_language: str | None = None) -> Frame:
        """Special tokens around sources and targets in these languages; None: those of the run."""
        if source_language is None and target_language is None:
            return self._frame
        return self.tokenizers.with_languages(source_language, target_language).frame

    def encode_sources(self, sources: Sequence[str]) -> IdRows:
        """The ids of sources, without end tokens."""
        encoded, own = IdRows(*self.tokenizers.source.encode_arrays(sources)), self.sentence_ids
        if own is None:
            return encoded
        return IdRows.of([own.source(text, ids) for text, ids in zip(sources, encoded, strict=True)])

    def encode_target(self, text: str, source: str) -> list[int]:
        """The ids of a target or its beginning, without an end token; of a copying model they depend on the source."""
        ids = self.tokenizers.target.encode(text)
        return ids if self.sentence_ids is None else self.sentence_ids.target(text, ids, source)

    def decoders(self, sentences: Iterable[Sentence]) -> list[Callable[[Sequence[int]], str]]:
        """A decoder for the outputs of each sentence; empty if the tokenizer decodes them all."""
        if self.sentence_ids is None:
            return []
        return [partial(self.decode, Sentence(one.text, one.ids)) for one in sentences]

    def readable(self, source: Sentence) -> tuple[Tokenizers, Sentence]:
        """Tokenizers that know all ids of a sentence and its outputs, and the sentence in the ids of the first."""
        if self.sentence_ids is None:
            return self.tokenizers, source
        tokenizers, ids = self.sentence_ids.reading(source.text, source.ids)
        return tokenizers, Sentence(source.text, ids)

    def decode(self, source: Sentence, ids: Sequence[int]) -> str:
        """The text of an output for a source."""
        return self.readable(source)[0].target.decode(ids)

    def best_of(
        self, source: Sentence, hypotheses: Sequence[Hypothesis], *, replace_unknown: bool = False
    ) -> Translation:
        """The best hypothesis, with the others as its alternatives."""
        best = self._best_of(source, hypotheses, replace_unknown)
        model = self.confidence
        if model is not None:
            LazyConfidences(model, lambda: [model.of_output(best)]).attach([best])
        return best

    def _best_of(self, source: Sentence, hypotheses: Sequence[Hypothesis], replace_unknown: bool) -> Translation:
        best, *others = (
            self.translation(source, hypothesis, text=self._replaced(source, hypothesis) if replace_unknown else None)
            for hypothesis in hypotheses
        )
        return replace(best, alternatives=tuple(others)) if others else best

    def batch(
        self, sources: Sequence[Sentence], hypotheses: Sequence[Sequence[Hypothesis]], *, replace_unknown: bool = False
    ) -> list[Translation]:
        """`best_of` for every sentence."""
        plain = self.sentence_ids is None and not replace_unknown
        if plain and isinstance(hypotheses, HypothesisArrays) and hypotheses.tokens_BNT.shape[1] == 1:
            return self._without_details(sources, hypotheses)
        pairs = zip(sources, hypotheses, strict=True)
        if not isinstance(hypotheses, HypothesisArrays):
            return [self.best_of(source, outputs, replace_unknown=replace_unknown) for source, outputs in pairs]
        translations = [self._best_of(source, outputs, replace_unknown) for source, outputs in pairs]
        if self.confidence is not None:
            details = self._details(hypotheses, sources)
            LazyConfidences(self.confidence, lambda: details.confidences).attach(translations)
        return translations

    def _without_details(self, sources: Sequence[Sentence], hypotheses: HypothesisArrays) -> list[Translation]:
        """Translations without attention: their texts are decoded together, all else when it is first read."""
        counts_B, tokens_BT = hypotheses.token_counts_BN[:, 0], hypotheses.tokens_BNT[:, 0]
        inside_BT = np.arange(tokens_BT.shape[1]) < counts_B[:, None]
        texts = decode_arrays(self.tokenizers.target, (tokens_BT[inside_BT], counts_B))
        return Translation.lazy(texts, self._details(hypotheses, sources, texts))

    def _details(
        self, hypotheses: HypothesisArrays, sources: Sequence[Sentence], texts: Sequence[str] = ()
    ) -> BatchDetails:
        """The fields of the translations of a batch that few callers read."""
        from weft.translation.lazy_fields import BatchDetails

        return BatchDetails(hypotheses, sources, self, texts)

    def source_tokens(self, tokenizers: Tokenizers, source: Sentence) -> list[str]:
        """The names of what attention to a source has weights for: its tokens or, of an array, its states."""
        if self.stem.kind == "none":
            return tokenizers.source.tokens(source.ids)
        from weft.translation.array_sources import ArrayStates

        return ArrayStates.of(self.stem, source.ids).names

    def translation(self, source: Sentence, hypothesis: Hypothesis, *, text: str | None = None) -> Translation:
        """A hypothesis as a translation; ``text``: its text, if it differs from the decoded tokens."""
        tokenizers, source = self.readable(source)
        target = tokenizers.target
        text = target.decode(hypothesis.tokens) if text is None else text
        tokens = target.tokens(hypothesis.tokens)
        source_tokens = self.source_tokens(tokenizers, source)
        attention = words = None
        if hypothesis.attention_TS is not None:
            attention = hypothesis.attention_TS[: len(hypothesis.tokens)].double().numpy()
            if self.has_source:
                attention = attention[:, : len(source_tokens)]
                if self.stem.kind == "none":
                    words = merge_to_words(tokenizers, source, Sentence(text, hypothesis.tokens), attention)
            else:
                attention = attention[:, : len(hypothesis.token_scores)]  # storage for later states has no weight
                source_tokens = [NO_TOKEN, specials.SPECIALS[specials.BEGIN], *tokens][: attention.shape[1]]
        return Translation(
            source=source.text,
            text=text,
            score=hypothesis.score,
            log_probability=hypothesis.log_probability,
            tokens=tokens,
            ids=hypothesis.tokens,
            token_scores=hypothesis.token_scores,
            source_tokens=source_tokens,
            attention=attention,
            word_attention=words,
            links=[] if words is None else align_words(words),
            ended=hypothesis.ended,
            gap=hypothesis.gap,
            confidence=None,
            flag_rules=None,
            trace=hypothesis.trace,
        )

    def _replaced(self, source: Sentence, hypothesis: Hypothesis) -> str | None:
        """The text with every unknown token replaced by the source word of largest weight   Luong et al. 2015b."""
        unknown = [position for position, token in enumerate(hypothesis.tokens) if token == specials.UNKNOWN]
        if not unknown:
            return None
        if hypothesis.attention_TS is None:
            raise SearchError("search.replace_unknown: this model has no attention, so no source word can be found")
        tokenizers, source = self.readable(source)
        text, spans = tokenizers.target.decode(hypothesis.tokens), tokenizers.target.spans(hypothesis.tokens)
        words, word_of_token = split_words(tokenizers.source, source)
        for position in reversed(unknown):
            column = int(hypothesis.attention_TS[position, : len(source.ids) - source.after].argmax())
            start, end = spans[position]
            if 0 <= word_of_token[column] < len(words):
                text = text[:start] + words[word_of_token[column]] + text[end:]
        return text


def windows_of(
    lines: Iterable[Any], *, return_attention: bool, large: bool = False, starts_small: bool = False
) -> Iterator[list[Any]]:
    """Consecutive lines, sorted by length together; ``large``: many of them, ``starts_small``: but few at first."""
    from weft.data.reading.lines import chunk_lines

    most = WINDOW_CHARACTERS // (8 if return_attention else 1)
    windows = chunk_lines(lines, max_lines=WINDOW_LINES, max_characters=most)
    counts = chain([1] * starts_small, repeat(GPU_WINDOWS if large else 1))
    return (list(chain.from_iterable(group)) for group in iter(lambda: list(islice(windows, next(counts))), []))


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
        if ids.lengths_B.max(initial=0) > inputs.MAX_SOURCE_TOKENS:
            inputs.check_lengths(ids, training_limit=text.max_training_length)
        return replace(
            request,
            sources=ids,
            return_attention=(request.return_attention or settings.replace_unknown) and not prompts,
            frame=frame,
            prompts=prompts,
            decoders=text.decoders(Sentences(request.texts, ids, frame)),
        )

    def postprocess(self, request: TranslationRequest, batches: Searched, pause: Pause = no_pause) -> list[Translation]:
        """The last stage: one translation for every source. ``pause``: see `tokenize`."""
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
        pairs = zip(request.texts, results, strict=True)
        translations = [result or empty_translation(text) for text, result in pairs]
        for translation, terms in zip(translations, request.terms, strict=False):
            vars(translation)["terms"] = tuple(terms)
        return show_sources(translations, request.shown) if request.shown else translations

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
