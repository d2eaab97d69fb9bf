"""Translation memories: what is found, in what order, and what is refused."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from weft.data.pairs import Pair
from weft.data.reading.translation_memory import (
    MAX_WORDS,
    MIN_SIMILARITY,
    TranslationMemory,
    word_distances,
)
from weft.errors import DataError


def distance(left: list[str], right: list[str]) -> int:
    """The Levenshtein distance, by its recursion."""
    table = [[i + j if not i or not j else 0 for j in range(len(right) + 1)] for i in range(len(left) + 1)]
    for i in range(1, len(left) + 1):
        for j in range(1, len(right) + 1):
            substituted = table[i - 1][j - 1] + (left[i - 1] != right[j - 1])
            table[i][j] = min(table[i - 1][j] + 1, table[i][j - 1] + 1, substituted)
    return table[-1][-1]


def random_texts(count: int, seed: int) -> list[str]:
    random = Random(seed)
    return [" ".join(f"w{random.randrange(11)}" for _ in range(random.randrange(1, 8))) for _ in range(count)]


def test_distances_are_those_of_the_recursion() -> None:
    texts = [text.split() for text in random_texts(31, seed=1)]
    ids = {f"w{number}": number for number in range(11)}
    rows = [np.array([ids[word] for word in text]) for text in texts]
    for text, row in zip(texts[:13], rows[:13], strict=True):
        assert word_distances(row, rows).tolist() == [distance(text, other) for other in texts]
    assert word_distances(np.array([-1, 3]), [np.array([3]), np.array([5, 3])]).tolist() == [1, 1]


def test_what_is_found_is_what_a_search_through_all_pairs_finds() -> None:
    sources = list(dict.fromkeys(random_texts(211, seed=2)))
    memory = TranslationMemory([Pair(source, source.upper()) for source in sources])
    for text in random_texts(61, seed=3):
        if text in sources:
            assert memory.find(text) == ((text, text.upper(), 1.0, True),)
            continue
        all_similar = [
            (1 - distance(text.split(), source.split()) / max(len(text.split()), len(source.split())), -row)
            for row, source in enumerate(sources)
        ]
        expected = [(value, -row) for value, row in sorted(all_similar, reverse=True) if value >= MIN_SIMILARITY][:3]
        matches = memory.find(text)
        assert [match.similarity for match in matches] == pytest.approx([value for value, _ in expected])
        assert [match.source for match in matches] == [sources[row] for _, row in expected]


def test_spaces_case_and_several_targets() -> None:
    memory = TranslationMemory.of(
        [("we  slept .", "a"), ("we slept .", "b"), ("we slept .", "b "), ("", "x"), ("y", " ")]
    )
    assert len(memory) == 1 and memory.find(" we slept  . ") == (("we slept .", "b", 1.0, True),)
    [match] = memory.find("We slept .")
    assert match.similarity == 1.0 and not match.exact
    assert memory.find("") == () == memory.find("они спали")
    assert TranslationMemory.of({"小猫吃鱼": "a"}).find("小狗吃鱼")[0].similarity == 0.75


def test_the_most_frequent_target_counts() -> None:
    for targets in ("aaabb", "bbaaa", "abaab", "a", "aab"):
        assert TranslationMemory.of([("we slept", target) for target in targets]).find("we slept")[0].target == "a"


def test_long_sources_and_a_file(tmp_path) -> None:
    long = " ".join(f"w{number}" for number in range(10 * MAX_WORDS))
    path = tmp_path / "pairs.tsv"
    path.write_text(f"{long}\tlong\nwe slept\tnous avons dormi\n", "utf-8")
    memory = TranslationMemory.read(path)
    assert memory.find(long + " x")[0].target == "long"
    assert TranslationMemory.of(path).digest == memory.digest != TranslationMemory.of({"a": "b"}).digest


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "pairs.tsv: no pairs; expected lines of a source, a tab and its translation"),
        (b"a\t\n \tb\n", "pairs.tsv: no pairs; expected lines of a source, a tab and its translation"),
        (b"a\n", "pairs.tsv:1: 1 column, expected 2"),
        (b"a\t\xff\n", "pairs.tsv:1: "),
    ],
)
def test_files_that_are_refused(tmp_path, monkeypatch, content: bytes, message: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pairs.tsv").write_bytes(content)
    with pytest.raises(DataError) as error:
        TranslationMemory.of("pairs.tsv")
    assert message in str(error.value) and "\n" not in str(error.value)


def test_values_that_are_refused() -> None:
    with pytest.raises(DataError, match=r"memory: \('a',\); expected pairs of a source and its translation"):
        TranslationMemory.of([("a",)])  # type: ignore[list-item]
