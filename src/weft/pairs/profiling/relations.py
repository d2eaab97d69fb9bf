"""How the two sides of the pairs are related: what is copied, and in which order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from unicodedata import normalize

from weft.text.string_distance import common_subsequence
from weft.text.words import words

COMPARED_PAIRS = 1_000
"""Pairs whose longest common subsequences are computed."""
COMPARED_CHARACTERS = 300
"""Characters of a text that are compared."""
RARE = 3
"""A word that occurs in at most this many targets of the sample is rare."""


@dataclass(frozen=True)
class Relations:
    """Shares over the pairs of a sample; some with their chance level: that of sources and targets of other pairs."""

    copied_words: float
    """The share of target words, letters or digits in them, that are in their source."""
    copied_words_by_chance: float
    copied_rare_words: float
    """The share of rare target words, which a vocabulary lacks or a model has hardly seen, that are in their source."""
    rare_words: float
    """The share of rare words among those target words."""
    monotone: float
    """The share of copied words that a common subsequence covers: 1 if they keep their order."""
    common_characters: float
    """The length of the longest common subsequence of characters, as a share of the target's."""
    common_characters_by_chance: float
    identical: float
    """The share of pairs whose sides are equal."""
    length_ratio: float
    """Target characters per source character."""
    aligned: float = 0.0
    """The extent to which a source character determines the target unit at the same relative position: their mutual
    information as a share of the unit's entropy. High for transcriptions, whatever the scripts, and near its chance
    level if units move. Units are what is between spaces or, in targets of one or two tokens, characters."""
    aligned_by_chance: float = 0.0
    units_per_character: float = 1.0
    """Target units per source character, a Korean syllable being two or three."""


def relate(sources: Sequence[str], targets: Sequence[str]) -> Relations:
    """The relations of the pairs of a sample."""
    count = max(1, len(sources))
    half = len(sources) // 2  # far from its own place: neighbors may share a word, or be sorted
    shifted = [*sources[half:], *sources[:half]]
    source_words = [_content(text) for text in sources]
    target_words = [_content(text) for text in targets]
    frequencies = Counter(word for text in target_words for word in set(text))
    rare = [[word for word in text if frequencies[word] <= RARE] for text in target_words]
    every = max(1, len(sources) // COMPARED_PAIRS)
    chosen = range(0, len(sources), every)
    letters = [_letters(sources[index]) for index in chosen]
    units = _units([targets[index] for index in chosen])
    middle = len(letters) // 2
    return Relations(
        copied_words=_contained(target_words, source_words),
        copied_words_by_chance=_contained(target_words, [*source_words[half:], *source_words[:half]]),
        copied_rare_words=_contained(rare, source_words),
        rare_words=sum(map(len, rare)) / max(1, sum(map(len, target_words))),
        monotone=_monotone([source_words[index] for index in chosen], [target_words[index] for index in chosen]),
        common_characters=_common([sources[index] for index in chosen], [targets[index] for index in chosen]),
        common_characters_by_chance=_common([shifted[index] for index in chosen], [targets[index] for index in chosen]),
        identical=sum(source == target for source, target in zip(sources, targets, strict=True)) / count,
        length_ratio=sum(map(len, targets)) / max(1, sum(map(len, sources))),
        aligned=_aligned(letters, units),
        aligned_by_chance=_aligned([*letters[middle:], *letters[:middle]], units),
        units_per_character=sum(map(len, units)) / max(1, sum(map(len, letters))),
    )


def _content(text: str) -> list[str]:
    """The words of a text that have a letter or a digit."""
    return [word for word in words(text[: 20 * COMPARED_CHARACTERS]) if any(map(str.isalnum, word))]


def _letters(text: str) -> str:
    """The characters of a text that are not white space; Korean syllables are decomposed, as their tokenizer does."""
    characters = "".join(text[:COMPARED_CHARACTERS].split())
    return "".join(normalize("NFD", letter) if "가" <= letter <= "힣" else letter for letter in characters)


def _units(texts: Sequence[str]) -> list[Sequence[str]]:
    spaced = [text[: 4 * COMPARED_CHARACTERS].split()[:COMPARED_CHARACTERS] for text in texts]
    if spaced and sorted(map(len, spaced))[len(spaced) // 2] > 2:
        return [*spaced]
    return ["".join(tokens)[:COMPARED_CHARACTERS] for tokens in spaced]


def _aligned(sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]) -> float:
    """I(X; Y) / H(Y) of a target unit Y at position k of m and the source character X at position ⌊(k + ½) n / m⌋."""
    joint: Counter[tuple[str, str]] = Counter()
    for source, target in zip(sources, targets, strict=True):
        n, m = len(source), len(target)
        joint.update((source[(2 * k + 1) * n // (2 * m)], unit) for k, unit in enumerate(target) if n)
    total = joint.total()
    characters, units = Counter[str](), Counter[str]()
    for (character, unit), count in joint.items():
        characters[character] += count
        units[unit] += count
    entropy = sum(count / total * log(total / count) for count in units.values())
    information = sum(
        count / total * log(count * total / (characters[character] * units[unit]))
        for (character, unit), count in joint.items()
    )
    return information / entropy if entropy else 0.0


def _contained(parts: Sequence[Sequence[str]], wholes: Sequence[Sequence[str]]) -> float:
    """The share of all tokens of the parts that the whole beside them contains."""
    contained = 0
    for part, whole in zip(parts, wholes, strict=True):
        known = set(whole)
        contained += sum(token in known for token in part)
    return contained / max(1, sum(map(len, parts)))


def _monotone(sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]) -> float:
    copied = kept = 0
    for source, target in zip(sources, targets, strict=True):
        known = set(source)
        tokens = [token for token in target[:COMPARED_CHARACTERS] if token in known]
        copied += len(tokens)
        kept += common_subsequence(source, tokens)
    return kept / copied if copied else 0.0


def _common(sources: Sequence[str], targets: Sequence[str]) -> float:
    limit = COMPARED_CHARACTERS
    total = sum(min(len(target), limit) for target in targets)
    pairs = zip(sources, targets, strict=True)
    return sum(common_subsequence(source[:limit], target[:limit]) for source, target in pairs) / max(1, total)
