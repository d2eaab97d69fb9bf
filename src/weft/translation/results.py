"""What a trained run answers, with all that is known about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from weft.search.trace import Trace
from weft.text import specials


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
    """What the search ranked it by: log p(y|x) / |y|^α, or as `search.normalization` says; for mbr the mean utility."""
    log_probability: float
    tokens: list[str]
    ids: list[int]
    """The tokens as the model knows them."""
    token_scores: list[float]
    """log p of every token and, where the model ended by itself, of the end mark; none where CTranslate2 searched and
    attention was not asked for."""
    source_tokens: list[str]
    """The source's tokens and its end mark: the columns of `attention`."""
    attention: np.ndarray | None
    """(tokens, source tokens) where each output token looked; None for a model without attention."""
    words: WordMap | None
    """The same over whole words."""
    links: list[tuple[int, int]]
    """(source word, target word), zero-based, words as `weft.text.word_splitting` cuts them; read off the attention."""
    ended: str
    """"end", or "length" where the limit cut it off."""
    proven: bool = False
    """Whether there is certainly no better one: said by the exact searches."""
    alternatives: tuple[Translation, ...] = ()
    """The other hypotheses of an n-best list, best first."""
    trace: Trace | None = None
    """What the search did, step by step, where it was asked for."""


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


def nothing(source: str) -> Translation:
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
