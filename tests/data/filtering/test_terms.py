"""Terms that are written into training sources."""

import re

from weft.data.filtering.pipeline import Pipeline
from weft.data.filtering.terms import AnnotateTerms
from weft.data.pairs import Pair
from weft.data.reading.glossary import annotated

PAIRS = [Pair(f"a dog {number}", f"{number} Hunde") for number in range(400)]


def glossary(tmp_path, text="dog\tHund|Hunde|Hunden\ncat\tKatze\n"):
    path = tmp_path / "terms.tsv"
    path.write_text(text, "utf-8")
    return str(path)


def shown(pairs):
    """The term in each source; None if it has none."""
    matches = [re.search("⟦ (.*) ⟧", pair.source) for pair in pairs]
    return [match and match[1] for match in matches]


def test_the_first_variant_or_the_one_that_occurs_is_shown_half_of_the_time_each(tmp_path):
    terms = shown(Pipeline([AnnotateTerms(file=glossary(tmp_path), share=0.6)], seed=1).run(PAIRS).pairs)
    counts = {term: terms.count(term) for term in set(terms)}
    assert set(counts) == {None, "Hund", "Hunde"}
    assert 100 < counts[None] < 220 and 70 < counts["Hund"] < 170 and 70 < counts["Hunde"] < 170


def test_a_term_that_its_target_lacks_is_not_shown(tmp_path):
    pairs = [Pair("a dog", "ein Tier"), Pair("the cat", "die Katze"), Pair("cats", "Katze")]
    step = AnnotateTerms(file=glossary(tmp_path), share=1)
    assert [pair.source for pair in Pipeline([step], seed=1).run(pairs).pairs] == [
        "a dog",
        "the cat ⟦ Katze ⟧",
        "cats",
    ]


def test_validation_pairs_and_words_in_between(tmp_path):
    step = AnnotateTerms(file=glossary(tmp_path), share=1)
    assert Pipeline([step], seed=1).for_evaluation().run(PAIRS[:3]).pairs == PAIRS[:3]
    kept = Pair("a dog, a cat!", "Hund und Katze", ((0, 0),))
    [changed] = Pipeline([step], seed=1).run([kept]).pairs
    assert changed == ("a dog ⟦ Hund ⟧, a cat ⟦ Katze ⟧!", "Hund und Katze", None), "links of other words are dropped"
    assert annotated("a ⟦b⟧ c", [(1, "x⟧")]) == "a ⟦ x] ⟧ [b] c"


def test_draws_depend_on_the_seed_and_the_pair_alone(tmp_path):
    step = AnnotateTerms(file=glossary(tmp_path))
    first, again = (Pipeline([step], seed=1).run(pairs).pairs for pairs in (PAIRS, PAIRS[::-1]))
    assert first == again[::-1] != Pipeline([step], seed=2).run(PAIRS).pairs
