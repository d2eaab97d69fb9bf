"""The façade: a trained model with its tokenizers, ready to be asked.

run = weft.load("runs/grammar")
t = run.translate("he hit me with a pie")
t.text, t.score, t.tokens, t.attention, t.links
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np
import torch

from weft.data.batching.batches import length_sorted_batches
from weft.data.pairs import Pair
from weft.data.reading.lines import chunk_lines
from weft.data.store.encode import encode_pairs
from weft.data.store.token_store import PairStore, TokenStore
from weft.errors import RecipeError, SearchError
from weft.evaluation.likelihood import token_log_probabilities
from weft.models import Ensemble, PrefixLM, Searchable
from weft.models.encoders import TransformerEncoder
from weft.models.interface import HasMaxTargetLength, alignment_weights
from weft.models.prompted_lm import PromptedLM
from weft.preparation import sources_of
from weft.ragged import Layout, Ragged
from weft.recipe import Recipe, make_recipe
from weft.recipe.search import SearchSettings
from weft.search import Hypothesis, SearchRequest, StepModel
from weft.search.cuda_graphs import CudaGraphLoop
from weft.search.state import StepLoop
from weft.text import specials
from weft.text.tokenizer_pair import Tokenizers
from weft.translation.results import HeadMap, PairScore, Translation, WordMap, nothing
from weft.translation.strategies import rng_key
from weft.translation.strategies import search as run_search
from weft.translation.word_alignment import group_words, word_links, word_map

WINDOW = 4096
"""Lines that are sorted by length together when a file is translated …"""
CHARACTERS = 2**19
"""… or fewer, if they have so many characters; an eighth of it if attention is kept."""


if TYPE_CHECKING:
    from weft.interop.ctranslate2_export import Engine

WORTH_AN_ENGINE = 32
"""Sentences from which on it is worth starting another engine."""


class _Wants(NamedTuple):
    """What is asked for beside the best text."""

    n_best: int = 1
    weights: bool = False
    trace: bool = False
    named: bool = False
    """Unknowns become source words."""
    prompted: bool = False
    """Sources are prompts of a language model, all of one length."""


class Translator:
    """A model with its tokenizers. `weft.load` makes one from a run folder."""

    def __init__(
        self,
        model: Searchable,
        tokenizers: Tokenizers,
        recipe: Recipe,
        *,
        device: torch.device | str = "cpu",
        folder: Path | None = None,
        precision: str = "fp32",
        engine: str = "torch",
    ) -> None:
        """``precision``: what the model's products are made in, for the record; ``engine``: who searches."""
        self.device = torch.device(device)
        self.precision = precision
        self.engine_name = engine
        self._engine: Engine | None = None
        if next(model.parameters()).device.type != self.device.type:  # else recurrent weights would move for nothing
            model = model.to(device)
        self.model = model.eval()
        self.tokenizers = tokenizers
        self.recipe = recipe
        self.folder = folder
        self.loop: StepLoop | None = CudaGraphLoop(self.device) if self.device.type == "cuda" else None

    @overload
    def translate(
        self,
        source: str,
        *,
        n_best: int = 1,
        attention: bool = True,
        trace: bool = False,
        prefix: str | Sequence[str] = "",
        **search: Any,
    ) -> Translation: ...

    @overload
    def translate(
        self,
        source: Sequence[str],
        *,
        n_best: int = 1,
        attention: bool = True,
        trace: bool = False,
        prefix: str | Sequence[str] = "",
        **search: Any,
    ) -> list[Translation]: ...

    def translate(
        self,
        source: str | Sequence[str],
        *,
        n_best: int = 1,
        attention: bool = True,
        trace: bool = False,
        prefix: str | Sequence[str] = "",
        **search: Any,
    ) -> Translation | list[Translation]:
        """The best output for one source or several.

        ``search`` changes settings, e.g. ``size=8``; ``prefix``: what the outputs begin with, one for all or one for
        each; ``trace``: keep what the search did.
        """
        prompted = self.recipe.model.kind == "language_model"
        if prompted and not self.recipe.data.prompts:
            raise SearchError("this run is a language model: it has no source to translate; use `sample`")
        if n_best < 1:
            raise SearchError(f"n_best: {n_best}; at least 1 output is found")
        settings = self.search_settings(search)
        sources = [source] if isinstance(source, str) else source
        prefix = prefix or settings.prefix
        prefixes = [prefix] * len(sources) if isinstance(prefix, str) else list(prefix)
        if len(prefixes) != len(sources):
            raise SearchError(f"prefix: {len(prefixes)} were given for {len(sources)} sources; give one for each")
        if prompted:
            wants = _Wants(n_best, False, trace, prompted=True)
            found = self._answer(sources, prefixes, settings, wants)
        else:
            wants = _Wants(n_best, attention, trace, settings.replace_unknown)
            found = self._translate(sources, prefixes, settings, wants)
        return found[0] if isinstance(source, str) else found

    def translate_lines(
        self, lines: Iterable[str], *, n_best: int = 1, attention: bool = False, **search: Any
    ) -> Iterator[Translation]:
        """One translation for every line, in order, with a bounded number of lines and characters in memory."""
        for window in chunk_lines(lines, max_lines=WINDOW, max_characters=CHARACTERS // 8 if attention else CHARACTERS):
            yield from self.translate(window, n_best=n_best, attention=attention, **search)

    def search_settings(self, changes: dict[str, Any]) -> SearchSettings:
        """The run's search settings with some changed."""
        if not changes:
            return self.recipe.search
        tree = {"search": {**self.recipe.search.model_dump(), **changes}}
        return make_recipe(tree).search

    def _translate(
        self, sources: Sequence[str], prefixes: Sequence[str], settings: SearchSettings, wants: _Wants
    ) -> list[Translation]:
        encode = self.tokenizers.source.encode_batch
        ids = [[*tokens, specials.END] if tokens else [] for tokens in encode(list(sources))]
        asked = [row for row, tokens in enumerate(ids) if tokens]
        begun = [self.tokenizers.target.encode(prefixes[row]) if prefixes[row] else [] for row in asked]
        found = self._by_engine([ids[row] for row in asked], begun, settings, wants)
        left = [row for row, hypotheses in enumerate(found) if not hypotheses]
        store = TokenStore.of(ids[asked[row]] for row in left)
        for places in length_sorted_batches(PairStore(store, store), settings.batch_tokens):
            rows = [left[place] for place in places.tolist()]
            ours = self._search(store.gather(places), [begun[row] for row in rows], settings, wants)
            for row, hypotheses in zip(rows, ours, strict=True):
                found[row] = hypotheses
        answers = [nothing(source) for source in sources]
        for place, hypotheses in zip(asked, found, strict=True):
            answers[place] = _with_others(
                [self._translation(sources[place], ids[place], one, wants=wants) for one in hypotheses]
            )
        return answers

    def _answer(
        self, sources: Sequence[str], prefixes: Sequence[str], settings: SearchSettings, wants: _Wants
    ) -> list[Translation]:
        """What a language model says behind each source; prompts of one length are searched together."""
        encode = self.tokenizers.target.encode
        prompts = [encode(source) for source in sources]
        answers = [nothing(source) for source in sources]
        for length in sorted({len(prompt) for prompt in prompts} - {0}):
            rows = [row for row, prompt in enumerate(prompts) if len(prompt) == length]
            together = max(settings.batch_tokens // length, 1)
            for start in range(0, len(rows), together):
                some = rows[start : start + together]
                begun = [encode(prefixes[row]) if prefixes[row] else [] for row in some]
                asked = Ragged.of([prompts[row] for row in some])
                for row, found in zip(some, self._search(asked, begun, settings, wants), strict=True):
                    many = [self._translation(sources[row], prompts[row], one) for one in found]
                    answers[row] = _with_others(many)
        return answers

    def _by_engine(
        self, sources: Sequence[list[int]], prefixes: Sequence[list[int]], settings: SearchSettings, wants: _Wants
    ) -> list[list[Hypothesis]]:
        """What CTranslate2 finds, where it is to be asked; nothing for a row means that we search ourselves."""
        nothing_found: list[list[Hypothesis]] = [[] for _ in sources]
        few = len(sources) < WORTH_AN_ENGINE or wants.weights or wants.named
        if self.engine_name == "torch" or not sources or (self.engine_name == "auto" and few):
            return nothing_found
        reason = why_no_engine(self, settings, wants.n_best)
        if reason is None and (wants.trace or any(prefixes)):
            reason = "a trace or a forced prefix is not to be had of CTranslate2"
        if reason is not None:
            if self.engine_name == "ctranslate2":
                raise SearchError(f"--engine ctranslate2: {reason}; use --engine torch")
            return nothing_found
        from weft.interop.ctranslate2_export import engine_for, options_of

        if self._engine is None:
            self._engine = engine_for(self, "int8" if self.precision == "int8" else "default")
        limits = self.limits([len(source) for source in sources], prefixes, settings)
        looks = wants.weights or wants.named
        return self._engine.search(
            sources, limits, **options_of(settings), n_best=wants.n_best, weights=looks, token_scores=looks
        )

    def limits(self, lengths: Sequence[int], prefixes: Sequence[Sequence[int]], settings: SearchSettings) -> list[int]:
        """The most tokens of each output; ``lengths``: of the sources, their end marks counted."""
        limits = []
        for length, prefix in zip(lengths, prefixes, strict=True):
            limit = settings.max_length or int(settings.max_ratio * max(length - 1, 0)) + settings.max_extra
            longest = self.model.max_target_length(length) if isinstance(self.model, HasMaxTargetLength) else None
            limit = max(limit, len(prefix) + 1)
            limits.append(max(limit if longest is None else min(limit, longest), len(prefix), 1))
        return limits

    def _search(
        self, batch: Ragged, prefixes: Sequence[Sequence[int]], settings: SearchSettings, wants: _Wants
    ) -> list[list[Hypothesis]]:
        """One batch of sources (empty ones for a language model)."""
        lengths = [length + wants.prompted for length in batch.lengths.tolist()]  # a prompt has no end mark to count
        rng_keys = [rng_key(source.tolist()) for source in batch.split()]
        model: StepModel = self.model
        with torch.no_grad():
            if wants.prompted:
                model = PromptedLM(self.model, specials.BEGIN)
                memory: Any = model.encode(torch.stack(batch.to(self.device).split()))
            else:
                memory = self.model.encode(self._there(batch))
        request = SearchRequest(
            memory=memory,
            begin=specials.BEGIN,
            end=specials.END,
            max_lengths=self.limits(lengths, prefixes, settings),
            min_lengths=[max(settings.min_length, int(settings.min_ratio * max(length - 1, 0))) for length in lengths],
            prefixes=prefixes,
            rng_keys=rng_keys,
            seed=self.recipe.seed,
            banned=self._phrases("banned", settings.banned),
            required=[self._phrases("required", settings.required)] * len(lengths),
            decode=self.tokenizers.target.decode,
            n_best=wants.n_best,
            return_attention=wants.weights or wants.named,
            return_trace=wants.trace,
            device=self.device,
            loop=None if wants.prompted else self.loop,
        )
        return run_search(model, request, settings)

    def _there(self, batch: Ragged) -> Ragged:
        """A batch on the device; where steps are recorded, the longest source is rounded up: there are fewer shapes."""
        longest = -(-batch.layout.longest // 16) * 16
        encoder = getattr(self.model, "encoder", None)
        if self.loop is None or not isinstance(encoder, TransformerEncoder):
            return batch.to(self.device)
        if encoder.stack.max_length is not None and longest > encoder.stack.max_length:
            return batch.to(self.device)
        return Ragged(batch.values.to(self.device), Layout(batch.lengths, self.device, longest=longest))

    def _phrases(self, setting: str, phrases: Sequence[str]) -> list[list[int]]:
        """Phrases as ids."""
        found = [self.tokenizers.target.encode(phrase) for phrase in phrases]
        for phrase, ids in zip(phrases, found, strict=True):
            if specials.UNKNOWN in ids:
                raise SearchError(
                    f"search.{setting}: {phrase!r} has symbols that this model does not know; leave it out"
                )
        return found

    def _named(self, source: str, source_ids: list[int], found: Hypothesis) -> str:
        """The text with unknowns replaced by the source words that were looked at most   Luong et al. 2015b."""
        if found.attention_TS is None:
            raise SearchError("search.replace_unknown: this model has no attention, so no source word can be found")
        target = self.tokenizers.target
        text, spans = target.decode(found.tokens), target.spans(found.tokens)
        words_read, groups_read = group_words(self.tokenizers.source, source_ids, source)
        for place in reversed([place for place, token in enumerate(found.tokens) if token == specials.UNKNOWN]):
            column = int(found.attention_TS[place, : len(source_ids) - 1].argmax())
            start, end = spans[place]
            if 0 <= groups_read[column] < len(words_read):
                text = text[:start] + words_read[groups_read[column]] + text[end:]
        return text

    def _translation(
        self,
        source: str,
        source_ids: list[int],
        found: Hypothesis,
        text: str | None = None,
        wants: _Wants | None = None,
    ) -> Translation:
        """A hypothesis as text; ``text`` where it was given rather than found."""
        target = self.tokenizers.target
        if text is None:
            text = target.decode(found.tokens)
            if wants is not None and wants.named and specials.UNKNOWN in found.tokens:
                text = self._named(source, source_ids, found)
        source_tokens = self.tokenizers.source.pieces(source_ids)
        attention = words_seen = None
        links: list[tuple[int, int]] = []
        if found.attention_TS is not None:
            attention = found.attention_TS[: len(found.tokens)].numpy().astype(np.float64)
            if self.recipe.model.kind == "language_model":  # it looks at nothing, then at what it has read
                source_tokens = ["∅", specials.SPECIALS[specials.BEGIN], *target.pieces(found.tokens)]
                source_tokens = source_tokens[: attention.shape[1]]
            else:
                attention = attention[:, : len(source_ids)]
                sides = (self.tokenizers.source, target)
                words_seen = word_map(*sides, (source, source_ids), (text, found.tokens), attention)
                links = word_links(words_seen)
        return Translation(
            source=source,
            text=text,
            score=found.score,
            log_probability=found.log_probability,
            tokens=target.pieces(found.tokens),
            ids=found.tokens,
            token_scores=found.token_scores,
            source_tokens=source_tokens,
            attention=attention,
            words=words_seen,
            links=links,
            ended=found.ended,
            proven=found.proven,
            trace=found.trace,
        )

    def attend(self, source: str, target: str | None = None, **search: Any) -> tuple[Translation, WordMap]:
        """Where the model looks when it says its own translation, or the target given."""
        found = self.translate(source, **search) if target is None else self.force([Pair(source, target)])[0]
        if found.attention is None:
            raise SearchError(
                f"{self.recipe.name}: this model has no attention to show; look at its heads with `heads`"
                if self.recipe.model.attends
                else f"{self.recipe.name}: this model has no attention (model.attention.score = 'none'): "
                "nothing to show"
            )
        return found, found.words or WordMap(found.attention, found.source_tokens, found.tokens)

    def heads(self, source: str, target: str | None = None, **search: Any) -> list[HeadMap]:
        """Where every head of every layer looks, over tokens, for the model's own translation or the target given."""
        if isinstance(self.model, Ensemble):
            raise SearchError("this is an ensemble: it has no heads of its own; look at its members' one by one")
        tokens = self.tokenizers.target
        end = [specials.END]
        if target is not None:
            ids = tokens.encode(target)
        elif self.recipe.model.has_source:
            found = self.translate(source, attention=False, **search)
            ids, end = found.ids, end if found.ended == "end" else []
        else:
            ids, source = tokens.encode(source), ""
        source_ids = [*self.tokenizers.source.encode(source), specials.END] if self.recipe.model.has_source else []
        with torch.no_grad():
            inputs = Ragged.of([[*ids, *end]], self.device).shifted(specials.BEGIN)
            records = self.model(Ragged.of([source_ids], self.device), inputs, return_attention=True).attention
        if not records:
            raise SearchError(f"{self.recipe.name}: this model has no attention: nothing to show")
        read = self.tokenizers.source.pieces(source_ids) if source_ids else []
        rows = tokens.pieces([*ids, *end])
        past = [specials.SPECIALS[specials.BEGIN], *rows[:-1]]
        columns = {
            "encoder": read,
            "cross": read,
            "decoder": [*read, *past] if isinstance(self.model, PrefixLM) else past,
            "history": ["∅", *past[:-1]],
        }
        return [
            HeadMap(
                "decoder" if one.kind == "history" else one.kind,
                one.layer + 1,
                head + 1,
                weights_TS.cpu().numpy().astype(np.float64),
                columns[one.kind],
                read if one.kind == "encoder" else rows,
            )
            for one in records
            for head, weights_TS in enumerate(one.weights_BHTS[0])
        ]

    def force(self, pairs: Sequence[Pair]) -> list[Translation]:
        """What the model makes of targets that are given: their scores, attention and links."""
        encoded = self._encode(pairs)
        answers: list[Translation | None] = [None] * len(pairs)
        for rows in length_sorted_batches(encoded, self.recipe.search.batch_tokens):
            batch = encoded.batch(rows).to(self.device)
            with torch.no_grad():
                out = self.model(batch.source, batch.target.shifted(specials.BEGIN), return_attention=True)
            weights_BTS = alignment_weights(out.attention, batch.source.layout)
            chosen_N1 = out.logits_NV.float().log_softmax(-1).gather(1, batch.target.values[:, None])
            scores = batch.target.like(chosen_N1[:, 0]).split()
            sides = zip(batch.source.split(), batch.target.split(), strict=True)
            for place, (source_ids, target_ids) in enumerate(sides):
                weights = None if weights_BTS is None else weights_BTS[place, : len(target_ids)].cpu()
                total = float(scores[place].sum())
                found = Hypothesis(
                    tokens=target_ids.tolist()[:-1],
                    score=total,
                    log_probability=total,
                    token_scores=scores[place].tolist(),
                    ended="end",
                    attention_TS=weights,
                )
                row = int(rows[place])
                pair = pairs[row]
                answers[row] = self._translation(pair.source, source_ids.tolist(), found, pair.target)
        return [answer for answer in answers if answer is not None]

    def score(self, pairs: Sequence[Pair]) -> list[PairScore]:
        """log p(target | source) of every pair, end mark included."""
        scores = token_log_probabilities(self.model, self._encode(pairs), begin=specials.BEGIN, device=self.device)
        return [PairScore(float(row.sum(dtype=torch.float64)), row.tolist()) for row in scores]

    def _encode(self, pairs: Sequence[Pair]) -> PairStore:
        return encode_pairs(pairs, self.tokenizers, sources=sources_of(self.recipe))

    def sample(
        self, count: int = 1, *, prompt: str = "", length: int = 100, seed: int | None = None, **search: Any
    ) -> list[str]:
        """Texts drawn from a language model word by word, each going on from the prompt."""
        return [one.text for one in self.go_on(prompt, count=count, length=length, seed=seed, **search)]

    def go_on(
        self, prompt: str = "", *, count: int = 1, length: int = 100, trace: bool = False, **search: Any
    ) -> list[Translation]:
        """How a language model goes on from a prompt, by any search (not said: sampling), best first."""
        if self.recipe.model.kind != "language_model":
            raise RecipeError(
                f"{self.recipe.name}: `sample` needs a language model (model.kind = 'language_model'); "
                "this one has a source: use `translate --search sample`"
            )
        settings = self.search_settings({"kind": "sample", **search})
        prefix = self.tokenizers.target.encode(prompt or settings.prefix)
        copies = count if settings.kind == "greedy" else 1  # it has but one thing to say
        wants = _Wants(count // copies, self.recipe.model.attends, trace)
        limited = settings.model_copy(update={"max_length": len(prefix) + length})
        found = self._search(Ragged.of([[]]), [prefix], limited, wants)[0]
        return [self._translation("", [], one) for one in found] * copies


def _with_others(many: list[Translation]) -> Translation:
    """The best, with the others as its alternatives."""
    return replace(many[0], alternatives=tuple(many[1:])) if len(many) > 1 else many[0]


def why_no_engine(run: Translator, settings: SearchSettings, n_best: int) -> str | None:
    """Why CTranslate2 cannot search this run under these settings; None where it can."""
    from weft.interop import ctranslate2_export as ctranslate2

    if not ctranslate2.installed():
        return "CTranslate2 is not installed; `pip install ctranslate2`"
    if isinstance(run.model, Ensemble):
        return "it has no ensembles"
    return ctranslate2.holds(run.recipe.model) or ctranslate2.supports(settings, n_best=n_best)
