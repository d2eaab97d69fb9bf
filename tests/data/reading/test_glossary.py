"""Glossaries: what a source matches, and what is refused."""

from __future__ import annotations

import pytest

from weft.data.reading import glossary as glossaries
from weft.data.reading.glossary import Glossary, is_missing
from weft.errors import DataError, WeftWarning


def terms(rows: dict[str, str], source: str) -> list[tuple[str, ...]]:
    [found] = Glossary.of(rows).terms_of([source])
    return found


@pytest.mark.parametrize(
    ("rows", "source", "expected"),
    [
        ({"dog": "Hund|Hunde"}, "a Dog, and a dog", [("Hund", "Hunde")]),
        ({"dog": "Hund"}, "two dogs and a hotdog", []),
        ({"US": "USA"}, "let us go", []),
        ({"US": "USA"}, "the US.", [("USA",)]),
        ({"ice": "Eis", "ice cream": "Speiseeis"}, "ice cream", [("Speiseeis",)]),
        ({"ice": "Eis", "cream ice cream": "x"}, "ice  cream and ice", [("Eis",)]),
        ({"a b": "x", "b c": "y"}, "a b c", [("x",)]),
        ({"go|went": "gehen"}, "he went", [("gehen",)]),
        ({"GitHub": ""}, "on GitHub!", [("GitHub",)]),
        ({"new york": ""}, "in New  York", [("New  York",)]),
        ({"a\\|b": "c"}, "a|b", [("c",)]),
        ({"猫": "cat"}, "小猫吃鱼", [("cat",)]),
        ({"/[A-Z]{2}\\d+/": ""}, "AB12 and CD3 and AB12", [("AB12",), ("CD3",)]),
        ({"/(\\d+) km/": "\\1 Kilometer"}, "for 12 km", [("12 Kilometer",)]),
        ({"a": "b", "b": "a"}, "a", [("b",)]),
    ],
)
def test_terms_of_a_source(rows: dict[str, str], source: str, expected: list[tuple[str, ...]]) -> None:
    assert terms(rows, source) == expected


def test_a_file(tmp_path) -> None:
    path = tmp_path / "terms.tsv"
    path.write_text("Source\tTarget\nGitHub\n\ndog\tHund\tan animal\nDog house\tHundehütte\n", "utf-8")
    glossary = Glossary.read(path)
    assert len(glossary) == 3
    assert glossary.terms_of(["GitHub dog", "a Dog house", "dog house"]) == [
        [("GitHub",), ("Hund",)],
        [("Hundehütte",)],
        [("Hund",)],
    ]


def test_expressions_of_strangers_are_refused_without_being_matched() -> None:
    with pytest.raises(DataError, match="regular expressions are for files alone"):
        Glossary.parse("/" + "((?=)|(?!x))" * 40 + "(?!)/")  # 2^40 steps even in an empty text


def test_contradictions_are_variants_with_a_warning(tmp_path) -> None:
    path = tmp_path / "terms.tsv"
    path.write_text("house\tHaus\nhouse\tGebäude\n", "utf-8")
    with pytest.warns(WeftWarning, match="1 source term with different targets, such as 'house' on lines 1 and 2: any"):
        glossary = Glossary.read(path)
    assert glossary.terms_of(["a house"]) == [[("Haus", "Gebäude")]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no terms; expected lines of a source term, a tab and a target term"),
        (b"\n\n", "no terms"),
        (b"a\tb\n\tHund\n", ":2: '': an empty source term; expected terms"),
        (b"dog\tHund||Hunde\n", ":1: 'Hund||Hunde': an empty target term"),
        (b"dog\tHund\n\xff\tx\n", ":2: "),
        (b"/(a/\tx\n", ":1: /(a/: not a regular expression"),
        (b"/(a)/\t\\2\n", ":1: /(a)/: not a regular expression: invalid group reference"),
        (b"\xf0\x9f\x98\x80 " * 51 + b"\tx\n", "expected a source term of 1 to 50 words"),
        (b"/a/\n" * 101, ":101: more than 100 regular expressions"),
    ],
)
def test_bad_files(tmp_path, content: bytes, message: str) -> None:
    path = tmp_path / "terms.tsv"
    path.write_bytes(content)
    with pytest.raises(DataError) as refused:
        Glossary.read(path)
    assert message in str(refused.value) and "\n" not in str(refused.value)


def test_bad_values() -> None:
    with pytest.raises(DataError, match="glossary: 'a': 1; expected source terms with target terms"):
        Glossary.of({"a": 1})  # type: ignore[dict-item]
    with pytest.raises(DataError, match="no terms"):
        Glossary.of({})


def test_a_slow_expression_is_an_error(monkeypatch) -> None:
    def expand(pattern, template, texts):
        raise glossaries.expressions.SlowExpressionError("takes more than 10 s", texts[0])

    monkeypatch.setattr(glossaries.expressions, "expand", expand)
    with pytest.raises(DataError, match=r"glossary: /\(a\+\)\+\$/: takes more than 10 s on 'aaa'; write it without"):
        terms({"/(a+)+$/": ""}, "aaa")


class CountedTable(dict):
    """A table that counts how often something is looked up in it."""

    lookups = 0

    def __contains__(self, key: object) -> bool:
        self.lookups += 1
        return super().__contains__(key)


def test_many_terms_cost_a_source_nothing() -> None:
    """With 100,000 terms as many are looked up as with ten."""
    lookups = []
    for count in (10, 100_000):
        glossary = Glossary((number, f"word{number} x", "y") for number in range(count))
        glossary._entries = CountedTable(glossary._entries)
        assert glossary.terms_of(["word7 x and word8 y"]) == [[("y",)]]
        lookups.append(glossary._entries.lookups)
    assert lookups[0] == lookups[1] <= 4


def test_missing_terms() -> None:
    assert not is_missing([("Hund", "Hunde"), ("rote Katze",)], "die Rote  Katze und hunde")
    assert is_missing([("Hund",)], "Hunde") and is_missing([("Hund",)], "")


def test_the_longest_term_counts_and_parts_of_longer_ones_that_do_not_follow() -> None:
    """Also where the words between belong to no term, and where the longest is written otherwise."""
    glossary = Glossary.of({"a": "1", "a b c d": "4", "a b": "2", "A B C": "3"})
    assert glossary.terms_of(["a b c", "a b c d", "A B C", "a x a b c e"]) == [
        [("2",)],
        [("4",)],
        [("3",)],
        [("1",), ("2",)],
    ]
