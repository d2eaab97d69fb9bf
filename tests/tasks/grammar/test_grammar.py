# ruff: noqa: E501  (one checked pair a line)
"""The corpus grammar: hand-checked pairs, and what must hold of every pair."""

from __future__ import annotations

import re
from collections import Counter
from itertools import product
from random import Random

import pytest

from weft.data.pairs import Pair
from weft.errors import DataError
from weft.tasks.grammar import french, pair, sample
from weft.tasks.grammar.lexicon import (
    ADJECTIVES,
    ADVERBS,
    AFTER,
    BEFORE,
    CONNECTORS,
    FEELINGS,
    IT,
    MOODS,
    NOUNS,
    PEOPLE,
    PREPOSITIONS,
    PRONOUNS,
    TIMES,
    WEATHER,
)
from weft.tasks.grammar.trees import (
    Clause,
    Coordination,
    CopularClause,
    ExistentialClause,
    NounPhrase,
    PrepositionalPhrase,
    Subject,
)
from weft.tasks.grammar.verbs import OBJECTS, PIE, VERBS
from weft.text.words import words


def np(words_: str, **more: object) -> NounPhrase:
    """A noun phrase from its English: ``np("the small dogs")``; adjectives go before or after by the tables."""
    determiner, *adjectives, last = words_.split()
    determiner = {"an": "a", "-": ""}.get(determiner, determiner)
    if adjectives and adjectives[-1] in ("male", "female"):
        last = f"{adjectives.pop()} {last}"
    plural = last not in NOUNS
    noun = next(noun for noun in NOUNS.values() if last in (noun.english, noun.plural))
    places = {}
    for name in adjectives:
        places["before" if ADJECTIVES[name] in BEFORE[noun.kind] else "after"] = ADJECTIVES[name]
    return NounPhrase(noun, determiner, plural, **places, **more)  # type: ignore[arg-type]


def do(subject: Subject | str | None, verb: str, tense: str = "past", negation: str = "", **more: object) -> Clause:
    who = PRONOUNS[subject] if isinstance(subject, str) else subject
    return Clause(who, VERBS[verb], tense, negation, **more)  # type: ignore[arg-type]


def at(preposition: str, phrase: str) -> PrepositionalPhrase:
    return PrepositionalPhrase(PREPOSITIONS[preposition], np(phrase))


ME, HE, SHE, WE, THEY = (PRONOUNS[name] for name in ("i", "he", "she", "we", "they"))
AND, BUT, BECAUSE, WHEN, WHILE = (CONNECTORS[name] for name in ("and", "but", "because", "when", "while"))

# Trees; English; French; links or None where only the text is checked.
CHECKED = [
    ([do("he", PIE, object=ME)], "he hit me with a pie", "il m'a entarté", "0-0 1-2 1-3 2-1 3-3 4-3 5-3"),
    (
        [do(np("the witch"), PIE, object=np("the king"))],
        "the witch hit the king with a pie",
        "la sorcière a entarté le roi",
        "0-0 1-1 2-2 2-3 3-4 4-5 5-3 6-3 7-3",
    ),
    (
        [do("she", PIE, "past", "not", object=WE)],
        "she did not hit us with a pie",
        "elle ne nous a pas entartés",
        "0-0 1-3 2-1 2-4 3-5 4-2 5-5 6-5 7-5",
    ),
    ([do("they", PIE, "want to", object=SHE)], "they want to hit her with a pie", "ils veulent l'entarter", None),
    ([do("he", PIE, "present", object=THEY)], "he hits them with a pie", "il les entarte", None),
    (
        [do("he", "hit", object=ME, adjuncts=(at("with", "an umbrella"),))],
        "he hit me with an umbrella",
        "il m'a frappé avec un parapluie",
        "0-0 1-2 1-3 2-1 3-4 4-5 5-6",
    ),
    (
        [do("she", "eat", object=np("an apple"))],
        "she ate an apple",
        "elle a mangé une pomme",
        "0-0 1-1 1-2 2-3 3-4",
    ),
    (
        [do("we", "eat", "present", "not", object=np("any eggs"))],
        "we do not eat any eggs",
        "nous ne mangeons pas d'œufs",
        "0-0 2-1 2-3 3-2 4-4 5-5",
    ),
    ([do("he", "buy", "past", "not", object=np("a hat"))], "he did not buy a hat", "il n'a pas acheté de chapeau", None),
    (
        [do("i", "drink", "present", object=np("some water"))],
        "i drink some water",
        "je bois de l'eau",
        "0-0 1-1 2-2 2-3 3-4",
    ),
    ([do("i", "drink", object=np("some good wine"))], "i drank some good wine", "j'ai bu du bon vin", None),
    (
        [do("they", "love", "present", object=np("- bread"))],
        "they love bread",
        "ils aiment le pain",
        "0-0 1-1 2-3",
    ),
    ([do("he", "love", "present", "not", object=np("- oranges"))], "he does not love oranges", "il n'aime pas les oranges", None),
    (
        [CopularClause(np("the horse", possessor=np("the king")), True, ADJECTIVES["tired"])],
        "the horse of the king was tired",
        "le cheval du roi était fatigué",
        "0-0 1-1 2-2 3-2 4-3 5-4 6-5",
    ),
    (
        [do("he", "see", object=np("the house", possessor=np("the hero")))],
        "he saw the house of the hero",
        "il a vu la maison du héros",
        None,
    ),
    ([do("i", "know", "present", object=np("the old man"))], "i know the old man", "je connais le vieil homme", None),
    ([do("i", "see", "present", object=np("a beautiful white bird"))], "i see a beautiful white bird", "je vois un bel oiseau blanc", None),
    ([do("we", "see", object=np("the small white mice"))], "we saw the small white mice", "nous avons vu les petites souris blanches", None),
    ([do("he", "go", adjuncts=(at("to", "a new hotel"),))], "he went to a new hotel", "il est allé à un nouvel hôtel", None),
    ([do("she", "go", adjuncts=(at("to", "the market"),))], "she went to the market", "elle est allée au marché", "0-0 1-1 1-2 2-3 3-3 4-4"),
    ([do(np("two girls"), "leave", time=TIMES["yesterday"])], "two girls left yesterday", "deux filles sont parties hier", None),
    ([do(np("the queen"), "fall", "past", "never")], "the queen never fell", "la reine n'est jamais tombée", "0-0 1-1 2-2 2-4 3-3 3-5"),
    ([do(Coordination(np("the queen"), np("the king")), "arrive")], "the queen and the king arrived", "la reine et le roi sont arrivés", None),
    ([do(Coordination(np("the queen"), np("my aunt")), "arrive")], "the queen and my aunt arrived", "la reine et ma tante sont arrivées", None),
    ([do("he", "see", "past", "not", object=ME)], "he did not see me", "il ne m'a pas vu", "0-0 1-3 2-1 2-4 3-5 4-2"),
    ([do("she", "see", "past", "never", object=HE)], "she never saw him", "elle ne l'a jamais vu", None),
    ([do("i", "see", object=SHE)], "i saw her", "je l'ai vue", "0-0 1-2 1-3 2-1"),
    ([do("they", "wait for", object=WE)], "they waited for us", "ils nous ont attendus", "0-0 1-2 1-3 2-3 3-1"),
    ([do("i", "listen to", "present", object=np("the child"))], "i listen to the child", "j'écoute l'enfant", "0-0 1-1 2-1 3-2 4-3"),
    ([do("he", "see", "can", "not", object=SHE)], "he cannot see her", "il ne peut pas la voir", "0-0 1-1 1-2 1-3 2-5 3-4"),
    ([do("she", "speak", "want to", "not", recipient=THEY)], "she does not want to speak to them", "elle ne veut pas leur parler", "0-0 2-1 2-3 3-2 4-5 5-5 6-4 7-4"),
    ([do("he", "help", "going to", object=np("my friends"))], "he is going to help my friends", "il va aider mes amis", "0-0 1-1 2-1 3-2 4-2 5-3 6-4"),
    ([do("we", "leave", "must", "not", time=TIMES["today"])], "we must not leave today", "nous ne devons pas partir aujourd'hui", "0-0 1-2 2-1 2-3 3-4 4-5 4-6"),
    ([do("he", "give", object=np("the book"), recipient=ME)], "he gave me the book", "il m'a donné le livre", None),
    ([do("he", "give", object=np("the keys"), recipient=SHE)], "he gave her the keys", "il lui a donné les clés", None),
    ([do("i", "show", object=np("a flower"), recipient=np("the children"))], "i showed a flower to the children", "j'ai montré une fleur aux enfants", "0-0 1-1 1-2 2-3 3-4 4-5 5-5 6-6"),
    (
        [CopularClause(np("the apples", relative=do("he", "eat")), True, ADJECTIVES["good"])],
        "the apples that he ate were good",
        "les pommes qu'il a mangées étaient bonnes",
        "0-0 1-1 2-2 3-3 4-4 4-5 5-6 6-7",
    ),
    ([do("we", "meet", object=np("the man", relative=do(None, "sleep", "present")))], "we met the man who sleeps", "nous avons rencontré l'homme qui dort", None),
    ([do("i", "see", object=np("the dog", relative=do(None, "run")))], "i saw the dog that ran", "j'ai vu le chien qui a couru", None),
    ([do("he", "know", "present", object=np("the queen", relative=do(np("a wizard"), PIE)))], "he knows the queen that a wizard hit with a pie", "il connaît la reine qu'un sorcier a entartée", None),
    ([do(np("the old female nurse"), "see", object=np("a male nurse"))], "the old female nurse saw a male nurse", "la vieille infirmière a vu un infirmier", "0-0 1-1 2-2 3-2 4-3 4-4 5-5 6-6 7-6"),
    ([do(np("two female soldiers"), "leave")], "two female soldiers left", "deux soldates sont parties", None),
    ([do("he", "see", object=np("the horse", possessor=np("the heroine")))], "he saw the horse of the heroine", "il a vu le cheval de l'héroïne", None),
    ([do("she", "buy", object=np("a pie")), AND, do("i", "eat", object=IT["f"])], "she bought a pie and i ate it", "elle a acheté une tarte et je l'ai mangée", None),
    ([do("she", "eat", "past", "not", object=np("the soup")), BECAUSE, CopularClause(SHE, True, MOODS["angry"])], "she did not eat the soup because she was angry", "elle n'a pas mangé la soupe parce qu'elle était en colère", None),
    ([CopularClause(ME, False, FEELINGS["hungry"]), BUT, CopularClause(WE, False, FEELINGS["afraid"], "not")], "i am hungry but we are not afraid", "j'ai faim mais nous n'avons pas peur", "0-0 1-1 2-2 3-3 4-4 5-6 6-5 6-7 7-8"),
    ([CopularClause(ME, False, ADJECTIVES["tired"])], "i am tired", "je suis fatigué", None),
    ([do("i", "laugh"), WHEN, do("he", "fall", adjuncts=(at("in front of", "the school"),))], "i laughed when he fell in front of the school", "j'ai ri quand il est tombé devant l'école", None),
    ([do("she", "work", "present"), WHILE, do("he", "sleep", "present")], "she works while he sleeps", "elle travaille pendant qu'il dort", "0-0 1-1 2-2 2-3 3-4 4-5"),
    ([do("he", "drink", "present", adverb=ADVERBS["often"], object=np("some milk"))], "he often drinks some milk", "il boit souvent du lait", "0-0 1-2 2-1 3-3 4-4"),
    ([ExistentialClause(np("many owls"), False, at("near", "the castle"))], "there are many owls near the castle", "il y a beaucoup de hiboux près du château", "0-0 0-1 1-2 2-3 2-4 3-5 4-6 4-7 5-7 6-8"),
    ([ExistentialClause(np("some old clocks"), True, at("under", "the tree"))], "there were some old clocks under the tree", "il y avait de vieilles horloges sous l'arbre", None),
    ([CopularClause(np("my keys"), False, at("in", "his bag"))], "my keys are in his bag", "mes clés sont dans son sac", None),
    ([CopularClause(np("her orange"), False, at("on", "our table"), "not")], "her orange is not on our table", "son orange n'est pas sur notre table", None),
    ([CopularClause(np("this clock"), False, None)], "where is this clock", "où est cette horloge", "0-0 1-1 2-2 3-3"),
    ([do("he", "see", object=np("this hotel"))], "he saw this hotel", "il a vu cet hôtel", None),
    ([do("who", "take", object=np("the axe", possessor=np("the uncle")))], "who took the axe of the uncle", "qui a pris la hache de l'oncle", None),
    ([do("she", "find", question=True, object=np("our letters"))], "did she find our letters", "est-ce qu'elle a trouvé nos lettres", "0-0 0-1 0-3 1-2 2-4 3-5 4-6"),
    ([do(np("the child"), "dance", "present", question=True)], "does the child dance", "est-ce que l'enfant danse", None),
    ([do("we", "have", "past", "not", object=np("a horse"))], "we did not have a horse", "nous n'avions pas de cheval", "0-0 1-2 2-1 2-3 3-2 4-4 5-5"),
    ([WEATHER["it is raining"]], "it is raining", "il pleut", "0-0 1-1 2-1"),
    ([do("i", "work", "present", time=TIMES["every day"])], "i work every day", "je travaille tous les jours", "0-0 1-1 2-2 2-3 3-4"),
    ([do("he", "leave", adjuncts=(PrepositionalPhrase(PREPOSITIONS["without"], np("his coat")),))], "he left without his coat", "il est parti sans son manteau", None),
]  # fmt: skip


@pytest.mark.parametrize(("trees", "source", "target", "links"), CHECKED, ids=[row[1] for row in CHECKED])
def test_hand_checked(trees: list, source: str, target: str, links: str | None) -> None:
    made = pair(*trees)
    assert (made.source, made.target) == (source, target)
    if links is not None:
        assert made.links is not None
        assert " ".join(f"{a}-{b}" for a, b in made.links) == links


def test_table_is_large_enough() -> None:
    assert len(CHECKED) >= 40
    assert sum(row[3] is not None for row in CHECKED) >= 10


@pytest.fixture(scope="module")
def drawn() -> list[Pair]:
    random = Random(7)
    return [sample(random) for _ in range(25_000)]


def test_french_is_a_function_of_english(drawn: list[Pair]) -> None:
    seen: dict[str, str] = {}
    for source, target, _ in drawn:
        assert seen.setdefault(source, target) == target, source


def test_deterministic_for_a_seed() -> None:
    first, second = Random(3), Random(3)
    assert [sample(first) for _ in range(50)] == [sample(second) for _ in range(50)]


def test_default_lengths(drawn: list[Pair]) -> None:
    lengths = Counter(len(words(source)) for source, _, _ in drawn)
    assert set(lengths) == set(range(3, 17))
    assert min(lengths.values()) > 500
    assert 8 <= sum(length * count for length, count in lengths.items()) / len(drawn) <= 9.5


@pytest.mark.parametrize("length", range(3, 61))
def test_every_length_can_be_asked_for(length: int) -> None:
    random = Random(length)
    for _ in range(5):
        assert len(words(sample(random, min_words=length, max_words=length).source)) == length


def test_wide_bounds_reach_every_length() -> None:
    random = Random(11)
    lengths = {len(words(sample(random, min_words=3, max_words=60).source)) for _ in range(8_000)}
    assert lengths == set(range(3, 61))


@pytest.mark.parametrize(("low", "high"), [(9, 8), (2, 2), (0, 10), (61, 70), (3, 61)])
def test_impossible_bounds(low: int, high: int) -> None:
    message = f"grammar: sentences of {low} to {high} words requested; allowed are 3 <= min_words <= max_words <= 60"
    with pytest.raises(DataError, match=re.escape(message)):
        sample(Random(0), min_words=low, max_words=high)


VOWEL = "[aeiouyâàéèêîôœû]|h(?!éros|ibou|ache)"
UNELIDED = re.compile(rf"\b(le|la|je|me|ne|de|que|ce|ma|sa) ({VOWEL})")
FULL_FORM = re.compile(r"\b(beau|nouveau|vieux) (homme|ami|oncle|oiseau|œuf|hôtel|hôpital|arbre)\b")
WRONGLY_ELIDED = re.compile(rf"'(?!hui)(?!{VOWEL})|\b(bel|nouvel|vieil|cet) (?!{VOWEL})")
UNCONTRACTED = re.compile(r"\b(de les?|à les?|de des|de du)\b")


def test_elision_and_contraction_are_never_missed(drawn: list[Pair]) -> None:
    for _, target, _ in drawn:
        assert not UNCONTRACTED.search(target), target
        assert not WRONGLY_ELIDED.search(target), target
        assert not UNELIDED.search(target), target
        assert not FULL_FORM.search(target), target


def test_text_is_plain_and_cut_as_it_was_linked(drawn: list[Pair]) -> None:
    for source, target, _ in drawn[:5_000]:
        for line in (source, target):
            assert line == line.lower()
            assert re.fullmatch(r"[a-zàâçèéêîïôùûœ' -]+", line), line
            assert "  " not in line
        assert all(word.isalpha() for word in words(source))


def test_links(drawn: list[Pair]) -> None:
    unlinked_source: Counter[str] = Counter()
    unlinked_target: Counter[str] = Counter()
    for source, target, links in drawn[:20_000]:
        assert links is not None
        english, french_words = words(source), words(target)
        assert list(links) == sorted(set(links))
        assert all(0 <= a < len(english) and 0 <= b < len(french_words) for a, b in links)
        unlinked_source.update(english[place] for place in set(range(len(english))) - {a for a, _ in links})
        unlinked_target.update(french_words[place] for place in set(range(len(french_words))) - {b for _, b in links})
    assert set(unlinked_source) == {"do", "does"}
    assert set(unlinked_target) == {"le", "la", "l'", "les"}


def test_vocabulary(drawn: list[Pair]) -> None:
    english = Counter(word for source, _, _ in drawn for word in set(words(source)))
    target = Counter(word for _, line, _ in drawn for word in set(words(line)))
    assert 350 <= len(english) <= 500
    assert 550 <= len(target) <= 800
    assert min(english.values()) >= len(drawn) / 2_000
    assert min(target.values()) >= len(drawn) / 8_000
    assert sum(count < len(drawn) / 3_000 for count in target.values()) <= 12


def test_women_and_men_are_balanced(drawn: list[Pair]) -> None:
    """Every profession is said of women and of men, by words of which the grammar has as many, and draws as many."""
    grown = [noun for noun in PEOPLE if noun.kind == "person"]
    women, men = ([noun for noun in grown if noun.gender == gender] for gender in "fm")
    assert len(women) == len(men) == 10
    nouns = {noun.english for noun in grown}
    marked = {name.split()[1] for name in nouns if " " in name}
    assert marked == {"nurse", "baker", "soldier", "thief"}
    assert all({f"male {name}", f"female {name}"} <= nouns and name not in nouns for name in marked)
    french_words = Counter(word for _, target, _ in drawn for word in words(target))
    for woman, man in zip(women, men, strict=True):
        counts = [sum(french_words[form] for form in {noun.french, noun.french_plural}) for noun in (woman, man)]
        assert 0.8 < counts[0] / counts[1] < 1.25, (woman.french, man.french, counts)


def test_more_than_ten_million_pairs() -> None:
    """A lower bound: sentences `SUBJECT VERB OBJECT`, each noun phrase a determiner, at most one adjective and a noun.

    Different trees say different English: subjects and objects differ pairwise (checked here), the verb is the only
    verb of the sentence, so a sentence can be cut in one way only. All are within the default bounds, 3 to 16 words.
    """

    def phrases(nouns: tuple) -> set[str]:
        trees = [
            NounPhrase(noun, determiner, plural, before, after)
            for noun in nouns
            for plural in ((False, True) if noun.plural else (False,))
            for determiner in (("the", "some", "two", "three") if plural else ("the", "this"))
            for before, after in [(None, None)]
            + [(adjective, None) for adjective in BEFORE[noun.kind]]
            + [(None, adjective) for adjective in AFTER[noun.kind]]
        ]
        said = {pair(Clause(tree, VERBS["sleep"], "past")).source.removesuffix(" slept") for tree in trees}
        assert len(said) == len(trees)
        assert max(len(words(line)) for line in said) <= 4
        return said

    subjects = phrases(PEOPLE)
    total = 0
    for name in ("see", "find", "buy", "sell", "look for", "lose", "hide"):
        moods = {
            pair(do("he", name, tense, negation, object=np("the key"))).source
            for tense, negation in product(("past", "present", "wanted to", "can", "must"), ("", "not"))
        }
        things = tuple(noun for noun in OBJECTS[name] if noun.kind not in ("person", "child", "kin"))
        total += len(subjects) * len(moods) * len(phrases(things))
    assert total >= 10_000_000, total


def test_surface() -> None:
    tokens = [("de", (0,)), ("le", (1,)), ("roi", (2,)), ("de", (3,)), ("la", (4,)), ("eau", (5,))]
    assert french.surface(tokens) == [("du", (0, 1)), ("roi", (2,)), ("de", (3,)), ("l'", (4,)), ("eau", (5,))]
    assert french.text([("la", ()), ("hache", ())]) == "la hache"
    assert french.participle("pris", "m", True) == "pris"
