"""The façade: a trained model with its tokenizers, ready to be asked.

run = weft.load("runs/grammar")
t = run.translate("he hit me with a pie")
t.text, t.score, t.tokens, t.attention, t.links
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np
import torch

from weft.attention import Seen
from weft.build import Tokenizers, build_model, choose_device, encode_pairs, load_tokenizers
from weft.data.batches import in_order
from weft.data.pairs import Pair
from weft.data.store import PairStore, TokenStore
from weft.errors import RecipeError, SearchError
from weft.evaluation.alignment import groups, links_from_weights, merge_weights
from weft.evaluation.likelihood import token_log_probabilities
from weft.models import AnyModel, PrefixModel, RecurrentLanguageModel
from weft.ragged import Ragged
from weft.recipe import load_recipe, make_recipe
from weft.search import Choice, Hypothesis, beam, follow, greedy, sampler
from weft.settings import Recipe, SearchSettings
from weft.text import specials, words
from weft.text.tokenizer import Tokenizer
from weft.text.units import Word
from weft.training.checkpoint import RunFolder
from weft.training.loop import load_weights

NULL_WEIGHT = 0.15
"""A target word whose largest weight is below this has no counterpart."""
WINDOW = 4096
"""Lines that are sorted by length together when a file is translated."""


class WordMap(NamedTuple):
    """Attention over words rather than tokens."""

    weights_TS: np.ndarray
    source: list[str]
    """The words and, last, the end mark."""
    target: list[str]


@dataclass(frozen=True)
class Translation:
    """One answer, with all that is known about it."""

    source: str
    text: str
    score: float
    """log p(y|x) / |y|^α, by which the search ranked it."""
    log_probability: float
    tokens: list[str]
    ids: list[int]
    """The tokens as the model knows them."""
    token_scores: list[float]
    """log p of every token and, where the model ended by itself, of the end mark."""
    source_tokens: list[str]
    """The source's tokens and its end mark: the columns of `attention`."""
    attention: np.ndarray | None
    """(tokens, source tokens) where each output token looked; None for a model without attention."""
    words: WordMap | None
    """The same over whole words."""
    links: list[tuple[int, int]]
    """(source word, target word), zero-based, words as `weft.text.words` cuts them; read off the attention."""
    ended: str
    """"end", or "length" where the limit cut it off."""
    alternatives: tuple[Translation, ...] = ()
    """The other hypotheses of an n-best list, best first."""


class HeadMap(NamedTuple):
    """Where one head of one layer looks."""

    kind: str
    """"encoder" (self-attention over the source), "decoder" (over what was said) or "cross" (over the source)."""
    layer: int
    """From 1, as `head`."""
    head: int
    weights_TS: np.ndarray
    source: list[str]
    """The columns: what is looked at."""
    target: list[str]
    """The rows: who looks. In the decoder a row is named for the token that is said there."""


class PairScore(NamedTuple):
    """How probable a model finds one target for one source."""

    log_probability: float
    token_scores: list[float]


class Translator:
    """A model with its tokenizers. `weft.load` makes one from a run folder."""

    def __init__(
        self,
        model: AnyModel,
        tokenizers: Tokenizers,
        recipe: Recipe,
        *,
        device: torch.device | str = "cpu",
        folder: Path | None = None,
    ) -> None:
        self.device = torch.device(device)
        if next(model.parameters()).device.type != self.device.type:  # else recurrent weights would move for nothing
            model = model.to(device)
        self.model = model.eval()
        self.tokenizers = tokenizers
        self.recipe = recipe
        self.folder = folder

    @overload
    def translate(self, source: str, *, n_best: int = 1, attention: bool = True, **search: Any) -> Translation: ...

    @overload
    def translate(
        self, source: Sequence[str], *, n_best: int = 1, attention: bool = True, **search: Any
    ) -> list[Translation]: ...

    def translate(
        self, source: str | Sequence[str], *, n_best: int = 1, attention: bool = True, **search: Any
    ) -> Translation | list[Translation]:
        """The best output for one source or several; ``search`` changes settings, e.g. ``size=8``."""
        if self.recipe.model.kind == "language_model":
            raise SearchError("this run is a language model: it has no source to translate; use `sample`")
        if n_best < 1:
            raise SearchError(f"n_best: {n_best}; at least 1 output is found")
        settings = self.search_settings(search)
        if isinstance(source, str):
            return self._translate([source], settings, n_best, attention)[0]
        return self._translate(source, settings, n_best, attention)

    def translate_lines(
        self, lines: Iterable[str], *, n_best: int = 1, attention: bool = False, **search: Any
    ) -> Iterator[Translation]:
        """One translation for every line, in order, with a bounded number of lines in memory."""
        stream = iter(lines)
        while window := list(islice(stream, WINDOW)):
            yield from self.translate(window, n_best=n_best, attention=attention, **search)

    def search_settings(self, changes: dict[str, Any]) -> SearchSettings:
        """The run's search settings with some changed."""
        if not changes:
            return self.recipe.search
        tree = {"search": {**self.recipe.search.model_dump(), **changes}}
        return make_recipe(tree).search

    def _translate(
        self, sources: Sequence[str], settings: SearchSettings, n_best: int, attention: bool
    ) -> list[Translation]:
        encode = self.tokenizers.source.encode_batch
        ids = [[*tokens, specials.END] if tokens else [] for tokens in encode(list(sources))]
        asked = [row for row, tokens in enumerate(ids) if tokens]
        store = TokenStore.of(ids[row] for row in asked)
        answers = [_nothing(source) for source in sources]
        for rows in in_order(PairStore(store, store), settings.batch_tokens):
            found = self._search(store, rows, settings, n_best, attention)
            for row, hypotheses in zip(rows.tolist(), found, strict=True):
                place = asked[row]
                many = [self._translation(sources[place], ids[place], one) for one in hypotheses]
                answers[place] = _with_alternatives(many)
        return answers

    def _search(
        self, store: TokenStore, rows: np.ndarray, settings: SearchSettings, n_best: int, attention: bool
    ) -> list[list[Hypothesis]]:
        batch = store.gather(rows).to(self.device)
        with torch.no_grad():
            memory = self.model.encode(batch)
        limits = [int(settings.max_ratio * length) + settings.max_extra for length in (batch.lengths - 1).tolist()]
        rooms = [self.model.room(length) for length in batch.lengths.tolist()]
        limits = [
            max(limit if room is None else min(limit, room), 1) for limit, room in zip(limits, rooms, strict=True)
        ]
        if settings.kind == "beam":
            return beam(
                self.model,
                memory,
                limits,
                begin=specials.BEGIN,
                end=specials.END,
                size=max(settings.size, n_best),
                length_penalty=settings.length_penalty,
                finish=settings.finish or None,
                n_best=n_best,
                weights=attention,
                device=self.device,
            )
        if n_best > 1:
            raise SearchError(f"--n-best {n_best}: {settings.kind} search finds one output; use search.kind = 'beam'")
        choose = self._choice(settings) if settings.kind == "sample" else greedy
        found = follow(
            self.model,
            memory,
            limits,
            choose,
            begin=specials.BEGIN,
            end=specials.END,
            weights=attention,
            device=self.device,
        )
        return [[one] for one in found]

    def _choice(self, settings: SearchSettings, seed: int | None = None) -> Choice:
        generator = torch.Generator(self.device).manual_seed(self.recipe.seed if seed is None else seed)
        return sampler(
            temperature=settings.temperature, top_k=settings.top_k, top_p=settings.top_p, generator=generator
        )

    def _translation(
        self, source: str, source_ids: list[int], found: Hypothesis, text: str | None = None
    ) -> Translation:
        """A hypothesis as text; ``text`` where it was given rather than found."""
        target = self.tokenizers.target
        text = target.decode(found.tokens) if text is None else text
        source_tokens = self.tokenizers.source.pieces(source_ids)
        attention = words_seen = None
        links: list[tuple[int, int]] = []
        if found.weights_TS is not None:
            attention = found.weights_TS[: len(found.tokens)].numpy().astype(np.float64)
            if self.recipe.model.kind == "language_model":  # it looks at nothing, then at what it has read
                source_tokens = ["∅", specials.SPECIALS[specials.BEGIN], *target.pieces(found.tokens)]
                source_tokens = source_tokens[: attention.shape[1]]
            else:
                attention = attention[:, : len(source_ids)]
                words_seen = self.word_map(source, source_ids, text, found.tokens, attention)
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
        )

    def word_map(
        self, source: str, source_ids: Sequence[int], target: str, target_ids: Sequence[int], weights_TS: np.ndarray
    ) -> WordMap:
        """Attention over tokens merged to words; the source's end mark stays as the last column."""
        source_words, source_groups = _group(self.tokenizers.source, source_ids, source)
        target_words, target_groups = _group(self.tokenizers.target, target_ids, target)
        source_groups[-1] = len(source_words)
        merged_TS = merge_weights(
            weights_TS,
            source_groups,
            target_groups,
            source_words=len(source_words) + 1,
            target_words=len(target_words),
        )
        return WordMap(merged_TS, [*source_words, specials.SPECIALS[specials.END]], target_words)

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
        seen: list[Seen] = []
        with torch.no_grad():
            said = Ragged.of([[*ids, *end]], self.device)
            self.model.states(Ragged.of([source_ids], self.device), said.shifted(specials.BEGIN), seen=seen)
        if not seen:
            raise SearchError(f"{self.recipe.name}: this model has no attention: nothing to show")
        read = self.tokenizers.source.pieces(source_ids) if source_ids else []
        rows = tokens.pieces([*ids, *end])
        past = [specials.SPECIALS[specials.BEGIN], *rows[:-1]]
        if isinstance(self.model, RecurrentLanguageModel):
            past = ["∅", *past[:-1]]
        columns = {"encoder": read, "cross": read, "decoder": [*read, *past] if self._is_prefix else past}
        return [
            HeadMap(
                one.kind,
                one.layer + 1,
                head + 1,
                weights_TS.cpu().numpy().astype(np.float64),
                columns[one.kind],
                read if one.kind == "encoder" else rows,
            )
            for one in seen
            for head, weights_TS in enumerate(one.weights_BHTS[0])
        ]

    @property
    def _is_prefix(self) -> bool:
        return isinstance(self.model, PrefixModel)

    def force(self, pairs: Sequence[Pair]) -> list[Translation]:
        """What the model makes of targets that are given: their scores, attention and links."""
        encoded = self._encode(pairs)
        answers: list[Translation | None] = [None] * len(pairs)
        for rows in in_order(encoded, self.recipe.search.batch_tokens):
            batch = encoded.batch(rows).to(self.device)
            with torch.no_grad():
                out = self.model(batch.source, batch.target.shifted(specials.BEGIN), weights=True)
            chosen_N1 = out.logits_NV.float().log_softmax(-1).gather(1, batch.target.values[:, None])
            scores = batch.target.like(chosen_N1[:, 0]).split()
            sides = zip(batch.source.split(), batch.target.split(), strict=True)
            for place, (source_ids, target_ids) in enumerate(sides):
                weights = None if out.weights_BTS is None else out.weights_BTS[place, : len(target_ids)].cpu()
                total = float(scores[place].sum())
                found = Hypothesis(
                    tokens=target_ids.tolist()[:-1],
                    score=total,
                    log_probability=total,
                    token_scores=scores[place].tolist(),
                    ended="end",
                    weights_TS=weights,
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
        return encode_pairs(pairs, self.tokenizers, sources=self.recipe.model.has_source).pairs

    def sample(
        self, count: int = 1, *, prompt: str = "", length: int = 100, seed: int | None = None, **search: Any
    ) -> list[str]:
        """Texts drawn from a language model word by word, each going on from the prompt."""
        if self.recipe.model.kind != "language_model":
            raise RecipeError(
                f"{self.recipe.name}: `sample` needs a language model (model.kind = 'language_model'); "
                "this one has a source: use `translate --search sample`"
            )
        settings = self.search_settings({"kind": "sample", **search})
        prefix = self.tokenizers.target.encode(prompt)
        empty = TokenStore.of([] for _ in range(count)).gather(np.arange(count)).to(self.device)
        choose = greedy if settings.kind == "greedy" else self._choice(settings, seed)
        limit, room = len(prefix) + length, self.model.room(0)
        if room is not None:
            limit = max(min(limit, room), len(prefix))  # a prompt is never cut: one that is too long is refused
        found = follow(
            self.model,
            self.model.encode(empty),
            [limit] * count,
            choose,
            begin=specials.BEGIN,
            end=specials.END,
            prefix=prefix,
            device=self.device,
        )
        return [self.tokenizers.target.decode(one.tokens) for one in found]


def word_links(found: WordMap) -> list[tuple[int, int]]:
    """Links between words; the end mark and weak weights stand for "no counterpart"."""
    if not len(found.target):
        return []
    return links_from_weights(found.weights_TS, threshold=NULL_WEIGHT, null_column=len(found.source) - 1)


def _group(tokenizer: Tokenizer, ids: Sequence[int], text: str) -> tuple[list[str], list[int]]:
    """The words of a text, and the word that each of its ids belongs to.

    Places are those of ``tokenizer.spans``, which hold for the text itself as long as an unknown is as long as what
    it stands for: one character. An unknown word is not, so words are counted instead.
    """
    spans = tokenizer.spans(ids)
    if isinstance(tokenizer, Word):
        pieces = words.split(text) if tokenizer.split_punctuation else words.chunks(text)
        spans = [(piece.start, piece.end) for piece in pieces] + [(len(text), len(text))] * (len(ids) - len(pieces))
    elif len(said := tokenizer.decode(ids)) != len(text):
        text = said
    found = words.split(text)
    return [word.text for word in found], groups([(word.start, word.end) for word in found], spans)


def _nothing(source: str) -> Translation:
    """The answer to an empty line: an empty line."""
    return Translation(
        source=source,
        text="",
        score=0.0,
        log_probability=0.0,
        tokens=[],
        ids=[],
        token_scores=[],
        source_tokens=[specials.SPECIALS[specials.END]],
        attention=None,
        words=None,
        links=[],
        ended="end",
    )


def _with_alternatives(many: list[Translation]) -> Translation:
    from dataclasses import replace

    return replace(many[0], alternatives=tuple(many[1:])) if len(many) > 1 else many[0]


def load(path: Path | str, *, device: str = "auto") -> Translator:
    """A trained run, from its folder."""
    folder = RunFolder(path).check()
    recipe = load_recipe(folder.recipe)
    tokenizers = load_tokenizers(folder.tokenizers())
    weights = folder.read_model()
    model = build_model(recipe.model, source_size=tokenizers.source.size, target_size=tokenizers.target.size)
    load_weights(model, weights.tensors, where=str(folder.model))
    return Translator(model, tokenizers, recipe, device=choose_device(device), folder=folder.path)
