"""Other pairs from a pair, where symbols or phrases of both sides are interchangeable: new combinations of known parts.

``exchange`` renames symbols consistently: with π a random permutation of a group of entries (a, a'),

    (x, y)  →  (π(x), π'(y))         π(a_i) = a_j,  π'(a'_i) = a'_j                  Akyürek & Andreas 2023 (LexSym)

``substitute`` replaces each phrase of a group that a pair contains by another one of the group, on both sides:

    (u s v, u' s' v')  →  (u r v, u' r' v')         (s, s') and (r, r') in one group         Andreas 2020 (GECA)

It must be clear where the target of a phrase is: the targets of all phrases of the source are marked in the target,
once from the left and once from the right. If the marks differ, or a token of a phrase is left unmarked on either side,
the pair stays as it is: the targets of *walk around left* and *walk left* look like one phrase five times.

The draws are a function of the seed and the pair's text alone, as those of noise are. Tokens are what is between white
space. `weft.pairs.profiling.exchanges` finds groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from random import Random
from typing import ClassVar, Literal, NamedTuple

from pydantic import Field, field_validator

from weft.data.filtering.sides import with_texts
from weft.data.filtering.steps import Kept, Step
from weft.data.pairs import Pair, pair_hashes
from weft.errors import plural, quote
from weft.recipe.base import Probability

Groups = list[list[list[str]]]
Tokens = tuple[str, ...]


class Exchange(Step):
    """Permute the symbols of each group at random, on both sides of a pair."""

    is_random: ClassVar[bool] = True
    makes_pairs: ClassVar[bool] = True
    kind: Literal["exchange"] = Field("exchange", description="permute interchangeable symbols of both sides")
    groups: Groups = Field(description="groups of symbols, each [source symbol, target symbol]")

    @field_validator("groups")
    @classmethod
    def _check_groups(cls, groups: Groups) -> Groups:
        check_groups("exchange", groups)
        for side in (0, 1):
            symbols = [entry[side] for group in groups for entry in group]
            for symbol in symbols:
                if len(symbol.split()) > 1:
                    raise ValueError(f"data.pipeline: exchange: {quote(symbol)} is not one symbol; use substitute")
                if symbols.count(symbol) > 1:
                    raise ValueError(f"data.pipeline: exchange: {quote(symbol)} is in two entries; give it one")
        return groups

    def __str__(self) -> str:
        return f"exchange: {'; '.join(', '.join(entry[0] for entry in group) for group in self.groups)}"

    def apply(self, pairs: Sequence[Pair], key: bytes) -> Kept:
        random = Random()
        changed: Kept = []
        for pair, seed in zip(pairs, pair_hashes(pairs, key), strict=True):
            random.seed(seed)
            renamed = [(a, b) for group in self.groups for a, b in zip(group, shuffled(group, random), strict=True)]
            sides = ({a[side]: b[side] for a, b in renamed} for side in (0, 1))
            source, target = map(rename, pair[:2], sides)
            changed.append(with_texts(pair, source, target))
        return changed


class Substitute(Step):
    """Replace phrases by others of their group, on both sides of a pair."""

    is_random: ClassVar[bool] = True
    makes_pairs: ClassVar[bool] = True
    kind: Literal["substitute"] = Field("substitute", description="replace phrases by others that fit in their place")
    groups: Groups = Field(description="groups of phrases, each [source phrase, target phrase]")
    probability: Probability = Field(0.5, description="probability that a phrase is replaced")

    @field_validator("groups")
    @classmethod
    def _check_groups(cls, groups: Groups) -> Groups:
        check_groups("substitute", groups)
        return groups

    def __str__(self) -> str:
        phrases = "; ".join(f"{plural(len(group), 'phrase')} like {quote(group[0][0])}" for group in self.groups)
        return f"substitute: {phrases}, with probability {self.probability:g}"

    def apply(self, pairs: Sequence[Pair], key: bytes) -> Kept:
        random = Random()
        split_groups = [[split_entry(entry) for entry in group] for group in self.groups]
        group_of = {phrase.source: group for group in split_groups for phrase in group}
        phrases = Phrases(phrase for group in split_groups for phrase in group)
        changed: Kept = []
        for pair, seed in zip(pairs, pair_hashes(pairs, key), strict=True):
            random.seed(seed)
            parts = phrases.parts(split_entry(pair[:2]))
            drawn = {
                phrase: random.choice(group_of[phrase.source])
                for phrase in parts.phrases
                if random.random() < self.probability
            }
            changed.append(with_texts(pair, *parts.replaced(drawn)) if drawn else pair)
        return changed


class Phrase(NamedTuple):
    """Tokens of a source and of a target."""

    source: Tokens
    target: Tokens


class Parts(NamedTuple):
    """Both sides of a pair as tokens and phrases, in order."""

    source: list[str | Phrase]
    target: list[str | Phrase]
    phrases: list[Phrase]
    """The phrases, each once; none if it is in doubt where their targets are."""

    def replaced(self, others: Mapping[Phrase, Phrase]) -> tuple[str, str]:
        """The texts of both sides with phrases replaced by others."""
        sides = []
        for side, parts in enumerate((self.source, self.target)):
            tokens: list[str] = []
            for part in parts:
                tokens += [part] if isinstance(part, str) else others.get(part, part)[side]
            sides.append(" ".join(tokens))
        return sides[0], sides[1]


class Phrases:
    """Phrases to be found in pairs, the longest first."""

    def __init__(self, phrases: Iterable[Phrase]) -> None:
        self.by_source = {phrase.source: phrase for phrase in phrases}

    def parts(self, pair: Phrase) -> Parts:
        """A pair, divided at its phrases."""
        source = _divided(pair.source, self.by_source)
        phrases = list(dict.fromkeys(part for part in source if isinstance(part, Phrase)))
        by_target = {phrase.target: phrase for phrase in phrases}
        target = _divided(pair.target, by_target)
        marked = {part for part in target if isinstance(part, Phrase)}
        is_clear = (
            len(marked) == len(phrases)
            and _unmarked(source).isdisjoint(chain(*(phrase.source for phrase in phrases)))
            and _unmarked(target).isdisjoint(chain(*by_target))
            and target == _divided_backwards(pair.target, by_target)
        )
        return Parts(source, target, phrases if is_clear else [])


def _unmarked(parts: Iterable[str | Phrase]) -> set[str]:
    """The tokens that are in no phrase."""
    return {part for part in parts if isinstance(part, str)}


def _divided(tokens: Tokens, phrases: Mapping[Tokens, Phrase]) -> list[str | Phrase]:
    """Tokens from left to right, with the longest phrase at each position."""
    sizes = sorted({len(phrase) for phrase in phrases}, reverse=True)
    parts: list[str | Phrase] = []
    start = 0
    while start < len(tokens):
        ends = (start + size for size in sizes)
        end = next((end for end in ends if tokens[start:end] in phrases), None)
        parts.append(tokens[start] if end is None else phrases[tokens[start:end]])
        start = end or start + 1
    return parts


def _divided_backwards(tokens: Tokens, phrases: Mapping[Tokens, Phrase]) -> list[str | Phrase]:
    """Tokens from right to left, with the longest phrase at each position; in the order of the text."""
    return _divided(tokens[::-1], {phrase[::-1]: value for phrase, value in phrases.items()})[::-1]


def split_entry(entry: Sequence[str]) -> Phrase:
    """An entry, or the texts of a pair, as tokens."""
    return Phrase(tuple(entry[0].split()), tuple(entry[1].split()))


def rename(text: str, names: Mapping[str, str]) -> str:
    """A text with other names for some of its tokens."""
    return " ".join([names.get(token, token) for token in text.split()])


def shuffled(group: Sequence[list[str]], random: Random) -> list[list[str]]:
    """The entries of a group in random order."""
    return random.sample(list(group), len(group))


def check_groups(kind: str, groups: Groups) -> None:
    """Refuse groups that have nothing to exchange, and entries without two sides."""
    if not groups or any(len(group) < 2 for group in groups):
        raise ValueError(f"data.pipeline: {kind}: a group needs two entries or more, each [source, target]")
    for entry in (entry for group in groups for entry in group):
        if len(entry) != 2 or not all(side.split() for side in entry):
            raise ValueError(f"data.pipeline: {kind}: {entry} was given; expected [source, target]")
