"""Scripts of characters: known letters, all letters against Unicode's own property, and counts against a loop."""

import unicodedata
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.letters import scripts_of
from weft.data.filtering.unicode_scripts import SCRIPTS, code_points, letter_scripts, letters_in, script_of


@pytest.mark.parametrize(
    ("script", "letters"),
    [
        ("Latin", "aZéßøłı\u0153\u1e9eｆªºʰⁿ\u212a"),
        ("Cyrillic", "яЖёіїґѣ"),
        ("Greek", "αΩςἄ\u2126"),
        ("Han", "语漢々𠀀"),
        ("Hiragana", "ひらがなゔゝ"),
        ("Katakana", "カタカナヴｶヽ"),
        ("Hangul", "한글ㄱᄀﾡ"),
        ("Arabic", "مرحباپﷺ"),
        ("Hebrew", "שלום"),
        ("Devanagari", "हिन्दी"),
        ("Bengali", "বাংলা"),
        ("Tamil", "தமிழ்"),
        ("Thai", "ไทยกี่"),
        ("Lao", "ລາວ"),
        ("Khmer", "ខ្មែរ"),
        ("Myanmar", "မြန်မာ"),
        ("Tibetan", "བོད"),
        ("Georgian", "ქართულიᲥ"),
        ("Armenian", "Հայերեն"),
        ("Ethiopic", "አማርኛ"),
        ("Cherokee", "ᏣᎳᎩ"),
        ("Canadian Aboriginal", "ᐃᓄᒃ"),
        ("Nko", "ߒߞߏ"),
        ("Ol Chiki", "ᱚᱞ"),
        ("New Tai Lue", "ᦅ"),
        ("Linear B", "𐀀"),
        ("Tangut", "𗀀"),
        ("Common", "1٣१.,!? \t\n€😀ー\u0301\u200d\ue000\ud800\u0378𝒜µ"),
    ],
)
def test_letters_have_their_script(script, letters):
    assert {script_of(letter) for letter in letters} == {script}


def test_all_letters_agree_with_the_property_of_unicode():
    property_of = pytest.importorskip("fontTools.unicodedata")
    codes = [*range(0x3400), *range(0x3400, 0x9FFF, 50), *range(0xA000, 0xAC00), *range(0xAC00, 0xD7A4, 50)]
    codes += [*range(0xD7A4, 0x17000), *range(0x17000, 0x18800, 50), *range(0x18800, 0x20000)]
    codes += [*range(0x20000, 0x32000, 50)]  # of large blocks of Han, Hangul and Tangut one in fifty
    letters = [chr(code) for code in codes if unicodedata.category(chr(code))[0] == "L"]
    known = {name.replace(" ", "") for name in SCRIPTS}
    wrong = []
    for letter in letters:
        expected = property_of.script_name(property_of.script(letter))
        if expected.replace(" ", "") in known and script_of(letter) != expected:
            wrong.append((letter, expected, script_of(letter)))
    if unicodedata.unidata_version == "14.0.0":
        assert not wrong
    assert len(wrong) < 100  # letters of newer versions of Unicode than the table was made with


def test_counts_are_of_letters_only():
    assert scripts_of("Да, yes! 123 ー 日本語 ひ") == Counter({"Cyrillic": 2, "Latin": 3, "Han": 3, "Hiragana": 1})
    assert scripts_of("... 7") == Counter()


@given(st.lists(st.text(), max_size=6), st.lists(st.sampled_from(SCRIPTS), max_size=4))
def test_letters_of_many_texts_are_counted_as_one_by_one(texts, allowed):
    inside, letters = letters_in(texts, allowed)
    for place, text in enumerate(texts):
        counts = scripts_of(text)
        assert letters[place] == counts.total()
        assert inside[place] == sum(counts[name] for name in set(allowed))


@given(st.text(st.characters()))
def test_places_are_those_in_the_table(text):
    expected = [SCRIPTS.index(script_of(one)) if one.isalpha() else 0 for one in text]
    codes = code_points(text)
    assert codes.tolist() == list(map(ord, text))
    assert letter_scripts(codes).tolist() == expected
    assert letter_scripts(codes).dtype == np.uint8


def test_there_is_room_for_all_scripts():
    assert len(set(SCRIPTS)) == len(SCRIPTS) < 255
