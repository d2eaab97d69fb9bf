"""Similar translations as a further source column."""

from itertools import pairwise, product

from weft.data.filtering.fuzzy import AddMatch
from weft.data.filtering.pipeline import Pipeline
from weft.data.pairs import Pair
from weft.data.reading.translation_memory import TranslationMemory

PAIRS = [Pair(" ".join(words), " ".join(words).upper()) for words in product("abcd", "efg", "hij", "klm")]


def memory(tmp_path, pairs=PAIRS):
    path = tmp_path / "memory.tsv"
    path.write_text("".join(f"{pair.source}\t{pair.target}\n" for pair in pairs), "utf-8")
    return str(path)


def differences(left: str, right: str) -> int:
    """Substituted words of texts of the same length."""
    return sum(a != b for a, b in zip(left.split(), right.split(), strict=True))


def test_the_column_is_the_target_of_the_most_similar_other_pair(tmp_path):
    changed = Pipeline([AddMatch(file=memory(tmp_path), empty=0)], seed=1).run(PAIRS).pairs
    for pair, new in zip(PAIRS, changed, strict=True):
        source, match = new.source.split("\t")
        assert source == pair.source and new.target == pair.target
        assert differences(match, pair.target) == 1, "never its own target"


def test_some_columns_are_empty_in_training_alone(tmp_path):
    pipeline = Pipeline([AddMatch(file=memory(tmp_path), empty=0.4)], seed=1)
    empty = sum(pair.source.endswith("\t") for pair in pipeline.run(PAIRS).pairs)
    assert 20 < empty < 70
    evaluated = pipeline.for_evaluation().run(PAIRS).pairs
    assert not any(pair.source.endswith("\t") for pair in evaluated)
    assert all(a.source != b.source for a, b in pairwise(evaluated))


def test_nothing_similar_leaves_the_column_empty(tmp_path):
    path = memory(tmp_path, [Pair("x y z", "1"), Pair("a b c d", "of  two words")])
    pairs = [Pair("q r", "2"), Pair("a b c e", "3"), Pair("a e f g", "4")]
    step = AddMatch(file=path, empty=0, min_similarity=0.7)
    changed = Pipeline([step], seed=1).run(pairs).pairs
    assert [pair.source for pair in changed] == ["q r\t", "a b c e\tof two words", "a e f g\t"]


def test_a_source_is_looked_up_once_until_the_file_changes(tmp_path, monkeypatch):
    found = []
    plain = TranslationMemory.similar_target
    monkeypatch.setattr(TranslationMemory, "similar_target", lambda *given: found.append(given[1]) or plain(*given))
    step = AddMatch(file=memory(tmp_path), empty=0)
    first, again = (Pipeline([step], seed=1).run(PAIRS[:5], variant).pairs for variant in range(2))
    assert first == again and found == [pair.source for pair in PAIRS[:5]]
    memory(tmp_path, [Pair("a e h q", "new")])
    assert Pipeline([step], seed=1).run(PAIRS[:1]).pairs[0].source.split("\t")[1] == "new"
