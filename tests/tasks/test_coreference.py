"""Sentences with *it*: known translations, balanced, and no part but the quality says which noun it is."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from weft.tasks import generate
from weft.tasks.coreference import ANIMALS, LOCATIONS, OF_ANIMALS, OF_LOCATIONS, PRONOUNS, find_mention, sample

PAIRS = list(generate("coreference", "train", 4_000))


class Fixed(Random):
    """Draws the choices that it is given."""

    def __init__(self, *choices: str, of_animal: bool) -> None:
        super().__init__(0)
        self.choices_left, self.of_animal = list(choices), of_animal

    def choice(self, seq):  # type: ignore[no-untyped-def]
        item = self.choices_left.pop(0)
        assert item in seq
        return item

    def random(self) -> float:
        return 0.0 if self.of_animal else 0.9


@pytest.mark.parametrize(
    ("choices", "of_animal", "source", "target"),
    [
        (
            ("", "", "cross", "animal", "street", "tired"),
            True,
            "the animal did not cross the street because it was too tired",
            "l'animal n'a pas traversé la rue parce qu'il était trop fatigué",
        ),
        (
            ("", "", "cross", "animal", "street", "wide"),
            False,
            "the animal did not cross the street because it was too wide",
            "l'animal n'a pas traversé la rue parce qu'elle était trop large",
        ),
        (
            ("this morning", "white", "leave", "cow", "bridge", "scared"),
            True,
            "this morning the white cow did not leave the bridge because it was too scared",
            "ce matin la vache blanche n'a pas quitté le pont parce qu'elle était trop effrayée",
        ),
        (
            ("today", "gray", "see", "goat", "path", "slippery"),
            False,
            "today the gray goat did not see the path because it was too slippery",
            "aujourd'hui la chèvre grise n'a pas vu le chemin parce qu'il était trop glissant",
        ),
    ],
)
def test_known_sentences(choices: tuple[str, ...], of_animal: bool, source: str, target: str) -> None:
    pair = sample(Fixed(*choices, of_animal=of_animal))
    assert (pair.source, pair.target) == (source, target)


def test_the_mention() -> None:
    words = [
        "today",
        "the",
        "gray",
        "goat",
        "did",
        "not",
        "see",
        "the",
        "path",
        "because",
        "it",
        "was",
        "too",
        "slippery",
    ]
    mention = find_mention(" ".join(words))
    assert [words[index] for index in mention] == ["it", "path", "goat"]
    for pair in PAIRS[:200]:
        words, mention = pair.source.split(), find_mention(pair.source)
        gender = {**ANIMALS, **LOCATIONS}[words[mention.referent]][1]
        assert f"parce qu'{PRONOUNS[gender]} était" in pair.target


def test_genders_are_balanced() -> None:
    for nouns in (ANIMALS, LOCATIONS):
        assert Counter(gender for _, gender in nouns.values()) == {"m": len(nouns) // 2, "f": len(nouns) // 2}
    shares = Counter("qu'elle " in pair.target for pair in PAIRS)
    assert 0.46 < shares[True] / len(PAIRS) < 0.54


@pytest.mark.parametrize("word", [*ANIMALS, *LOCATIONS, *OF_ANIMALS, *OF_LOCATIONS])
def test_no_single_word_says_which_pronoun(word: str) -> None:
    """A noun alone leaves it open by half of the sentences; a quality alone leaves the gender open."""
    feminine = ["qu'elle " in pair.target for pair in PAIRS if f" {word} " in f" {pair.source} "]
    assert len(feminine) > 100 and 0.15 < sum(feminine) / len(feminine) < 0.85
