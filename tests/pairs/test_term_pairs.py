"""Terms that are found in pairs."""

from random import Random

from weft.data.pairs import Pair
from weft.pairs.term_pairs import find_terms

NOUNS = {"dog": "chien", "cat": "chat", "horse": "cheval", "king": "roi", "milk": "lait", "bread": "pain"}
VERBS = {"sees": "voit", "likes": "aime", "eats": "mange"}


def corpus(count: int) -> list[Pair]:
    random = Random(1)
    pairs = []
    for _ in range(count):
        noun, other, verb = random.choice([*NOUNS]), random.choice([*NOUNS]), random.choice([*VERBS])
        article = random.choice(["the", "that"])
        plural = random.random() < 0.3 and other not in ("horse", "milk")
        objects = (f"{other}s", f"les {NOUNS[other]}s") if plural else (f"a {other}", f"un {NOUNS[other]}")
        pairs.append(Pair(f"{article} {noun} {verb} {objects[0]}", f"le {NOUNS[noun]} {VERBS[verb]} {objects[1]}"))
    return pairs


def test_words_are_found_with_their_translations(monkeypatch):
    monkeypatch.setattr("weft.pairs.term_pairs.FREQUENT", 1.0)
    terms = {term.source: term.variants for term in find_terms(corpus(300))}
    for noun, target in NOUNS.items():
        assert terms[noun][0] == target
    assert all(len(variants) == len(set(variants)) for variants in terms.values())


def test_frequent_and_rare_words_are_none():
    pairs = [*corpus(300), Pair("the zebra sees a dog", "le zèbre voit un chien")]
    terms = {term.source for term in find_terms(pairs)}
    assert "the" not in terms and "zebra" not in terms


def test_no_pairs_have_no_terms():
    assert find_terms([Pair("a b", "c d")]) == []
