"""English → French sentences whose *it* must be resolved: *il* or *elle*, by the noun that it stands for.

    the cow did not cross the bridge because it was too tired    la vache n'a pas traversé le pont parce qu'elle était …
    the cow did not cross the bridge because it was too narrow   … parce qu'il était trop étroit

What follows *too* decides: an animal can be tired, a bridge narrow, and never the other way round. Half of the animals
and half of the locations are feminine, and every quality is as likely with each, so neither noun by itself, nor the
verb, says what the pronoun is. After an example of Vaswani et al. 2017 ("The animal didn't cross the street because it
was too tired") in the manner of Winograd schemas (Levesque et al. 2012).
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from weft.data.pairs import Pair

ANIMALS = {
    "animal": ("animal", "m"),
    "dog": ("chien", "m"),
    "cat": ("chat", "m"),
    "horse": ("cheval", "m"),
    "cow": ("vache", "f"),
    "goat": ("chèvre", "f"),
    "mouse": ("souris", "f"),
    "tortoise": ("tortue", "f"),
}
LOCATIONS = {
    "bridge": ("pont", "m"),
    "field": ("champ", "m"),
    "garden": ("jardin", "m"),
    "path": ("chemin", "m"),
    "street": ("rue", "f"),
    "river": ("rivière", "f"),
    "road": ("route", "f"),
    "square": ("place", "f"),
}
OF_ANIMALS = {
    "tired": ("fatigué", "fatiguée"),
    "sick": ("malade", "malade"),
    "scared": ("effrayé", "effrayée"),
    "hungry": ("affamé", "affamée"),
    "young": ("jeune", "jeune"),
    "weak": ("faible", "faible"),
}
OF_LOCATIONS = {
    "wide": ("large", "large"),
    "long": ("long", "longue"),
    "narrow": ("étroit", "étroite"),
    "dark": ("sombre", "sombre"),
    "slippery": ("glissant", "glissante"),
    "dangerous": ("dangereux", "dangereuse"),
}
COLORS = {"": ("", ""), "black": ("noir", "noire"), "white": ("blanc", "blanche"), "gray": ("gris", "grise")}
VERBS = {"cross": "traversé", "leave": "quitté", "find": "trouvé", "see": "vu"}
TIMES = {"": "", "yesterday": "hier", "today": "aujourd'hui", "this morning": "ce matin", "then": "puis"}
ARTICLES = {"m": "le", "f": "la"}
PRONOUNS = {"m": "il", "f": "elle"}


class Mention(NamedTuple):
    """Words of a source, counted from 0."""

    pronoun: int
    """*it*"""
    referent: int
    """The noun that it stands for."""
    other: int
    """The other noun."""


def sample(random: Random) -> Pair:
    """A sentence; every combination of its words is equally likely."""
    time, color, verb = (random.choice(list(table)) for table in (TIMES, COLORS, VERBS))
    animal, location = random.choice(list(ANIMALS)), random.choice(list(LOCATIONS))
    of_animal = random.random() < 0.5
    qualities = OF_ANIMALS if of_animal else OF_LOCATIONS
    quality = random.choice(list(qualities))
    nouns = ANIMALS[animal], LOCATIONS[location]
    gender = nouns[0 if of_animal else 1][1]
    english = f"{time} the {color} {animal} did not {verb} the {location} because it was too {quality}"
    subject = _french_subject(*nouns[0], color)
    location_phrase = f"{ARTICLES[nouns[1][1]]} {nouns[1][0]}"
    adjective = qualities[quality][gender == "f"]
    reason = f"parce qu'{PRONOUNS[gender]} était trop {adjective}"
    french = f"{TIMES[time]} {subject} n'a pas {VERBS[verb]} {location_phrase} {reason}"
    return Pair(" ".join(english.split()), " ".join(french.split()))


def _french_subject(noun: str, gender: str, color: str) -> str:
    article = "l'" if noun[0] in "aeiou" else f"{ARTICLES[gender]} "
    return f"{article}{noun} {COLORS[color][gender == 'f']}"


def find_mention(source: str) -> Mention:
    """Where the pronoun of a source of this task is, and what it stands for."""
    words = source.split()
    animal = next(index for index, word in enumerate(words) if word in ANIMALS)
    location = next(index for index, word in enumerate(words) if word in LOCATIONS)
    nouns = (animal, location) if words[-1] in OF_ANIMALS else (location, animal)
    return Mention(words.index("it"), *nouns)
