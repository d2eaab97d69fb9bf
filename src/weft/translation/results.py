"""The results of a `Translator`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from weft.text import specials
from weft.translation.flags import NO_RULES, FlagRules, flags_of

if TYPE_CHECKING:
    from weft.data.reading.translation_memory import MemoryMatch
    from weft.search.trace import Trace


class WordAttention(NamedTuple):
    """Attention weights over words rather than tokens."""

    weights_TS: np.ndarray
    source: list[str]
    """The source words and, last, the end token."""
    target: list[str]


class TranslationFields(Protocol):
    """Computes fields of the translations of a batch when they are first read."""

    def compute(self, name: str, row: int) -> Any:
        """The value of a field; an `AttributeError` if there is no such field. ``row``: index in the batch."""


@dataclass(frozen=True, repr=False)
class Translation:
    """One output, with its scores, tokens and attention. ``str(translation)`` is its text."""

    source: str
    text: str
    score: float
    """The search's ranking score: log p(y|x) / |y|^α, or as `search.normalization` says; for mbr the mean utility."""
    log_probability: float
    tokens: list[str]
    ids: list[int]
    """The ids of the tokens. If the model copies, an id from the size of the target vocabulary on is the source token
    at the position by which it exceeds that size."""
    token_scores: list[float]
    """log p of every token and, if the output ended, of the end token; empty if CTranslate2 searched and attention was
    not requested."""
    source_tokens: list[str]
    """The source's tokens and its end token: the columns of `attention`."""
    attention: np.ndarray | None
    """(tokens, source tokens) attention weights of each output token; None for a model without attention."""
    word_attention: WordAttention | None
    """Attention weights over whole words."""
    links: list[tuple[int, int]]
    """(source word, target word), zero-based, words as `weft.text.words` splits them: the word alignment that
    the attention gives."""
    ended: str
    """The reason why the output ended: "end" (the end token), "length" (the length limit), "constraints" (no token was
    allowed to follow) or "nodes" (an exact search gave up)."""
    gap: float | None = field(default_factory=lambda: None)  # a plain default would hide one that is not computed yet
    """Optimality gap: an upper bound on how much higher any other output scores (for an alternative: any not listed
    before it); 0 if this one is proven to be the best, None if the search gives no bound. See docs/decoding.md."""
    confidence: float | None = field(default_factory=lambda: None)
    """The probability that this output is right (`weft.translation.confidence`); None for an alternative, an empty line
    and a run that is not calibrated."""
    flag_rules: FlagRules | None = field(default_factory=lambda: None, compare=False)
    """Rules for normal outputs of the run, if it is calibrated: `flags` depend on it."""
    alternatives: tuple[Translation, ...] = ()
    """The other hypotheses of an n-best list, best first."""
    terms: tuple[tuple[str, ...], ...] = field(default_factory=tuple)
    """The terms of a glossary that its source contains, each as its target variants, one of which is required."""
    memory: tuple[MemoryMatch, ...] = ()
    """The pairs of a translation memory with the most similar sources; the text is that of one that is equal."""
    trace: Trace | None = None
    """Every step of the search, if requested."""

    @classmethod
    def lazy(cls, texts: Sequence[str], others: TranslationFields) -> list[Translation]:
        """The translations of a batch; all other fields are computed when they are first read."""
        make = cls.__new__
        translations = [make(cls) for _ in texts]
        for row, (translation, text) in enumerate(zip(translations, texts, strict=True)):
            values = translation.__dict__
            values["text"], values["_others"], values["_row"] = text, others, row
        return translations

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            others = None if name in ("_others", "_row") else vars(self).get("_others")
            if others is None:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            value = vars(self)[name] = others.compute(name, self._row)
            return value

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        others = f", {len(self.alternatives)} alternatives" if self.alternatives else ""
        return f"<Translation {self.text!r}: score {self.score:.4f}, {len(self.tokens)} tokens{others}>"

    def _repr_html_(self) -> str:
        from weft.pictures.notebook import translation_html

        return translation_html(self)

    @cached_property
    def flags(self) -> tuple[str, ...]:
        """Names for what is suspicious about this output, such as "cut" or "repeats"; see `weft.translation.flags`."""
        values = vars(self)
        others: TranslationFields | None = values.get("_others")
        if others is not None and "terms" not in values and "source" not in values:
            flags: tuple[str, ...] = others.compute("flags", values["_row"])
            return flags
        of_tokens = None if others is None else others.compute("flags_of_tokens", values["_row"])
        return flags_of(self, self.flag_rules or NO_RULES, of_tokens)

    @property
    def proven(self) -> bool:
        """Whether it is proven that no output (but those listed before it) has a higher score."""
        return self.gap == 0.0

    @property
    def ended_by_length(self) -> bool:
        """Whether the length limit cut the output off."""
        return self.ended == "length"


class HeadAttention(NamedTuple):
    """The attention weights of one head of one layer, with the tokens of its rows and columns."""

    kind: str
    """"encoder" (self-attention over the source), "decoder" (over the history) or "cross" (over the source)."""
    layer: int
    """Counted from 1, as is `head`."""
    head: int
    weights_TS: np.ndarray
    source: list[str]
    """The columns: the keys."""
    target: list[str]
    """The rows: the queries. In the decoder a row has the name of the token that is predicted there."""


class CopiedTokens(NamedTuple):
    """The copied share of each token of an output."""

    tokens: list[str]
    """The tokens and, if the output ended, the end token."""
    copied: list[float]
    """The share of p(y_t) that was copied from the source."""
    gates: list[float]
    """g_t: the weight of generating; that of copying is 1 − g_t."""


class PairScore(NamedTuple):
    """log p(target | source) of one pair."""

    log_probability: float
    token_scores: list[float]


def empty_translation(source: str) -> Translation:
    """The translation of an empty line: an empty line."""
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
        word_attention=None,
        links=[],
        ended="end",
    )
